//! Unhealthy nodes are replaced as by Karpenter 1.15: replacement first, then a bounded drain.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    CapacityType, Evidence, PodKey,
    evidence::{Failure, Shared},
    ledger::CommandState,
    node::{ConditionStatus, NodeCondition},
    node_claim::NodeClaim,
    selector::LabelSelector,
    snapshot::PodDisruptionBudget,
};
use ports::ledger::ExperienceLedger;
use serde_json::json;
use stories::{Relay, Rig, all_bound, consistent, secs, settled};

use crate::{event_messages, no_node_is_marked, replacing, rolled_back, states, wait};

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// Three nodes with a pod each that only repair disrupts, with the gate on.
pub(crate) async fn repairing() -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"] = json!({"featureGates": {"NodeRepair": true}});
        world.catalog.retain(|kind| kind.name == "m5.large");
    });
    rig.pass(secs(150)).await;
    rig.scale(3);
    wait(&mut rig, 180, all_bound).await;
    rig.pass(secs(30)).await;
    rig
}

/// Makes the first node unready and its pod do-not-disrupt.
pub(crate) fn silence(rig: &Rig) -> NodeClaim {
    rig.sim.with(|world| {
        let name = world.api.nodes.keys().next().cloned().unwrap();
        world.api.silent.insert(name.clone());
        for pod in world.api.pods.values_mut() {
            pod.annotations =
                BTreeMap::from([("karpenter.sh/do-not-disrupt".into(), "true".into())]);
        }
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| claim.status.node_name.as_ref() == Some(&name));
        claim.cloned().unwrap()
    })
}

/// Adds a PodDisruptionBudget that allows no eviction.
pub(crate) fn forbid_evictions(rig: &Rig) {
    let budget = PodDisruptionBudget {
        key: PodKey::new("default", "web"),
        selector: Some(LabelSelector {
            match_labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
            match_expressions: Vec::new(),
        }),
        max_unavailable: Some("0".into()),
        ..PodDisruptionBudget::default()
    };
    rig.sim
        .with(|world| world.api.disruption_budgets = vec![budget]);
}

fn alive(world: &mut fakes::World) -> usize {
    world.account.alive().count()
}

