//! Replacements are launched first, and no candidate is deleted before they are initialized.

use fakes::{Admission, Protected};
use model::{CapacityType, ledger::CommandState, node_claim::NodeClaim};
use serde_json::json;
use stories::{Relay, Rig, all_bound, consistent, secs, settled};

use crate::{
    event_messages, grow, newest, no_node_is_marked, outdated, oversized, replacing, rolled_back,
    states, types, wait,
};

fn all_over(world: &mut fakes::World) -> bool {
    states(world).iter().all(|state| state.is_over())
}

#[tokio::test]
async fn oversized_node_is_replaced_by_a_smaller_one() {
    let mut rig = oversized().await;
    let moved = |world: &mut fakes::World| {
        let kinds: Vec<_> = world
            .account
            .alive()
            .map(|instance| instance.instance_type.clone())
            .collect();
        kinds == ["m5.large"] && all_bound(world) && consistent(world)
    };
    wait(&mut rig, 600, moved).await;
    rig.pass(secs(30)).await;
    assert!(rig.sim.with(all_over) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
    rig.sim.with(|world| {
        assert!(!event_messages(world, "ConsolidationCandidate").is_empty());
        assert_eq!(
            event_messages(world, "DisruptionLaunching"),
            ["Launching NodeClaim: Underutilized"]
        );
        assert_eq!(
            event_messages(world, "DisruptionWaitingReadiness"),
            ["Waiting on readiness to continue disruption"]
        );
        assert_eq!(
            event_messages(world, "DisruptionTerminating"),
            [
                "Disrupting Node: Underutilized",
                "Disrupting NodeClaim: Underutilized"
            ]
        );
    });
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn finished_command_is_deleted_after_an_hour() {
    let mut rig = oversized().await;
    wait(&mut rig, 600, |world| {
        !states(world).is_empty() && all_over(world)
    })
    .await;
    rig.pass(secs(40 * 60)).await;
    assert!(!rig.sim.with(states).is_empty());
    rig.pass(secs(40 * 60)).await;
    assert!(rig.sim.with(states).is_empty());
}

#[tokio::test]
async fn node_is_replaced_although_some_of_its_pods_fit_on_existing_nodes() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.disruption.consolidate_after = serde_json::from_value(json!("Never")).unwrap();
    });
    rig.scale(5);
    wait(&mut rig, 180, all_bound).await;
    rig.pass(secs(60)).await;
    grow(&rig, "other", 2);
    wait(&mut rig, 180, all_bound).await;
    rig.pass(secs(60)).await;
    // Capacity for one of the five pods.
    grow(&rig, "other", 1);
    rig.pass(secs(60)).await;
    assert_eq!(types(&rig), ["m5.2xlarge", "m5.xlarge"]);
    let drifted = rig.sim.with(|world| {
        let mut instances = world.account.instances.values_mut();
        let large = instances.find(|instance| instance.instance_type == "m5.2xlarge");
        let large = large.unwrap();
        large.security_groups.insert("sg-old".into());
        large.id.clone()
    });
    let replaced = |world: &mut fakes::World| {
        let ends = |one: &model::launch::Instance| one.id == drifted && one.state.is_alive();
        !world.account.instances.values().any(ends) && all_bound(world) && consistent(world)
    };
    wait(&mut rig, 900, replaced).await;
    assert!(rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
}

