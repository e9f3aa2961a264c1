//! What becomes of a node, where that depends on its cluster: rebalance recommendations by its NodePool's word, state
//! changes by whether anybody expected them.

use std::sync::Arc;

use api::names::annotation::REBALANCE;
use model::{NodePoolName, interruption::Course, node_claim::NodeClaim};
use ports::Cluster;

use super::Found;
use crate::TurnError;

pub(super) enum Decision {
    Obey(Course),
    /// The NodeClaim is gone or on its way out: nothing new.
    Expected,
    Tolerate,
}

/// One decision per fact. Facts that oblige us whatever the cluster says are obeyed although it does not answer.
pub(super) async fn decide(
    api: Result<&dyn Cluster, &Arc<TurnError>>,
    found: &[Found<'_>],
    seen: &[Result<Option<NodeClaim>, Arc<TurnError>>],
) -> Vec<Result<Decision, Arc<TurnError>>> {
    let asks = found.iter().any(|found| found.fact.kind.course().is_none());
    let pools = match (asks, api) {
        (false, _) => Ok(Vec::new()),
        (true, Ok(api)) => api
            .node_pools()
            .await
            .map_err(|error| Arc::new(error.into())),
        (true, Err(error)) => Err(Arc::clone(error)),
    };
    let decide = |(found, claim): (&Found<'_>, &Result<Option<NodeClaim>, Arc<TurnError>>)| {
        let alive = |claim: &NodeClaim| claim.deleted_at.is_none();
        match (found.fact.kind.course(), claim) {
            (Some(course), Err(_)) => Ok(Decision::Obey(course)),
            (Some(course), Ok(claim)) => {
                let known = !claim.as_ref().is_some_and(alive);
                let kind = found.fact.kind;
                Ok(
                    match known && (kind.is_state_change() || kind.is_polled()) {
                        true => Decision::Expected,
                        false => Decision::Obey(course),
                    },
                )
            }
            // Nothing about it is urgent: the message may wait for the API server.
            (None, Err(error)) => Err(Arc::clone(error)),
            (None, Ok(None)) => Ok(Decision::Expected),
            (None, Ok(Some(claim))) if !alive(claim) => Ok(Decision::Expected),
            (None, Ok(Some(claim))) => {
                let pools = pools.as_ref().map_err(Arc::clone)?;
                let pool = claim.node_pool();
                Ok(match pool.and_then(|name| of_pool(pools, &name)) {
                    Some(course) => Decision::Obey(course),
                    None => Decision::Tolerate,
                })
            }
        }
    };
    found.iter().zip(seen).map(decide).collect()
}

fn of_pool(pools: &[api::NodePool], name: &NodePoolName) -> Option<Course> {
    let pool = pools
        .iter()
        .find(|pool| pool.metadata.name == name.as_str())?;
    rebalance(pool.metadata.annotations.get(REBALANCE)?)
}

/// What the annotation's value asks for; `ignore` is upstream's way and the default, and what cannot be read asks for
/// nothing.
fn rebalance(value: &str) -> Option<Course> {
    match value {
        "replace" => Some(Course::Replace),
        "drain" => Some(Course::Drain),
        _ => None,
    }
}
