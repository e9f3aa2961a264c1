use api::conditions::types::{CONSOLIDATABLE, INITIALIZED, LAUNCHED, REGISTERED};
use jiff::SignedDuration;
use model::{
    Action, Snapshot,
    node_pool::Budget,
    pod::{Owner, Pod, PodPhase},
};

use crate::{empty, test_world};

const CONSOLIDATABLE_CLAIM: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED, CONSOLIDATABLE];

/// Empty, consolidatable nodes of one NodePool whose budget allows all.
fn nodes(count: usize) -> Snapshot {
    let mut snapshot = test_world::snapshot();
    snapshot.node_pools = vec![test_world::pool("default", 0)];
    for index in 0..count {
        let claim = test_world::claim(&format!("default-{index}"), CONSOLIDATABLE_CLAIM);
        let mut node = test_world::node(&format!("n-{index}"), &claim);
        node.labels
            .insert("karpenter.sh/initialized".into(), "true".into());
        snapshot.nodes.push(node);
        snapshot.node_claims.push(claim);
    }
    snapshot
}

fn deleted(snapshot: &Snapshot) -> Vec<String> {
    let mut names = Vec::new();
    for planned in empty(snapshot).plan.actions {
        if let Action::DeleteNodeClaim(target) = planned.action {
            names.push(target.name.0);
        }
    }
    names
}

fn on_first_node(pod: Pod) -> Snapshot {
    let mut snapshot = nodes(1);
    snapshot.pods = vec![Pod {
        node_name: Some("n-0".into()),
        ..pod
    }];
    snapshot
}

#[test]
fn an_empty_consolidatable_node_goes() {
    assert_eq!(deleted(&nodes(1)), ["default-0"]);
}

#[test]
fn budgets_hold_back_the_rest() {
    let mut snapshot = nodes(20);
    snapshot.node_pools[0].disruption.budgets = vec![Budget {
        nodes: "10%".into(),
        ..Budget::default()
    }];
    assert_eq!(deleted(&snapshot), ["default-0", "default-1"]);
}

#[test]
fn a_node_with_a_pod_stays_and_one_with_only_daemons_or_finished_pods_goes() {
    let daemon = Owner {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        name: "a".into(),
        uid: "u".into(),
    };
    assert!(deleted(&on_first_node(Pod::default())).is_empty());
    assert_eq!(
        deleted(&on_first_node(Pod {
            owner: Some(daemon),
            ..Pod::default()
        })),
        ["default-0"]
    );
    assert_eq!(
        deleted(&on_first_node(Pod {
            phase: PodPhase::Succeeded,
            ..Pod::default()
        })),
        ["default-0"]
    );
}

#[test]
fn what_is_awaited_or_protected_stays() {
    type Protect = fn(&mut Snapshot);
    let protections: [Protect; 4] = [
        |world| {
            world
                .nominated
                .insert("n-0".into(), world.now + SignedDuration::from_secs(1));
        },
        |world| {
            world.nodes[0]
                .annotations
                .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        },
        |world| {
            world.node_claims[0]
                .status
                .conditions
                .retain(|condition| condition.kind != CONSOLIDATABLE)
        },
        |world| world.node_pools[0].replicas = Some(1),
    ];
    for protect in protections {
        let mut snapshot = nodes(1);
        protect(&mut snapshot);
        assert!(deleted(&snapshot).is_empty());
    }
}
