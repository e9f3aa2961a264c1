//! Reaction to an interruption where it depends on the cluster: on the annotations of its NodePool, and for state changes on
//! whether they were expected.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    NodePool,
    names::{
        annotation::{INTERRUPTION, REBALANCE},
        label::CAPACITY_TYPE,
    },
};
use model::{
    CapacityType, InstanceId, InterruptionKind, interruption::InterruptionAction, ledger::Notice,
    node_claim::NodeClaim,
};

use super::LocatedFact;
use crate::{TurnError, lifecycle::instance_of};

pub(super) enum Decision {
    Obey(InterruptionAction),
    /// The NodeClaim is gone or being deleted: no news.
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

/// Decides about each fact. Facts that require an action whatever the cluster says are obeyed although it does not answer.
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

fn can_happen(kind: InterruptionKind, claim: &NodeClaim) -> bool {
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

/// Warnings about a NodePool's annotations on interruptions with unknown values. The defaults hold in their place.
pub(crate) fn annotation_warnings(pool: &NodePool) -> Vec<String> {
    [(REBALANCE, REBALANCES), (INTERRUPTION, INTERRUPTIONS)]
        .into_iter()
        .filter_map(|(key, allowed)| {
            let value = pool.metadata.annotations.get(key)?;
            let known = allowed.iter().any(|(name, _)| name == value);
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            let default = names.first().copied().unwrap_or_default();
            (!known).then(|| {
                let shown: String = value.chars().take(SHOWN_CHARACTERS).collect();
                let names = names.join(", ");
                format!(
                    "annotation {key} is \"{shown}\": expected one of {names}; {default} holds in its place"
                )
            })
        })
        .collect()
}

/// Characters of a value that an event shows.
const SHOWN_CHARACTERS: usize = 40;

/// Allowed values of the annotations, the default first.
const REBALANCES: &[(&str, Option<InterruptionAction>)] = &[
    ("ignore", None),
    ("replace", Some(InterruptionAction::Replace)),
    ("drain", Some(InterruptionAction::Drain)),
    ("cordon", Some(InterruptionAction::Cordon)),
];
const INTERRUPTIONS: &[(&str, Option<InterruptionAction>)] = &[
    ("drain", Some(InterruptionAction::Drain)),
    ("cordon", Some(InterruptionAction::Cordon)),
];

/// The annotations of a NodePool. Where it is gone, and where a value cannot be read, the defaults hold.
struct InterruptionAnnotations<'a>(Option<&'a BTreeMap<String, String>>);

impl InterruptionAnnotations<'_> {
    fn rebalance(&self) -> Option<InterruptionAction> {
        self.value_of(REBALANCE, REBALANCES)
    }

    /// Action for an announced interruption. Events that have happened already, and machines that cannot be waited for, leave
    /// no choice.
    fn announced_action(
        &self,
        kind: InterruptionKind,
        action: InterruptionAction,
    ) -> InterruptionAction {
        if action != InterruptionAction::Drain || kind.is_state_change() || kind.action().is_none()
        {
            return action;
        }
        self.value_of(INTERRUPTION, INTERRUPTIONS).unwrap_or(action)
    }

    fn value_of(
        &self,
        key: &str,
        allowed: &[(&str, Option<InterruptionAction>)],
    ) -> Option<InterruptionAction> {
        let value = self.0?.get(key)?;
        let (_, action) = allowed.iter().find(|(name, _)| name == value)?;
        *action
    }
}
