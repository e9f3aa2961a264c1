//! A thousand deletions at once in each lane that deletes, and a sweep of many clusters of which some hang, over a table that
//! enforces DynamoDB's limits.
//!
//!     cargo bench --profile dev -p stories --bench many -- 200
//!
//! The clusters, EC2 and the table are in memory. "All done in" is virtual time, in which turns take none and come every five
//! seconds, and the sweep each minute; a turn's p50 and p99 are real time. Exits with 1 if a deletion is left or a healthy cluster
//! is not visited within the minute.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, panics on a missing value and reads the clock"
)]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use fakes::{TableCounts, TableFaults, World};
use jiff::SignedDuration;
use model::Lane;
use stories::{HangingStack, Rig, fleet, secs, wants_no_nodes};

const NODES: usize = 1_000;
/// Time between two turns of a lane, which is the shortest delay that a turn requests for its successor.
const BETWEEN: SignedDuration = SignedDuration::from_secs(5);
/// Number of turns after which a lane counts as stuck.
const TURNS_MAX: usize = 400;
/// One cluster of this many hangs.
const HANGS: usize = 10;
/// Width of the table's first column, in characters.
const COLUMN_WIDTH: usize = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let count = std::env::args()
        .skip(1)
        .find_map(|count| count.parse().ok());
    let mut missed = Box::pin(deletions()).await;
    missed.extend(Box::pin(hanging(count.unwrap_or(200))).await);
    if missed.is_empty() {
        println!("many: everything was deleted, and no cluster waited for those that hang");
        return ExitCode::SUCCESS;
    }
    for what in missed {
        println!("many: MISSED: {what}");
    }
    ExitCode::FAILURE
}

/// Runs each deleting lane with a thousand deletions at once; returns the lanes that left some.
async fn deletions() -> Vec<String> {
    println!("{NODES} deletions at once, in a cluster of as many nodes:");
    println!(
        "{:COLUMN_WIDTH$} {:>12} {:>6} {:>9} {:>9} {:>7} {:>7} {:>13}",
        "", "all done in", "turns", "turn p50", "p99", "reads", "writes", "transactions"
    );
    let mut missed = Vec::new();
    let mut rig = steady().await;
    wants_no_nodes(&rig);
    let what = "lifecycle: a static NodePool is scaled to nothing";
    missed.extend(until(&mut rig, what, Lane::Lifecycle, all_deleted).await);
    let what = "terminator: nodes are drained and instances ended";
    missed.extend(until(&mut rig, what, Lane::Terminator, nothing_left).await);

    let mut rig = steady().await;
    rig.sim.with(|world| {
        world.api.pods.clear();
        for pool in world.api.node_pools.values_mut() {
            let budgets = serde_json::json!([{ "nodes": "100%" }]);
            pool.spec.disruption.budgets = serde_json::from_value(budgets).unwrap();
        }
    });
    // Nodes become consolidatable a minute after their last pod is gone.
    for _ in 0..2 {
        rig.sim.advance(secs(90));
        turn(&mut rig, Lane::Lifecycle).await;
    }
    let what = "disruption: empty nodes are consolidated";
    missed.extend(until(&mut rig, what, Lane::Disruption, all_deleted).await);

    let mut rig = steady().await;
    rig.sim.with(|world| {
        let ids: Vec<_> = world.account.instances.keys().cloned().collect();
        for id in ids {
            world.account.terminate(&id, world.now);
        }
    });
    let what = "collection: instances are gone, NodeClaims follow";
    missed.extend(until(&mut rig, what, Lane::Housekeeper, all_deleted).await);
    missed
}

/// A thousand nodes with everything that first turns write, over a table whose partitions throttle.
async fn steady() -> Rig {
    let mut rig = fleet(NODES).await;
    for _ in 0..2 {
        rig.sim.advance(secs(20));
        turn(&mut rig, Lane::Lifecycle).await;
    }
    rig.sim.with(|world| {
        world.ledger.table().set_faults(TableFaults {
            throttles: true,
            ..TableFaults::default()
        });
    });
    rig
}

