//! Lifecycle hooks of Auto Scaling groups, which hold an instance until somebody says that it may go.

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

/// The instance's id alone names the action too.
fn token(hook: &LifecycleHook) -> Option<String> {
    (!hook.token.is_empty()).then(|| hook.token.clone())
}

/// An action that was completed, or whose time is over, is refused like a request that is wrong.
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
