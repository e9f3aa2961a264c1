//! Lifecycle hooks of Auto Scaling groups, which hold a terminating instance until the hook is completed.

use aws_sdk_autoscaling::Client;
use model::{InstanceId, interruption::LifecycleHook};
use ports::CloudError;

use crate::errors::refused;

pub(super) async fn complete(
    autoscaling: &Client,
    id: &InstanceId,
    hook: &LifecycleHook,
) -> Result<(), CloudError> {
    let call = autoscaling
        .complete_lifecycle_action()
        .auto_scaling_group_name(&hook.group)
        .lifecycle_hook_name(&hook.name)
        .set_lifecycle_action_token(token(hook))
        .lifecycle_action_result("CONTINUE")
        .instance_id(id.as_str());
    let done = call.send().await.map(drop);
    unless_over(done.map_err(refused("autoscaling:CompleteLifecycleAction")))
}

pub(super) async fn extend(
    autoscaling: &Client,
    id: &InstanceId,
    hook: &LifecycleHook,
) -> Result<(), CloudError> {
    let call = autoscaling
        .record_lifecycle_action_heartbeat()
        .auto_scaling_group_name(&hook.group)
        .lifecycle_hook_name(&hook.name)
        .set_lifecycle_action_token(token(hook))
        .instance_id(id.as_str());
    let done = call.send().await.map(drop);
    unless_over(done.map_err(refused("autoscaling:RecordLifecycleActionHeartbeat")))
}

/// The token of a lifecycle action. Without one, the instance's id identifies the action.
fn token(hook: &LifecycleHook) -> Option<String> {
    (!hook.token.is_empty()).then(|| hook.token.clone())
}

/// Ignores the refusal of an action that was already completed or has timed out; Auto Scaling refuses it like an invalid request.
fn unless_over(done: Result<(), CloudError>) -> Result<(), CloudError> {
    match done {
        Err(CloudError::Invalid { message, .. })
            if message.contains("No active Lifecycle Action") =>
        {
            Ok(())
        }
        done => done,
    }
}
