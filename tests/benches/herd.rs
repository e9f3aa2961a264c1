//! Many clusters that wake together: how long their turns take while all of them write to one ledger, in a local DynamoDB, and
//! whether what waits grows less all the time.
//!
//!     cargo bench --workspace --features whittle/aws --profile dev --bench herd -- 200
//!
//! Every cluster has an API server and instances of its own in memory; the table is shared, as that of a stack is. All turns run
//! in this process, on one core, so that times are those of a crowd. Ends with 1 where a turn fails or does not end in its time,
//! or the backlog grows.
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
/// Virtual minutes after which everybody has what they asked for.
const PATIENCE: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let count = std::env::args()
        .skip(1)
        .find_map(|count| count.parse().ok());
    let mut herd = Herd::new(count.unwrap_or(200)).await;
    for lane in [Lane::Lifecycle, Lane::Provisioner] {
        let quiet = herd.wake(lane).await;
        println!("{lane}, nothing to do: {quiet}");
    }
    herd.ask();
    let mut backlog = vec![herd.waiting()];
    let mut told = Vec::new();
    while backlog.last() != Some(&0) && backlog.len() <= PATIENCE {
        for lane in [Lane::Provisioner, Lane::Lifecycle, Lane::Terminator] {
            let woken = herd.wake(lane).await;
            println!("{lane}: {woken}");
            told.push(woken);
        }
        herd.pass();
        backlog.push(herd.waiting());
    }
    println!("pods that wait, minute by minute: {backlog:?}");
    let failed: usize = told.iter().map(|woken| woken.failed).sum();
    let is_monotone = backlog.is_sorted_by(|before, after| before >= after);
    if failed == 0 && is_monotone && backlog.last() == Some(&0) {
        println!(
            "herd: every turn ended in its time, and the backlog grew less until nothing waited"
        );
        return ExitCode::SUCCESS;
    }
    println!("herd: MISSED: {failed} turns failed, the backlog is {backlog:?}");
    ExitCode::FAILURE
}

/// What turns that were woken together came to.
struct Woken {
    took: Vec<Duration>,
    /// Ended with an error, or after their time.
    failed: usize,
    all: Duration,
}

impl std::fmt::Display for Woken {
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

struct Herd {
    /// Whose table is shared, as long as it is there.
    _stack: Stack,
    members: Vec<(ClusterName, Rig)>,
    turns: u64,
}

impl Herd {
    async fn new(count: usize) -> Self {
        let mut stack = Stack::of(count);
        // The sweep takes all of them into the ledger.
        stack.sweep().await;
        stack.sim.take_wakes();
        let members = (0..count).map(|number| {
            let name = stack::name(number);
            let mut rig = Rig::new(Relay::Dead);
            rig.world.ledger = stack.ledger.clone();
            rig.world.journal = stack.ledger.clone();
            rig.sim.with(|world| {
                world.registry[0].cluster = name.clone();
                // All are of one account, in which no instance is called as another.
                world.account.started = number * PODS * PATIENCE;
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

    /// Every cluster wants the same at the same moment.
    fn ask(&self) {
        for (_, rig) in &self.members {
            rig.sim.with(|world| world.api.scale("web", PODS, cpu(POD)));
            rig.sim.advance(secs(1));
        }
    }

    fn waiting(&self) -> usize {
        let waiting = self.members.iter().map(|(_, rig)| {
            rig.sim.with(|world| {
                let pods = world.api.pods.values();
                pods.filter(|pod| pod.node_name.is_none()).count()
            })
        });
        waiting.sum()
    }

    fn pass(&self) {
        for (_, rig) in &self.members {
            rig.sim.advance(secs(60));
            rig.sim.take_wakes();
        }
    }

    async fn wake(&mut self, lane: Lane) -> Woken {
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
        Woken {
            took,
            failed,
            all: begun.elapsed(),
        }
    }
}
