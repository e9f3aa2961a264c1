//! Changes between a disruption decision and its execution.

use api::names::annotation::DO_NOT_DISRUPT;
use model::{
    Lane, Wake,
    ledger::{Command, CommandState},
    plan::{Expected, Target},
};
use serde_json::json;
use stories::{Relay, Rig, all_bound, consistent, cpu, secs, settled};

use crate::{
    event_messages, grow, no_node_is_marked, node_of_first_pod, oversized, relabel, replacing,
    rolled_back, states, types, wait,
};

fn proposed(world: &mut fakes::World) -> bool {
    states(world).contains(&CommandState::Proposed)
}

fn protect_the_pod(world: &mut fakes::World) {
    for pod in world.api.pods.values_mut() {
        let annotation = (DO_NOT_DISRUPT.to_owned(), "true".to_owned());
        pod.annotations.extend([annotation]);
    }
}

#[tokio::test]
async fn pod_that_becomes_do_not_disrupt_before_revalidation_keeps_its_node() {
    let mut rig = oversized().await;
    wait(&mut rig, 300, proposed).await;
    rig.sim.with(protect_the_pod);
    rig.pass(secs(120)).await;
    assert_eq!(types(&rig), ["m5.2xlarge"], "{:#?}", rig.transcript);
    assert_eq!(rig.sim.with(states), [CommandState::RolledBack]);
    rig.sim.with(|world| {
        assert!(event_messages(world, "ConsolidationRejected")[0].starts_with("churn: "));
        let blocked = event_messages(world, "DisruptionBlocked");
        assert!(
            blocked.iter().any(|text| text.contains(DO_NOT_DISRUPT)),
            "{blocked:?}"
        );
    });
}

#[tokio::test]
async fn pod_that_becomes_do_not_disrupt_while_its_replacement_starts_keeps_its_node() {
    let mut rig = oversized().await;
    wait(&mut rig, 300, replacing).await;
    rig.sim.with(protect_the_pod);
    let node = rig.sim.with(node_of_first_pod);
    wait(&mut rig, 300, rolled_back).await;
    rig.pass(secs(60)).await;
    assert_eq!(rig.sim.with(node_of_first_pod), node);
    assert!(rig.sim.with(no_node_is_marked) && rig.sim.with(all_bound));
    // The replacement is not needed and is removed as an empty node.
    wait(&mut rig, 600, |world| world.account.alive().count() == 1).await;
    assert_eq!(types(&rig), ["m5.2xlarge"]);
}

#[tokio::test]
async fn budget_that_shrinks_before_revalidation_blocks_the_command() {
    let mut rig = oversized().await;
    wait(&mut rig, 300, proposed).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.disruption.budgets[0].nodes = "0".to_owned();
    });
    rig.pass(secs(120)).await;
    assert_eq!(types(&rig), ["m5.2xlarge"], "{:#?}", rig.transcript);
    assert_eq!(rig.sim.with(states), [CommandState::RolledBack]);
    rig.sim.with(|world| {
        assert!(event_messages(world, "ConsolidationRejected")[0].starts_with("budget: "));
        let expected =
            "No allowed disruptions for disruption reason Underutilized due to blocking budget";
        let blocked = event_messages(world, "DisruptionBlocked");
        assert!(blocked.iter().any(|text| text == expected), "{blocked:?}");
    });
}

#[tokio::test]
async fn pods_bound_before_revalidation_keep_the_node() {
    let mut rig = oversized().await;
    wait(&mut rig, 300, proposed).await;
    grow(&rig, "more", 3);
    rig.pass(secs(60)).await;
    assert_eq!(types(&rig), ["m5.2xlarge"], "{:#?}", rig.transcript);
    assert!(rig.sim.with(all_bound) && rig.sim.with(rolled_back));
}

#[tokio::test]
async fn empty_node_that_gets_a_pod_before_its_deletion_is_kept() {
    let mut rig = oversized().await;
    rig.scale(0);
    wait(&mut rig, 300, proposed).await;
    rig.scale(1);
    rig.pass(secs(45)).await;
    assert_eq!(types(&rig), ["m5.2xlarge"], "{:#?}", rig.transcript);
    assert!(rig.sim.with(all_bound) && rig.sim.with(no_node_is_marked));
}

/// Two full nodes of a NodePool without a delay of its consolidation; the first one is empty and proposed for removal.
async fn first_of_two_is_proposed() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(5);
    grow(&rig, "more", 5);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    assert_eq!(rig.sim.with(|world| world.account.alive().count()), 2);
    rig.pass(secs(30)).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.disruption.consolidate_after = serde_json::from_value(json!("0s")).unwrap();
    });
    rig.scale(0);
    wait(&mut rig, 10, proposed).await;
    rig
}

fn waiting_proposals(world: &mut fakes::World) -> usize {
    let states = states(world).into_iter();
    states
        .filter(|state| *state == CommandState::Proposed)
        .count()
}

#[tokio::test]
async fn node_that_becomes_empty_while_another_is_validated_does_not_wait_for_it() {
    let mut rig = first_of_two_is_proposed().await;
    grow(&rig, "more", 0);
    wait(&mut rig, 10, |world| waiting_proposals(world) == 2).await;
    wait(&mut rig, 60, |world| world.account.alive().count() == 0).await;
}

