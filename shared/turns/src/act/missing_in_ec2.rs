use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::InstanceId;
use ports::CloudError;

use super::terminations::end_instances;
use crate::{TurnError, context::Turn};

/// Terminates an instance that EC2 does not list. Returns whether its NodeClaim may be removed. Descriptions lag behind: an
/// unlisted instance may run until its termination is accepted. A refusal does not prove absence, since EC2 also refuses
/// to terminate existing instances; the answer that the instance is unknown does. That answer is about a whole call, so each
/// instance has its own.
pub(crate) async fn terminate_missing_in_ec2(
    turn: &Turn<'_>,
    instance: InstanceId,
    since: Timestamp,
    recently_refused: &BTreeSet<InstanceId>,
) -> Result<bool, TurnError> {
    if recently_refused.contains(&instance) {
        return Ok(false);
    }
    let due = BTreeMap::from([(instance.clone(), since)]);
    let results = end_instances(turn.world, turn.cluster, &due).await?;
    if results.ended.contains(&instance) {
        return Ok(true);
    }
    if let Some(refusal) = results.refused.get(&instance) {
        if !turn.world.cloud.knows_instance(&instance).await? {
            return Ok(true);
        }
        return Err(TurnError::Cloud(CloudError::Invalid {
            action: format!("terminating instance {instance}"),
            code: refusal.code.clone(),
            message: format!("{}; {}", refusal.message, refusal.remedy()),
        }));
    }
    match results.unanswered {
        Some((_, CloudError::Postponed { .. })) | None => Ok(false),
        Some((_, error)) => Err(error.into()),
    }
}