#[tokio::test]
async fn proposed_command_waits_fifteen_seconds_without_reserving_nodes() {
    let mut rig = oversized().await;
    let proposed = |world: &mut fakes::World| states(world).contains(&CommandState::Proposed);
    wait(&mut rig, 300, proposed).await;
    for _ in 0..13 {
        assert!(rig.sim.with(no_node_is_marked) && rig.sim.with(proposed));
        assert_eq!(types(&rig), ["m5.2xlarge"]);
        rig.pass(secs(1)).await;
    }
    let took = rig.until(secs(10), replacing).await;
    assert!(
        took.is_some_and(|took| took <= 4),
        "{took:?} {:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn candidate_is_tainted_before_the_launch_and_deleted_after_initialization() {
    let mut rig = oversized().await;
    rig.sim.with(|world| {
        world.on_call = Some(("launch", |world| {
            let node = world.api.nodes.values().next().unwrap();
            let keys: Vec<_> = node.taints.iter().map(|taint| taint.key.as_str()).collect();
            assert_eq!(keys, ["karpenter.sh/disrupted"]);
        }));
    });
    wait(&mut rig, 300, replacing).await;
    wait(&mut rig, 300, |world| {
        let mut claims = world.api.node_claims.values();
        let leaves = claims.any(|claim| claim.deleted_at.is_some());
        assert!(!leaves || newest(world).is_true("Initialized"));
        leaves
    })
    .await;
}

#[tokio::test]
async fn drifted_node_is_replaced_regardless_of_cost() {
    let mut rig = outdated().await;
    let first = rig.sim.with(newest).name;
    let replaced = |world: &mut fakes::World| {
        let claim = newest(world);
        claim.labels.get("team").map(String::as_str) == Some("new")
            && world.api.node_claims.len() == 1
            && all_bound(world)
            && consistent(world)
    };
    wait(&mut rig, 900, replaced).await;
    assert_ne!(rig.sim.with(newest).name, first);
    assert_eq!(types(&rig), ["m5.large"]);
    rig.pass(secs(30)).await;
    assert!(rig.sim.with(all_over) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
    let reported = rig
        .sim
        .with(|world| event_messages(world, "DisruptionTerminating"));
    assert_eq!(
        reported,
        ["Disrupting Node: Drifted", "Disrupting NodeClaim: Drifted"]
    );
}

/// Number of nodes that are initialized and stay.
fn in_service(world: &fakes::World) -> usize {
    let claims = world.api.node_claims.values();
    let staying = claims.filter(|claim| claim.deleted_at.is_none());
    staying.filter(|claim| claim.is_true("Initialized")).count()
}

/// Nodes of a static NodePool, all ready, with these feature gates.
async fn with_replicas(replicas: i64, limit: Option<&str>, gates: &[&str]) -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        let gates: serde_json::Value = gates.iter().map(|gate| (*gate, true)).collect();
        entry["settings"] = serde_json::json!({ "featureGates": gates });
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.replicas = Some(replicas);
        if let Some(limit) = limit {
            let limits = serde_json::json!({ "nodes": limit });
            pool.spec.limits = serde_json::from_value(limits).unwrap();
        }
    });
    let all = usize::try_from(replicas).unwrap();
    let in_service = |world: &mut fakes::World| in_service(world) == all;
    assert!(
        rig.until(secs(600), in_service).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig
}

#[tokio::test]
async fn drifted_nodes_of_a_static_pool_at_its_limit_are_terminated_first() {
    let gates = ["StaticCapacity", "TerminateFirstDrift"];
    let mut rig = with_replicas(3, Some("3"), &gates).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.disruption.budgets[0].nodes = "1".to_owned();
        pool.metadata.generation = Some(2);
        crate::relabel(pool);
    });
    wait(&mut rig, 2_400, |world| {
        assert!(world.api.node_claims.len() <= 3, "the limit holds");
        let in_service = in_service(world);
        assert!(in_service >= 2, "the budget allows one missing node");
        let mut claims = world.api.node_claims.values();
        let all_new = claims.all(|claim| claim.labels.contains_key("team"));
        all_new && in_service == 3
    })
    .await;
    rig.sim.with(|world| {
        let name = "karpenter_voluntary_disruption_decisions_total";
        let decisions = world.metrics.iter().filter(|metric| metric.name == name);
        let decisions: Vec<&str> = decisions
            .map(|decision| &*decision.labels["decision"])
            .collect();
        assert_eq!(decisions.len(), 3);
        // The freed capacity goes to the first launch: a node of the static NodePool or a replacement.
        assert_eq!(decisions[0], "terminate-first");
    });
}

#[tokio::test]
async fn drifted_node_of_a_static_pool_is_replaced_first() {
    let mut rig = with_replicas(2, None, &["StaticCapacity"]).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        crate::relabel(pool);
    });
    wait(&mut rig, 1_200, |world| {
        let claims = world.api.node_claims.values();
        let staying = claims.filter(|claim| claim.deleted_at.is_none());
        assert!(staying.count() >= 2, "never fewer nodes than replicas");
        let mut claims = world.api.node_claims.values();
        claims.all(|claim| claim.labels.contains_key("team")) && world.api.node_claims.len() == 2
    })
    .await;
}

/// Makes the security groups of a NodeClaim's instance differ from those of its EC2NodeClass.
fn outdate(rig: &Rig, claim: &NodeClaim) {
    rig.sim.with(|world| {
        let mut instances = world.account.instances.values_mut();
        let own =
            instances.find(|instance| claim.status.provider_id.ends_with(instance.id.as_str()));
        own.unwrap().security_groups.insert("sg-old".into());
    });
}