#[tokio::test]
async fn node_that_becomes_empty_late_in_a_validation_waits_for_the_next_search() {
    let mut rig = first_of_two_is_proposed().await;
    rig.pass(secs(11)).await;
    grow(&rig, "more", 0);
    rig.pass(secs(2)).await;
    assert_eq!(rig.sim.with(waiting_proposals), 1);
    wait(&mut rig, 90, |world| world.account.alive().count() == 0).await;
}

#[tokio::test]
async fn command_of_a_newer_version_reserves_its_node_and_is_left_alone() {
    let mut rig = oversized().await;
    let set = |rig: &Rig, state| {
        rig.sim.with(|world| {
            let claim = world.api.node_claims.values().next().unwrap();
            let target = Target {
                name: claim.name.clone(),
                uid: claim.uid.clone(),
                resource_version: claim.resource_version.clone(),
            };
            let command = Command {
                id: "newer".to_owned(),
                delete: vec![target],
                state,
                ..Command::default()
            };
            let rows = world.ledger.of(&Rig::cluster());
            rows.commands.insert(command.id.clone(), command);
        });
    };
    set(&rig, CommandState::Newer);
    rig.pass(secs(600)).await;
    assert_eq!(types(&rig), ["m5.2xlarge"], "{:#?}", rig.transcript);
    assert_eq!(rig.sim.with(states), [CommandState::Newer]);
    // The newer version rolls its command back.
    set(&rig, CommandState::RolledBack);
    wait(&mut rig, 600, proposed).await;
}

#[tokio::test]
async fn deleting_the_node_pool_ends_the_command() {
    let mut rig = oversized().await;
    wait(&mut rig, 300, replacing).await;
    rig.sim.with(|world| {
        world.api.node_pools.remove("default");
        let now = world.now;
        let claims: Vec<_> = world.api.node_claims.keys().cloned().collect();
        for claim in claims {
            world.api.request_deletion(&claim, now);
        }
    });
    rig.scale(0);
    wait(&mut rig, 600, stories::all_gone).await;
    rig.pass(secs(90)).await;
    rig.sim.with(|world| {
        assert!(
            states(world).iter().all(|state| state.is_over()),
            "{:?}",
            states(world)
        );
        assert!(settled(world));
    });
}

#[tokio::test]
async fn concurrent_turns_begin_one_command() {
    for seed in 1..=20 {
        let mut rig = oversized().await;
        rig.sim.with(|world| world.interleaving = seed);
        rig.pass(secs(50)).await;
        for _ in 0..30 {
            rig.sim.advance(secs(5));
            rig.sim.take_wakes();
            let turns = [rig.next_turn(), rig.next_turn(), rig.next_turn()];
            let [a, b, c] = turns.each_ref();
            let shared = &rig;
            let run = |lane, turn| {
                let deadline = shared.deadline(lane);
                async move {
                    let cluster = Rig::cluster();
                    turns::run(&shared.world, &cluster, lane, turn, deadline).await
                }
            };
            let (a, b, c) = tokio::join!(
                run(Lane::Disruption, a),
                run(Lane::Disruption, b),
                run(Lane::Lifecycle, c)
            );
            assert!(a.is_ok() && b.is_ok() && c.is_ok());
            let open = rig.sim.with(|world| {
                let states = states(world);
                states.iter().filter(|state| !state.is_over()).count()
            });
            assert!(open <= 1, "seed {seed}: {open}");
        }
        assert!(rig.sim.with(all_bound), "seed {seed}");
        let launched = rig.sim.with(|world| world.account.instances.len());
        assert_eq!(launched, 2, "seed {seed}: one replacement");
        wait(&mut rig, 900, |world| {
            world.account.alive().count() == 1 && consistent(world)
        })
        .await;
        assert_eq!(types(&rig), ["m5.large"], "seed {seed}");
    }
}

/// A pending pod is nominated to the NodeClaim of a starting node, and to the node once that exists.
#[tokio::test]
async fn nomination_of_a_node_claim_carries_over_to_its_node() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    let is_launched = |world: &mut fakes::World| {
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| !claim.status.provider_id.is_empty())
    };
    wait(&mut rig, 60, is_launched).await;
    let late =
        |replicas| move |world: &mut fakes::World| world.api.scale("late", replicas, cpu(100));
    rig.sim.with(late(1));
    rig.pass(secs(5)).await;
    let until = rig.sim.with(|world| {
        relabel(world.api.node_pools.get_mut("default").unwrap());
        let until = world.now + secs(300);
        let nominated = &mut world.ledger.of(&Rig::cluster()).nominated;
        let is_claim = |expected: &Expected| matches!(expected, Expected::NodeClaim(_));
        assert!(!nominated.is_empty() && nominated.keys().all(is_claim));
        nominated
            .values_mut()
            .for_each(|nomination| *nomination = until);
        until
    });
    wait(&mut rig, 180, all_bound).await;
    rig.scale(0);
    rig.sim.with(late(0));
    // Events of the started node are repeated from then on.
    rig.pass(secs(121)).await;
    let wake = Wake::new(Rig::cluster(), Lane::Disruption, "test");
    rig.sim.wake(wake, secs(0));
    let held = rig.until(secs(600), |world| proposed(world) || world.now >= until);
    assert!(held.await.is_some());
    assert_eq!(rig.sim.with(states), [], "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let blocked = event_messages(world, "DisruptionBlocked");
        let expected = "Node is nominated for a pending pod";
        assert!(blocked.iter().any(|text| text == expected), "{blocked:?}");
    });
    wait(&mut rig, 120, proposed).await;
}
