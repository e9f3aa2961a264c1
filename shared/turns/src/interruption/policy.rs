//! Reaction to an interruption where it depends on the cluster: on the annotations of its NodePool, and for state changes on
//! whether they were expected.

use std::sync::Arc;

use api::NodePool;
use model::{interruption::InterruptionAction, node_claim::NodeClaim};

use super::LocatedFact;
use crate::{
    TurnError, observe::notices::can_happen,
    settings::interruption_annotations::InterruptionAnnotations,
};

pub(super) enum Decision {
    Obey(InterruptionAction),
    /// The NodeClaim is gone or being deleted: no action is needed.
    Expected,
    Tolerate,
    /// The NodeClaim shows that the event cannot happen to this instance, so EC2 did not send it.
    Refute,
}

impl Decision {
    /// The action that the fact requires.
    pub(super) fn required_action(&self) -> Option<InterruptionAction> {
        match self {
            Self::Obey(action) => Some(*action),
            Self::Expected | Self::Tolerate | Self::Refute => None,
        }
    }
}

/// Decides about each fact. Facts that require an action regardless of the cluster are obeyed even if it does not answer.
pub(super) fn decide_all(
    pools: &[NodePool],
    located: &[LocatedFact<'_>],
    claims: &[Result<Option<NodeClaim>, Arc<TurnError>>],
) -> Vec<Result<Decision, Arc<TurnError>>> {
    let decide =
        |(located, claim): (&LocatedFact<'_>, &Result<Option<NodeClaim>, Arc<TurnError>>)| {
            let kind = located.fact.kind;
            let claim = match (claim, kind.action()) {
                (Ok(claim), _) => claim.as_ref(),
                (Err(_), Some(action)) => return Ok(Decision::Obey(action)),
                // Such a fact is not urgent: its message may wait for the API server.
                (Err(error), None) => return Err(Arc::clone(error)),
            };
            if claim.is_some_and(|claim| !can_happen(kind, claim)) {
                return Ok(Decision::Refute);
            }
            let alive = claim.filter(|claim| claim.deleted_at.is_none());
            let name = alive.and_then(NodeClaim::node_pool);
            let named = |pool: &&NodePool| {
                Some(pool.metadata.name.as_str()) == name.as_ref().map(|name| name.as_str())
            };
            let annotations = InterruptionAnnotations(
                pools
                    .iter()
                    .find(named)
                    .map(|pool| &pool.metadata.annotations),
            );
            Ok(match (kind.action(), alive) {
                (Some(action), Some(_)) => {
                    Decision::Obey(annotations.announced_action(kind, action))
                }
                (Some(_), None) if kind.is_state_change() || kind.is_polled() => Decision::Expected,
                (Some(action), None) => Decision::Obey(action),
                (None, None) => Decision::Expected,
                (None, Some(_)) => match annotations.rebalance() {
                    Some(action) => Decision::Obey(action),
                    None => Decision::Tolerate,
                },
            })
        };
    located.iter().zip(claims).map(decide).collect()
}