fn all_deleted(world: &mut World) -> bool {
    let mut claims = world.api.node_claims.values();
    claims.all(|claim| claim.deleted_at.is_some())
}

fn nothing_left(world: &mut World) -> bool {
    world.api.node_claims.is_empty()
        && world.api.nodes.is_empty()
        && world.account.alive().next().is_none()
}

/// Runs turns of one lane until the condition holds, and prints their figures as a line of the table.
async fn until(
    rig: &mut Rig,
    what: &str,
    lane: Lane,
    is_so: fn(&mut World) -> bool,
) -> Option<String> {
    let before = requests(rig);
    let begun = rig.sim.with(|world| world.now);
    let mut took = Vec::new();
    while !rig.sim.with(is_so) {
        if took.len() == TURNS_MAX {
            return Some(format!("{what}: not in {TURNS_MAX} turns"));
        }
        rig.sim.advance(BETWEEN);
        took.push(turn(rig, lane).await);
    }
    let after = requests(rig);
    let lasted = rig.sim.with(|world| world.now).duration_since(begun);
    let (reads, writes) = (after.reads - before.reads, after.writes - before.writes);
    let transactions = after.transactions - before.transactions;
    took.sort();
    println!(
        "{what:COLUMN_WIDTH$} {:>12} {:>6} {:>6} ms {:>6} ms {reads:>7} {writes:>7} {transactions:>13}",
        format!("{lasted:#}"),
        took.len(),
        at(&took, 50),
        at(&took, 99),
    );
    None
}

fn at(sorted: &[Duration], percent: usize) -> u128 {
    let last = sorted.len().saturating_sub(1);
    let place = sorted.get((last * percent).div_ceil(100));
    place.copied().unwrap_or_default().as_millis()
}

fn requests(rig: &Rig) -> TableCounts {
    rig.sim.with(|world| world.ledger.table().counts())
}

/// Runs one turn of the lane, or a sweep, and returns its duration.
async fn turn(rig: &mut Rig, lane: Lane) -> Duration {
    let turn = rig.next_turn();
    let begun = Instant::now();
    if lane == Lane::Housekeeper {
        // A sweep runs once a minute.
        rig.sim.advance(secs(60) - BETWEEN);
        let report = Box::pin(turns::housekeep(&rig.world, &turn)).await.unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    } else {
        let deadline = rig.deadline(lane);
        let report = turns::run(&rig.world, &Rig::cluster(), lane, &turn, deadline).await;
        let report = report.unwrap();
        let is_done = matches!(report.outcome, turns::Outcome::Done);
        assert!(is_done, "{lane}: {:?}", report.outcome);
    }
    let took = begun.elapsed();
    rig.sim.take_wakes();
    took
}

/// Runs one sweep of `clusters` clusters of which a tenth hang; returns a description of the clusters left out.
async fn hanging(clusters: usize) -> Option<String> {
    let hangs = |number: usize| number.is_multiple_of(HANGS);
    let mut stack = HangingStack::new(clusters, hangs).await;
    let (report, took) = stack.sweep().await.unwrap();
    let hanging = (0..clusters).filter(|number| hangs(*number)).count();
    let (renewed, woken) = (stack.renewed(), stack.woken());
    let others = renewed.iter().filter(|number| !hangs(**number)).count();
    println!("a sweep of {clusters} clusters, of which the API servers of {hanging} hang:");
    println!(
        "all done in {took:#} of virtual time: {others} of the {} others visited, lanes of {} clusters woken within the minute",
        clusters - hanging,
        woken.len(),
    );
    let is_missed = renewed.len() < clusters - hanging || took >= secs(60);
    is_missed.then(|| format!("{took:#}, {:?}", report.problems))
}