#[tokio::test]
async fn unready_node_is_replaced_first_and_then_drained_within_a_bound() {
    let mut rig = repairing().await;
    let sick = silence(&rig);
    rig.pass(secs(1_790)).await;
    assert_eq!(rig.sim.with(alive), 3, "half an hour is tolerated");
    wait(&mut rig, 90, replacing).await;
    wait(&mut rig, 30, |world| alive(world) == 4).await;
    let launching =
        |world: &mut fakes::World| !event_messages(world, "DisruptionLaunching").is_empty();
    wait(&mut rig, 60, launching).await;
    rig.sim.with(|world| {
        let claim = &world.api.node_claims[&sick.name];
        assert_eq!(claim.deleted_at, None, "the replacement is launched first");
        assert!(claim.is_true("DisruptionReason"));
        assert_eq!(claim.annotations.get(DEADLINE), None);
        let launching = event_messages(world, "DisruptionLaunching");
        assert_eq!(launching, ["Launching NodeClaim: Unhealthy"]);
    });
    let stamped = |world: &mut fakes::World| {
        let claim = world.api.node_claims.get(&sick.name)?;
        Some((claim.deleted_at?, claim.annotations.get(DEADLINE)?.clone()))
    };
    wait(&mut rig, 300, |world| stamped(world).is_some()).await;
    let (deleted, deadline) = rig.sim.with(stamped).unwrap();
    assert_eq!(
        deadline.parse::<Timestamp>().unwrap(),
        deleted,
        "pods on a silent kubelet get no grace period"
    );
    let gone = |world: &mut fakes::World| !world.api.node_claims.contains_key(&sick.name);
    wait(&mut rig, 300, gone).await;
    wait(&mut rig, 120, |world| all_bound(world) && alive(world) == 3).await;
    rig.pass(secs(60)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
    let labels_of = |name: &str, keys: &[&'static str]| -> Vec<Vec<String>> {
        rig.sim.with(|world| {
            let own = world.metrics.iter().filter(|metric| metric.name == name);
            own.map(|metric| keys.iter().map(|key| metric.labels[key].clone()).collect())
                .collect()
        })
    };
    let decisions = labels_of(
        "karpenter_voluntary_disruption_decisions_total",
        &["decision", "reason", "consolidation_type"],
    );
    assert_eq!(decisions, [["replace", "unhealthy", ""]]);
    let repaired = labels_of(
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        &["condition", "nodepool", "termination_mode"],
    );
    assert_eq!(repaired, [["ready", "default", "forceful"]]);
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn pod_that_its_budget_protects_is_removed_at_the_repair_bound() {
    let mut rig = repairing().await;
    forbid_evictions(&rig);
    let (sick, kept) = rig.sim.with(|world| {
        let (name, node) = world.api.nodes.iter_mut().next().unwrap();
        node.conditions.push(NodeCondition {
            kind: "StorageReady".into(),
            status: ConditionStatus::False,
            reason: String::new(),
            since: Some(world.now),
        });
        let mut pods = world.api.pods.values();
        let kept = pods.find(|pod| pod.node_name.as_ref() == Some(name));
        let mut claims = world.api.node_claims.values();
        let sick = claims.find(|claim| claim.status.node_name.as_ref() == Some(name));
        (sick.cloned().unwrap(), kept.unwrap().uid.clone())
    });
    rig.pass(secs(1_790)).await;
    assert_eq!(rig.sim.with(alive), 3, "half an hour is tolerated");
    wait(&mut rig, 120, |world| alive(world) == 4).await;
    let deleted = |world: &mut fakes::World| {
        let claim = world.api.node_claims.get(&sick.name);
        claim.is_some_and(|claim| claim.deleted_at.is_some())
    };
    assert!(!rig.sim.with(deleted), "the replacement is launched first");
    wait(&mut rig, 300, deleted).await;
    let stays = |world: &mut fakes::World| {
        let mut pods = world.api.pods.values();
        pods.any(|pod| pod.uid == kept && pod.deletion.is_none())
    };
    rig.pass(secs(9 * 60)).await;
    assert!(rig.sim.with(stays), "the budget blocks the eviction");
    wait(&mut rig, 90, |world| !stays(world)).await;
    let gone = |world: &mut fakes::World| !world.api.node_claims.contains_key(&sick.name);
    wait(&mut rig, 300, gone).await;
    wait(&mut rig, 120, |world| all_bound(world) && alive(world) == 3).await;
    rig.pass(secs(60)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
}

#[tokio::test]
async fn repair_by_force_ignores_disruption_budgets() {
    let mut rig = repairing().await;
    rig.configure(&json!({"featureGates": {"NodeRepair": true}, "legacyNodeRepair": true}));
    forbid_evictions(&rig);
    let sick = silence(&rig);
    rig.pass(secs(1_790)).await;
    let gone = |world: &mut fakes::World| !world.api.node_claims.contains_key(&sick.name);
    wait(&mut rig, 300, gone).await;
    assert_eq!(rig.sim.with(states), [CommandState::Deleting]);
}

#[tokio::test]
async fn node_that_recovers_while_its_replacement_starts_is_kept() {
    let mut rig = repairing().await;
    let sick = silence(&rig);
    rig.pass(secs(1_790)).await;
    wait(&mut rig, 90, replacing).await;
    rig.sim.with(|world| world.api.silent.clear());
    wait(&mut rig, 120, rolled_back).await;
    rig.pass(secs(120)).await;
    let claim = rig
        .sim
        .with(|world| world.api.node_claims[&sick.name].clone());
    assert_eq!(claim.deleted_at, None);
    assert_eq!(claim.annotations.get(DEADLINE), None);
    assert!(rig.sim.with(no_node_is_marked) && rig.sim.with(all_bound));
}

#[tokio::test]
async fn repair_without_capacity_is_rolled_back_and_retried_with_backoff() {
    let mut rig = repairing().await;
    let sick = silence(&rig);
    rig.sim.with(|world| {
        for zone in ["us-east-1a", "us-east-1b"] {
            let offering = (CapacityType::OnDemand, "m5.large".into(), zone.into());
            world.account.no_capacity.insert(offering);
        }
    });
    rig.pass(secs(1_790)).await;
    wait(&mut rig, 200, rolled_back).await;
    wait(&mut rig, 60, no_node_is_marked).await;
    rig.pass(secs(1_800)).await;
    let tries = rig.sim.with(states).len();
    assert!((2..=7).contains(&tries), "{tries} within half an hour");
    let kept = rig
        .sim
        .with(|world| world.api.node_claims[&sick.name].clone());
    assert_eq!(kept.deleted_at, None);
    assert_eq!(rig.sim.with(alive), 3);
}

#[tokio::test]
async fn many_unready_nodes_suspend_repair_with_an_event_on_the_node_pool() {
    let mut rig = repairing().await;
    rig.sim.with(|world| {
        world.api.silent = world.api.nodes.keys().take(2).cloned().collect();
    });
    rig.pass(secs(2_700)).await;
    assert_eq!(rig.sim.with(states), []);
    let blocked = rig
        .sim
        .with(|world| event_messages(world, "NodeRepairBlocked"));
    let expected = "more than 20% of nodes in nodepool \"default\" are unhealthy";
    assert!(
        !blocked.is_empty() && blocked.iter().all(|reported| reported == expected),
        "{blocked:?}"
    );
}

#[tokio::test]
async fn failure_common_to_three_clusters_is_reported_and_not_repaired() {
    let mut rig = repairing().await;
    rig.sim.with(|world| {
        let class = world.api.node_classes.values_mut().next().unwrap();
        let status = class.status.get_or_insert_default();
        status.amis = Some(vec![api::karpenter::Ami {
            id: "ami-1".into(),
            ..api::karpenter::Ami::default()
        }]);
    });
    let failure = Failure {
        condition: "Ready=Unknown".into(),
        shared: Shared::Image("ami-1".into()),
    };
    let sick = silence(&rig);
    assert_eq!(sick.status.image_id, "ami-1");
    rig.pass(secs(600)).await;
    let evidence = rig.sim.evidence().await.unwrap().remove(0);
    assert_eq!(evidence.cluster.0, "demo");
    assert!(evidence.failures.contains(&failure), "{evidence:?}");
    let until = rig.sim.with(|world| world.now) + secs(3_600);
    for cluster in ["a", "b"] {
        let reported = Evidence {
            cluster: cluster.into(),
            failures: [failure.clone()].into(),
            until,
        };
        rig.sim.store_evidence(&reported).await.unwrap();
    }
    rig.pass(secs(2_400)).await;
    assert_eq!(rig.sim.with(alive), 3, "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let events = event_messages(world, "NodeRepairBlocked");
        let text = "many nodes with AMI ami-1 have Ready=Unknown in clusters a, b, demo";
        assert!(
            events.iter().any(|event| event.contains(text)),
            "{events:?}"
        );
    });
    wait(&mut rig, 1_800, replacing).await;
    let gone = |world: &mut fakes::World| !world.api.node_claims.contains_key(&sick.name);
    wait(&mut rig, 600, gone).await;
    rig.pass(secs(300)).await;
    let evidence = rig.sim.evidence().await.unwrap();
    let evidence = evidence
        .iter()
        .find(|evidence| evidence.cluster.0 == "demo")
        .unwrap();
    assert!(evidence.failures.is_empty(), "withdrawn: {evidence:?}");
    assert_eq!(rig.errors, Vec::<String>::new());
}
