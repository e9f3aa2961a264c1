//! Measures the terminator's turn over many draining nodes and the lifecycle's over many ready ones: time and calls, on fakes that
//! answer immediately.
//!
//!     cargo bench --profile dev -p stories --bench lifecycle
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, panics on a missing value and reads the clock"
)]

use std::{collections::BTreeMap, time::Instant};

use model::{Lane, PodKey, selector::LabelSelector, snapshot::PodDisruptionBudget};
use stories::{Rig, fleet, secs};

/// A cluster of `nodes` nodes with a pod each.
async fn cluster(nodes: usize) -> Rig {
    let mut rig = fleet(nodes).await;
    // The first turns write statuses and labels; they are not measured.
    for lane in [Lane::Lifecycle, Lane::Lifecycle] {
        rig.sim.advance(secs(20));
        run(&mut rig, lane).await;
    }
    rig
}

/// Runs one turn and returns its duration and its calls by name.
async fn run(rig: &mut Rig, lane: Lane) -> (u128, BTreeMap<&'static str, usize>) {
    rig.sim.with(|world| world.calls.clear());
    let turn = rig.next_turn();
    let start = Instant::now();
    turns::run(&rig.world, &Rig::cluster(), lane, &turn, rig.deadline(lane))
        .await
        .unwrap();
    let took = start.elapsed().as_millis();
    let mut calls = BTreeMap::new();
    rig.sim.with(|world| {
        for call in &world.calls {
            *calls.entry(*call).or_default() += 1;
        }
    });
    (took, calls)
}

fn print(what: &str, (took, calls): &(u128, BTreeMap<&'static str, usize>)) {
    let many = calls.iter().filter(|(_, count)| **count > 9);
    let many: Vec<String> = many
        .map(|(call, count)| format!("{call} {count}"))
        .collect();
    println!(
        "{what}: {took} ms, {} calls ({})",
        calls.values().sum::<usize>(),
        many.join(", ")
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut rig = cluster(5_000).await;
    print(
        "lifecycle, 5,000 steady nodes",
        &run(&mut rig, Lane::Lifecycle).await,
    );

    let mut rig = cluster(1_000).await;
    rig.sim.with(|world| {
        world.api.disruption_budgets = vec![PodDisruptionBudget {
            key: PodKey::new("default", "all"),
            selector: Some(LabelSelector {
                match_labels: BTreeMap::new(),
                match_expressions: Vec::new(),
            }),
            ..PodDisruptionBudget::default()
        }];
        let claims: Vec<_> = world.api.node_claims.keys().cloned().collect();
        for name in claims {
            world.api.request_deletion(&name, world.now);
        }
    });
    for what in [
        "terminator, 1,000 NodeClaims just deleted",
        "terminator, 1,000 nodes to mark and evict from",
        "terminator, 1,000 nodes that a budget holds up",
    ] {
        rig.sim.advance(secs(20));
        print(what, &run(&mut rig, Lane::Terminator).await);
    }
}
