//! Notices of interruptions, by the NodeClaim of the instance that each names.

use std::collections::BTreeMap;

use api::names::label::CAPACITY_TYPE;
use model::{
    CapacityType, InstanceId, InterruptionKind, interruption::InterruptionAction, ledger::Notice,
    node_claim::NodeClaim,
};

use crate::{
    context::node_claims::instance_of, settings::interruption_annotations::InterruptionAnnotations,
};

/// Separates notices from those that cannot be about the instance that they name, by its NodeClaim. Without a NodeClaim a
/// notice is believed.
pub(crate) fn split_refuted(
    notices: Vec<Notice>,
    claims: &[NodeClaim],
) -> (Vec<Notice>, Vec<Notice>) {
    let of: BTreeMap<InstanceId, &NodeClaim> = claims
        .iter()
        .filter_map(|claim| Some((instance_of(claim)?, claim)))
        .collect();
    notices.into_iter().partition(|notice| {
        let kind = InterruptionKind::named(&notice.kind);
        let claim = of.get(&notice.instance);
        notice.unmanaged
            || kind
                .zip(claim)
                .is_none_or(|(kind, claim)| can_happen(kind, claim))
    })
}

pub(crate) fn can_happen(kind: InterruptionKind, claim: &NodeClaim) -> bool {
    let capacity_type = claim.labels.get(CAPACITY_TYPE);
    let capacity_type = capacity_type.and_then(|value| value.parse::<CapacityType>().ok());
    capacity_type.is_none_or(|capacity_type| kind.applies_to_capacity_type(capacity_type))
}

/// Action for the node of a NodeClaim by a notice that may be older than its NodePool's current annotations.
pub(crate) fn action(
    notice: &Notice,
    claim: &NodeClaim,
    pools: &[model::node_pool::NodePool],
) -> InterruptionAction {
    let Some(kind) = InterruptionKind::named(&notice.kind) else {
        return notice.action;
    };
    let name = claim.node_pool();
    let mut pools = pools.iter();
    let pool = pools.find(|pool| Some(&pool.name) == name.as_ref());
    InterruptionAnnotations(pool.map(|pool| &pool.annotations))
        .announced_action(kind, notice.action)
}
