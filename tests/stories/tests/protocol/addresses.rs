//! Launches reserve addresses that no other launch uses.

use crate::{run, with_pending_pods};
use fakes::Fault;
use model::Lane;
use stories::secs;

/// Subnets that calls requested, in order, each once per call.
fn subnets_asked_for(world: &fakes::World) -> Vec<Vec<String>> {
    let subnets = |request: &model::launch::FleetRequest| {
        let overrides = request.templates.iter().flat_map(|t| &t.overrides);
        let mut subnets: Vec<String> = overrides.filter_map(|o| o.subnet.clone()).collect();
        subnets.sort();
        subnets.dedup();
        subnets
    };
    world.account.requests.iter().map(subnets).collect()
}

#[tokio::test]
async fn calls_of_one_turn_reserve_distinct_addresses() {
    let mut rig = with_pending_pods(2).await;
    // A pod for another zone needs its own call, which chooses among the subnets of both zones again.
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
        let mut pods = world.api.pods.values_mut();
        let second = pods.nth(1).unwrap();
        second
            .node_selector
            .insert("topology.kubernetes.io/zone".into(), "us-east-1a".into());
    });
    run(&mut rig, Lane::Provisioner).await;
    let mut asked = rig.sim.with(|world| subnets_asked_for(world));
    asked.sort();
    let of_a: Vec<_> = asked
        .iter()
        .flatten()
        .filter(|id| id.contains("east-1a"))
        .collect();
    assert_eq!(of_a.len(), 2, "{asked:?}");
    assert_ne!(
        of_a[0], of_a[1],
        "the second call counts the addresses of the first"
    );
}

#[tokio::test]
async fn addresses_of_an_unanswered_call_count_as_used() {
    let mut rig = with_pending_pods(1).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.sim.fail_next("launch", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    rig.scale(2);
    rig.sim.advance(secs(1));
    run(&mut rig, Lane::Provisioner).await;
    let asked = rig.sim.with(|world| subnets_asked_for(world));
    let [first, second] = asked.as_slice() else {
        panic!("{asked:?} {:#?}", rig.transcript)
    };
    assert!(
        first.iter().all(|subnet| !second.contains(subnet)),
        "{asked:?}"
    );
}

#[tokio::test]
async fn full_subnet_is_avoided_by_the_next_plan_and_its_zone_is_not() {
    let mut rig = with_pending_pods(1).await;
    // EC2 showed free addresses that were used when the launch came.
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
    });
    rig.sim.with(|world| {
        world.on_call = Some(("launch", |world| {
            for zone in ["us-east-1a", "us-east-1b"] {
                let subnet = format!("subnet-{zone}");
                world.account.free_addresses.insert(subnet, 0);
            }
        }));
    });
    run(&mut rig, Lane::Provisioner).await;
    rig.sim.with(|world| {
        let asked = subnets_asked_for(world);
        assert_eq!(asked.len(), 2, "planned again in the same turn: {asked:?}");
        assert_eq!(asked[1], ["subnet-us-east-1a-2", "subnet-us-east-1b-2"]);
        assert!(
            world.ledger.unavailable.is_empty(),
            "no zone lacks capacity"
        );
        let full: Vec<_> = world.ledger.full_subnets.keys().collect();
        assert_eq!(full, ["subnet-us-east-1a", "subnet-us-east-1b"]);
    });
}
