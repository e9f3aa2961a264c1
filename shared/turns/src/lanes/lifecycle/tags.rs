//! Tags of instances with the names of their node and NodeClaim (docs/spec/aws.md#resource-tags, docs/spec/aws.md#tagging).

use std::collections::BTreeMap;

use api::names::{annotation, tag};
use model::{InstanceId, NodeName, node_claim::NodeClaim, plan::NodeClaimUpdate};
use ports::{CloudError, ClusterError};

use crate::{
    Report, TurnError,
    act::backoff::Backoff,
    context::{
        Turn,
        isolation::AFTER_REFUSAL,
        node_claims::{instance_of, target_of},
    },
};

/// Prefix of ledger keys of NodeClaims whose instance could not be tagged, or that could not be marked as tagged.
const REFUSED_PREFIX: &str = "tags-refused/";

/// Tags instances once the names of their node and NodeClaim are known.
pub(super) async fn tag_instances(
    turn: &Turn<'_>,
    claims: &[NodeClaim],
    report: &mut Report,
) -> Result<(), TurnError> {
    let untagged: Vec<_> = claims.iter().filter_map(untagged).collect();
    if untagged.is_empty() {
        return Ok(());
    }
    let mut backoff = Backoff::read(turn, REFUSED_PREFIX).await?;
    for (claim, node, instance) in untagged {
        let since = claim.created_at.unwrap_or(turn.now);
        if backoff.holds(claim.uid.as_str(), since, report) {
            continue;
        }
        let tagged = tag_instance(turn, claim, node, &instance).await;
        match report.isolate(&target_of(claim), tagged) {
            Ok(Some(())) => {}
            Ok(None) => backoff.record_refusal(claim.uid.as_str(), since).await?,
            // The others would wait too.
            Err(TurnError::Cloud(error @ CloudError::Postponed { until, .. })) => {
                report.postpone(&error.to_string(), until);
                break;
            }
            Err(error) => {
                report.problems.push(format!("tags of {instance}: {error}"));
                report.run_again_at(turn.now + AFTER_REFUSAL);
                break;
            }
        }
    }
    Ok(())
}

/// A NodeClaim with the names that its instance lacks as tags.
fn untagged(claim: &NodeClaim) -> Option<(&NodeClaim, &NodeName, InstanceId)> {
    let tagged = claim.annotations.get(annotation::TAGGED);
    if claim.deleted_at.is_some() || tagged.is_some_and(|tagged| tagged == "true") {
        return None;
    }
    Some((claim, claim.status.node_name.as_ref()?, instance_of(claim)?))
}

async fn tag_instance(
    turn: &Turn<'_>,
    claim: &NodeClaim,
    node: &NodeName,
    instance: &InstanceId,
) -> Result<(), TurnError> {
    let tags = BTreeMap::from([
        (tag::NAME.to_owned(), node.0.clone()),
        (tag::NODE_CLAIM.to_owned(), claim.name.0.clone()),
    ]);
    match turn.world.cloud.tag(turn.cluster, instance, &tags).await {
        Ok(()) => {}
        Err(CloudError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        set_annotations: BTreeMap::from([(annotation::TAGGED.to_owned(), "true".to_owned())]),
        ..NodeClaimUpdate::default()
    };
    match turn.api.update_node_claim(&update).await {
        Ok(_) | Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
