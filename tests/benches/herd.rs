//! Thundering herd: many clusters wake at the same time. Measures how long their turns take while all of them write to
//! one ledger in a local DynamoDB, and whether the backlog of pending pods shrinks monotonically.
//!
//!     cargo bench --workspace --features whittle/aws --profile dev --bench herd -- 200
//!
//! Every cluster has its own API server and instances in memory; the table is shared, as in a stack. All turns
//! run in this process, on one core, so that latencies include contention. Exits with 1 if a turn fails or exceeds its
//! budget, or if the backlog grows.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement prints, and stops at what is not there"
)]

#[path = "cost/meter.rs"]
mod meter;
#[expect(dead_code, reason = "the bill is of clusters that are made large")]
#[path = "cost/stack.rs"]
mod stack;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use futures::future::join_all;
use model::{ClusterName, Lane, ids::TurnId};
use stories::{Relay, Rig, cpu, secs};

use self::stack::Stack;

const PODS: usize = 5;
const POD: i64 = 700;
/// Virtual minutes after which all pods must be bound.
const MINUTES_MAX: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let count = std::env::args()
        .skip(1)
        .find_map(|count| count.parse().ok());
    let mut herd = ThunderingHerd::new(count.unwrap_or(200)).await;
    for lane in [Lane::Lifecycle, Lane::Provisioner] {
        let quiet = herd.wake(lane).await;
        println!("{lane}, nothing to do: {quiet}");
    }
    herd.scale_up();
    let mut backlog = vec![herd.pending_pods()];
    let mut results = Vec::new();
    while backlog.last() != Some(&0) && backlog.len() <= MINUTES_MAX {
        for lane in [Lane::Provisioner, Lane::Lifecycle, Lane::Terminator] {
            let result = herd.wake(lane).await;
            println!("{lane}: {result}");
            results.push(result);
        }
        herd.pass();
        backlog.push(herd.pending_pods());
    }
    println!("pending pods, minute by minute: {backlog:?}");
    let failed: usize = results.iter().map(|result| result.failed).sum();
    let is_monotone = backlog.is_sorted_by(|before, after| before >= after);
    if failed == 0 && is_monotone && backlog.last() == Some(&0) {
        println!("herd: every turn stayed within its budget, and the backlog shrank to zero");
        return ExitCode::SUCCESS;
    }
    println!("herd: FAILED: {failed} turns failed, the backlog is {backlog:?}");
    ExitCode::FAILURE
}

/// Durations and failures of the turns that were woken together.
struct WakeResult {
    took: Vec<Duration>,
    /// Turns that failed or exceeded their budget.
    failed: usize,
    all: Duration,
}

impl std::fmt::Display for WakeResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |percent: usize| {
            let last = self.took.len().saturating_sub(1);
            self.took[last * percent / 100].as_millis()
        };
        write!(
            f,
            "{} turns together in {} ms: p50 {} ms, p99 {} ms, {} failed",
            self.took.len(),
            self.all.as_millis(),
            at(50),
            at(99),
            self.failed
        )
    }
}

struct ThunderingHerd {
    /// Owns the shared table.
    _stack: Stack,
    members: Vec<(ClusterName, Rig)>,
    turns: u64,
}

impl ThunderingHerd {
    async fn new(count: usize) -> Self {
        let mut stack = Stack::of(count);
        // The sweep registers all clusters in the ledger.
        stack.sweep().await;
        stack.sim.take_wakes();
        let members = (0..count).map(|number| {
            let name = stack::name(number);
            let mut rig = Rig::new(Relay::Dead);
            rig.world.ledger = stack.ledger.clone();
            rig.world.journal = stack.ledger.clone();
            rig.sim.with(|world| {
                world.registry[0].cluster = name.clone();
                // Instance ids must be unique across clusters, because all belong to one account.
                world.account.started = number * PODS * MINUTES_MAX;
                world.now = stack.now();
                world.api.leader = stack.sim.with(|other| other.api.leader.clone());
            });
            (name, rig)
        });
        Self {
            members: members.collect(),
            _stack: stack,
            turns: 0,
        }
    }

    /// Scales the workload of every cluster at the same time.
    fn scale_up(&self) {
        for (_, rig) in &self.members {
            rig.sim.with(|world| world.api.scale("web", PODS, cpu(POD)));
            rig.sim.advance(secs(1));
        }
    }

    fn pending_pods(&self) -> usize {
        let pending = self.members.iter().map(|(_, rig)| {
            rig.sim.with(|world| {
                let pods = world.api.pods.values();
                pods.filter(|pod| pod.node_name.is_none()).count()
            })
        });
        pending.sum()
    }

    fn pass(&self) {
        for (_, rig) in &self.members {
            rig.sim.advance(secs(60));
            rig.sim.take_wakes();
        }
    }

    async fn wake(&mut self, lane: Lane) -> WakeResult {
        let begun = Instant::now();
        let turns = self.members.iter().map(|(name, rig)| {
            self.turns += 1;
            let (turn, deadline) = (TurnId(format!("turn-{}", self.turns)), rig.deadline(lane));
            async move {
                let begun = Instant::now();
                let report = Box::pin(turns::run(&rig.world, name, lane, &turn, deadline)).await;
                let took = begun.elapsed();
                let is_done =
                    report.is_ok_and(|report| matches!(report.outcome, turns::Outcome::Done));
                let budget = Duration::try_from(turns::budget(lane)).unwrap();
                (took, is_done && took <= budget)
            }
        });
        let ended = join_all(turns.collect::<Vec<_>>()).await;
        let failed = ended.iter().filter(|(_, is_done)| !is_done).count();
        let mut took: Vec<Duration> = ended.into_iter().map(|(took, _)| took).collect();
        took.sort();
        WakeResult {
            took,
            failed,
            all: begun.elapsed(),
        }
    }
}