#[tokio::test]
async fn node_of_a_static_pool_that_cannot_be_tainted_blocks_no_other_replacement() {
    let mut rig = with_replicas(2, Some("3"), &["StaticCapacity"]).await;
    let claims: Vec<NodeClaim> = rig.sim.with(|world| {
        let mut claims: Vec<_> = world.api.node_claims.values().cloned().collect();
        claims.sort_by_key(|claim| claim.status.node_name.clone());
        claims
    });
    let [frozen, other] = &claims[..] else {
        panic!("{claims:#?}")
    };
    let node = Protected::Node(frozen.status.node_name.clone().unwrap());
    rig.sim
        .with(|world| world.api.protected.insert(node, Admission::Denied));
    outdate(&rig, frozen);
    wait(&mut rig, 900, rolled_back).await;
    rig.pass(secs(900)).await;
    rig.sim.with(|world| {
        let launched = world.account.instances.len();
        assert_eq!(launched, 2, "no replacement for a node that stays");
        let refused = event_messages(world, "ChangeRefused");
        assert!(
            refused.iter().any(|text| text.contains("forensics")),
            "{refused:?}"
        );
        assert!(world.api.node_claims[&frozen.name].deleted_at.is_none());
        let tries = states(world).len();
        assert!((2..=15).contains(&tries), "{tries} in a quarter of an hour");
    });
    let in_service = |world: &fakes::World| {
        let claims = &world.api.node_claims;
        assert!(claims.len() <= 3, "the limit holds");
        claims.len() == 2 && claims.values().all(|claim| claim.is_true("Initialized"))
    };
    outdate(&rig, other);
    wait(&mut rig, 1_200, |world| {
        in_service(world) && !world.api.node_claims.contains_key(&other.name)
    })
    .await;
    rig.sim.with(|world| {
        assert_eq!(world.account.instances.len(), 3);
        assert!(world.api.node_claims[&frozen.name].deleted_at.is_none());
        world.api.protected.clear();
    });
    wait(&mut rig, 1_800, |world| {
        in_service(world) && !world.api.node_claims.contains_key(&frozen.name)
    })
    .await;
    rig.pass(secs(60)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
}

#[tokio::test]
async fn replacement_without_capacity_rolls_back_and_another_type_is_tried_later() {
    let mut rig = oversized().await;
    rig.sim.with(|world| {
        for kind in ["m5.large", "m5.xlarge"] {
            for zone in ["us-east-1a", "us-east-1b"] {
                let offering = (CapacityType::OnDemand, kind.to_owned(), zone.to_owned());
                world.account.no_capacity.insert(offering);
            }
        }
    });
    wait(&mut rig, 300, rolled_back).await;
    rig.pass(secs(10)).await;
    assert_eq!(types(&rig), ["m5.2xlarge"]);
    assert!(rig.sim.with(no_node_is_marked) && rig.sim.with(all_bound) && rig.sim.with(settled));
    let asked = rig.sim.with(|world| world.account.requests.len());
    assert_eq!(asked, 2, "one request for the first node, one that failed");
    rig.sim.with(|world| world.account.no_capacity.clear());
    // Offerings count as unavailable for three minutes.
    let moved = |world: &mut fakes::World| {
        let kinds: Vec<_> = world
            .account
            .alive()
            .map(|instance| instance.instance_type.clone())
            .collect();
        kinds == ["m5.large"] && all_bound(world)
    };
    wait(&mut rig, 1_200, moved).await;
}

#[tokio::test]
async fn replacement_that_never_initializes_rolls_back_and_the_pod_is_not_evicted() {
    let mut rig = oversized().await;
    rig.sim.with(|world| world.api.closed = true);
    wait(&mut rig, 300, replacing).await;
    let took = rig.until(secs(1_200), rolled_back).await;
    assert!(
        took.is_some_and(|took| took >= 600),
        "{took:?} {:#?}",
        rig.transcript
    );
    rig.pass(secs(5)).await;
    assert!(
        rig.sim.with(no_node_is_marked) && rig.sim.with(all_bound),
        "{:#?}",
        rig.transcript
    );
    assert!(types(&rig).contains(&"m5.2xlarge".to_owned()));
}

#[tokio::test]
async fn events_and_metrics_report_decisions_and_blocking_budgets() {
    let mut rig = oversized().await;
    let to = "https://chat.example.com/hook";
    rig.configure(&json!({"notifications": [
        {"name": "chat", "to": to, "template": "{title}", "classes": ["disruption", "limit"]},
    ]}));
    let set_budget = |rig: &Rig, nodes: &str| {
        rig.sim.with(|world| {
            let pool = world.api.node_pools.get_mut("default").unwrap();
            let budgets = json!([{ "nodes": nodes }]);
            pool.spec.disruption.budgets = serde_json::from_value(budgets).unwrap();
        });
    };
    let titles = |rig: &Rig| -> Vec<String> {
        rig.sim.with(|world| {
            world
                .notifications
                .iter()
                .map(|reported| reported.body.clone())
                .collect()
        })
    };
    set_budget(&rig, "0");
    rig.pass(secs(900)).await;
    let held = "disruptions of 1 NodePool are held back";
    assert_eq!(titles(&rig), [held], "once an hour");
    set_budget(&rig, "1");
    rig.pass(secs(1_200)).await;
    assert_eq!(titles(&rig), [held, "1 disruption decided"]);
}
