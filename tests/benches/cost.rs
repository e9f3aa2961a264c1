//! Measures the monthly cost of a stack: the stack itself, a cluster at rest, and a cluster of 1,000 nodes with a
//! wake each second.
//!
//!     cargo bench -p whittle --bench turns -- 10 100 > few.txt
//!     cargo bench -p whittle --bench turns -- 1000 10000 > many.txt
//!     cargo bench --workspace --features whittle/aws --profile dev --bench cost -- few.txt many.txt
//!
//! Invocations, requests and ledger units are counted while real turns run over virtual time, with the real ledger in a
//! local DynamoDB. Compute time is the median that the bench `turns` measured over HTTP; waiting time is the number of
//! sequential calls times the latency of a call in `prices.yaml`. Exits with 1 if a goal is missed.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a measurement prints, and stops at what is not there"
)]

#[path = "cost/bill.rs"]
mod bill;
#[path = "cost/history.rs"]
mod history;
#[path = "cost/meter.rs"]
mod meter;
#[path = "cost/prices.rs"]
mod prices;
#[path = "cost/stack.rs"]
mod stack;
#[path = "cost/template.rs"]
mod template;
#[path = "cost/times.rs"]
mod times;

use std::process::ExitCode;

use model::Lane;
use stories::secs;

use self::{
    bill::{Bill, Goals},
    prices::Prices,
    stack::{Count, Counts, Stack},
    times::Times,
};

const MINUTES: f64 = 60.0 * 730.0;
/// Lanes that a change in a cluster wakes; the fourth woken lane runs only by the sweep.
const CHANGED: [Lane; 3] = [Lane::Provisioner, Lane::Lifecycle, Lane::Terminator];
const FEW: usize = 10;
const MANY: usize = 1_000;
const CLUSTERS: usize = 200;
/// Upper bound on ledger requests of a sweep that visits none of [`CLUSTERS`] clusters, which it reads in batches of a hundred rows.
const QUIET_REQUESTS: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let files: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let [few, many] = files.as_slice() else {
        panic!(
            "two files that the bench `turns` wrote, one of a small and one of a large cluster: {files:?}"
        );
    };
    let prices: Prices = serde_saphyr::from_str(include_str!("cost/prices.yaml")).unwrap();
    let (few, many) = (Times::read(few).await, Times::read(many).await);
    let mut goals = Goals::default();
    let stack = Box::pin(alone(&prices, &few, &mut goals)).await;
    Box::pin(at_rest(&prices, &few, &stack, &mut goals)).await;
    Box::pin(busy(&prices, &many, &mut goals)).await;
    Box::pin(fleet(&mut goals)).await;
    Box::pin(history::explain(&prices, MANY, &mut goals)).await;
    goals.print()
}

/// Cost of the stack itself, without a cluster; returns the counts of an hour.
async fn alone(prices: &Prices, times: &Times, goals: &mut Goals) -> Counts {
    let mut stack = Stack::of(0);
    stack.pass(secs(60)).await;
    let hour = stack.pass(secs(3_600)).await;
    let mut bill = Bill::new(prices, times);
    bill.hours(&hour, 730.0);
    // The other metrics of the stack are published only when something fails.
    bill.metrics(&["whittle_dollars_per_hour"].into());
    bill.fixed(&template::declared());
    let dollars = bill.print("the stack itself, a month");
    println!(
        "    where others use the account's {} free dashboards, or with more than six clusters: ${:.2} more",
        prices.cloudwatch.free_dashboards, prices.cloudwatch.dashboard
    );
    goals.below("the stack itself", dollars, 5.0);
    hour
}

/// Cost of a cluster in which nothing changes, beyond that of the stack.
async fn at_rest(prices: &Prices, times: &Times, alone: &Counts, goals: &mut Goals) {
    let mut stack = Stack::of(1);
    stack.grow(FEW).await;
    stack.metrics();
    let hour = stack.pass(secs(3_600)).await;
    let mut bill = Bill::new(prices, times);
    bill.hours(&hour, 730.0);
    bill.subtract_hours(alone, 730.0);
    bill.metrics(&stack.metrics());
    bill.heartbeats(prices.assumed.quiet_beats_per_minute * MINUTES);
    let dollars = bill.print(&format!("a cluster of {FEW} nodes at rest, a month"));
    goals.below("a cluster at rest", dollars, 1.0);
}

/// Cost of a large cluster that changes every second.
async fn busy(prices: &Prices, times: &Times, goals: &mut Goals) {
    let mut stack = Stack::of(1);
    stack.grow(MANY).await;
    let cluster = Stack::cluster();
    let mut bill = Bill::new(prices, times);
    let wakes = MINUTES * 60.0 / CHANGED.len() as f64;
    let mut journal = 0;
    for lane in Lane::WOKEN {
        stack.sim.advance(secs(20));
        stack.report_change();
        let turn = stack.turn(&cluster, lane).await;
        let units = turn.units;
        println!(
            "  {lane}'s turn over {MANY} nodes: {} read units, {} write units ({} of the journal), {} requests to the ledger, {} to others",
            units.reads,
            units.writes,
            units.journal,
            units.requests,
            turn.calls.values().sum::<usize>(),
        );
        journal = journal.max(units.journal);
        // The disruption lane runs once a minute.
        let turns = if CHANGED.contains(&lane) {
            wakes
        } else {
            MINUTES
        };
        bill.turns(lane, &turn, turns);
    }
    let mut swept = Count::default();
    for _ in 0..2 {
        stack.report_change();
        stack.sim.advance(secs(60));
        swept += stack.sweep().await;
        stack.sim.take_wakes();
    }
    bill.turns(Lane::Housekeeper, &swept, MINUTES / 2.0);
    bill.heartbeats(prices.assumed.busy_beats_per_minute * MINUTES);
    bill.metrics(&stack.metrics());
    let dollars = bill.print(&format!(
        "a cluster of {MANY} nodes with a wake each second, a month"
    ));
    goals.below("1,000 nodes with a wake each second", dollars, 40.0);
    goals.at_most("journal units of a quiet turn", journal, 2);
}

/// Many clusters in which nothing changes: requests of a minute in which no cluster is due.
async fn fleet(goals: &mut Goals) {
    let mut stack = Stack::of(CLUSTERS);
    stack.pass(secs(240)).await;
    let minute = stack.pass(secs(60)).await;
    let (mut turns, mut all) = (0, Count::default());
    for (lane, count) in minute {
        turns += if lane == Lane::Housekeeper {
            0
        } else {
            count.invocations
        };
        all += count;
    }
    let units = all.units;
    println!(
        "{CLUSTERS} clusters at rest, a quiet minute: {turns} turns, {} requests to the ledger with {} read and {} write units, {} calls besides",
        units.requests,
        units.reads,
        units.writes,
        all.calls.values().sum::<usize>(),
    );
    goals.at_most("turns of a quiet minute", turns, 0);
    goals.at_most("write units of a quiet minute", units.writes, 0);
    goals.at_most(
        "ledger requests of a quiet minute",
        units.requests,
        QUIET_REQUESTS,
    );
}
