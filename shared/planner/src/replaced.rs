//! Nodes with a notice whose pods all fit on other ready nodes, so that they may be drained without waiting for a new one.

use std::{borrow::Cow, collections::BTreeSet};

use model::{
    NodeClaimName, NodeName, Snapshot, interruption::InterruptionAction, node::ConditionStatus,
    pod::Pod, snapshot::ReservedOfferingMode,
};

use scheduling::Effort;

use crate::{
    by_instance::instance_of,
    inventory::{Inventory, StateNode},
    provision::{
        default_spread::with_default,
        intake::intake,
        planning_context::{PlanningContext, SolveRequest},
    },
};

/// NodeClaims with a notice that asks for replacement, whose movable pods can all be placed on ready nodes, together with all
/// pending pods. A single solve decides for all of them.
pub fn replaced(snapshot: &Snapshot) -> BTreeSet<NodeClaimName> {
    let inventory = Inventory::new(snapshot);
    let wanted: Vec<&StateNode<'_>> = inventory
        .state_nodes
        .iter()
        .filter(|state_node| is_wanted(state_node, snapshot))
        .collect();
    if wanted.is_empty() {
        return BTreeSet::new();
    }
    let state_nodes = inventory.state_nodes.iter().enumerate();
    let unavailable: BTreeSet<usize> = state_nodes
        .filter(|(_, state_node)| !is_ready(state_node))
        .map(|(at, _)| at)
        .collect();
    let pods = intake(snapshot, &inventory, snapshot.now).pods;
    let pods: Vec<Cow<'_, Pod>> = pods
        .into_iter()
        .map(|pod| with_default(pod, snapshot))
        .collect();
    let planning = PlanningContext::new(snapshot);
    let none = BTreeSet::new();
    let result = scheduling::solve(&planning.solver_input(
        &inventory,
        SolveRequest {
            pods: pods.iter().map(Cow::as_ref).collect(),
            moved: Vec::new(),
            gone: &none,
            cooling_down: &none,
            unavailable: &unavailable,
            reserved: ReservedOfferingMode::Fallback,
            effort: Effort::First,
        },
    ));
    let placed: BTreeSet<usize> = result
        .existing
        .iter()
        .flat_map(|(_, pods)| pods.iter().copied())
        .collect();
    let without_place: BTreeSet<&NodeName> = pods
        .iter()
        .enumerate()
        .filter(|(at, _)| !placed.contains(at))
        .filter_map(|(_, pod)| pod.node_name.as_ref())
        .collect();
    let may_go = wanted.iter().filter(|state_node| {
        let node = state_node.node.map(|node| &node.name);
        node.is_none_or(|node| !without_place.contains(node))
    });
    may_go
        .filter_map(|state_node| Some(state_node.claim?.name.clone()))
        .collect()
}

fn is_wanted(state_node: &StateNode<'_>, snapshot: &Snapshot) -> bool {
    let claim = state_node.claim.filter(|claim| claim.deleted_at.is_none());
    let instance = claim.and_then(|claim| instance_of(&claim.status.provider_id));
    let notices = snapshot.notices.iter();
    let mut open =
        notices.filter(|notice| !notice.done && notice.action == InterruptionAction::Replace);
    instance.is_some_and(|instance| open.any(|notice| notice.instance == instance))
}

fn is_ready(state_node: &StateNode<'_>) -> bool {
    let ready = |node: &model::node::Node| node.ready.status == ConditionStatus::True;
    state_node.initialized && state_node.node.is_some_and(ready)
}

#[cfg(test)]
mod tests {
    use model::ledger::Notice;

    use super::*;
    use crate::fixtures;

    /// NodeClaims that may be drained, of two without pods, one of which has the notice.
    fn may_go(change: fn(&mut Notice)) -> Vec<String> {
        let mut snapshot = fixtures::snapshot();
        for name in ["a", "b"] {
            let claim = fixtures::claim(name, &[]);
            snapshot.nodes.push(fixtures::node(name, &claim));
            snapshot.node_claims.push(claim);
        }
        let mut notice = Notice {
            instance: "i-a".into(),
            kind: "rebalance".to_owned(),
            deadline: None,
            at: None,
            action: InterruptionAction::Replace,
            unmanaged: false,
            hook: None,
            event: String::new(),
            reboots: false,
            done: false,
        };
        change(&mut notice);
        snapshot.notices = vec![notice];
        replaced(&snapshot).into_iter().map(|name| name.0).collect()
    }

    #[test]
    fn only_open_replace_notices_release_a_node() {
        assert_eq!(may_go(|_| {}), ["a"]);
        assert_eq!(may_go(|notice| notice.done = true), [""; 0]);
        assert_eq!(
            may_go(|notice| notice.action = InterruptionAction::Drain),
            [""; 0]
        );
    }
}
