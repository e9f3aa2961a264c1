//! Soak test: measures the data that a constantly changing cluster leaves behind over virtual time, with the real ledger in a
//! local DynamoDB.
//!
//!     cargo bench --workspace --features whittle/aws --profile dev --bench soak -- 24
//!
//! Each hour workloads grow and shrink, a spot instance is interrupted, an instance fails and a user deletes a
//! NodeClaim; the rest of the hour is quiet. After each hour the bench counts rows that stay forever, rows that
//! DynamoDB removes in time, and the memory of this process: allocated heap, and resident memory, by which a function's
//! memory size is chosen. Exits with 1 if anything but expiring rows has grown, or if a message was not acknowledged.
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

use std::{fs, process::ExitCode};

use cap::Cap;
use mimalloc::MiMalloc;
use model::{InstanceId, Interruption, InterruptionKind};
use serde_json::{Value, json};
use stories::{cpu, make_spot, secs};

use self::stack::Stack;

/// Allocator of the functions, with a counter.
#[global_allocator]
static HEAP: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

const POD: i64 = 700;
/// Events of an hour, by minute; all other minutes are quiet.
const HOUR: [(i64, HourlyEvent); 8] = [
    (0, HourlyEvent::Scale(9)),
    (5, HourlyEvent::Scale(3)),
    (10, HourlyEvent::Interrupt),
    (15, HourlyEvent::Scale(12)),
    (20, HourlyEvent::Kill),
    (25, HourlyEvent::Scale(6)),
    (30, HourlyEvent::Delete),
    (35, HourlyEvent::Scale(4)),
];
/// Seconds between EC2's spot interruption notice and the interruption.
const NOTICE_SECONDS: i64 = 120;
/// Hours after which caches are filled.
const WARM_UP_HOURS: usize = 4;
/// Tolerated growth of the heap in percent: the hourly variation of connections and their buffers. A leak of seven
/// bytes per turn exceeds it within a day.
const HEAP_TOLERANCE_PERCENT: usize = 10;

#[derive(Clone, Copy)]
enum HourlyEvent {
    Scale(usize),
    /// EC2 announces a spot interruption and performs it.
    Interrupt,
    /// An instance terminates, and EC2 reports that afterwards.
    Kill,
    /// A user deletes a NodeClaim.
    Delete,
}

/// Measurements at the end of an hour.
struct Measurement {
    nodes: usize,
    /// Rows without an expiry.
    rows: usize,
    expiring: usize,
    /// Messages that would be delivered again, and finally become dead letters.
    unacknowledged: usize,
    turns: usize,
    /// Read units of all turns.
    reads: usize,
    /// Allocated KiB.
    heap: usize,
    /// Resident KiB.
    resident: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let hours = std::env::args()
        .skip(1)
        .find_map(|hours| hours.parse().ok());
    let hours: usize = hours.unwrap_or(24);
    let mut soak = Soak::new().await;
    println!("hour  turns  reads  nodes  rows  expiring  unacknowledged      heap  resident");
    let mut measurements = Vec::new();
    for hour in 1..=hours {
        let now = Box::pin(soak.hour()).await;
        let Measurement {
            nodes,
            rows,
            expiring,
            unacknowledged,
            turns,
            reads,
            heap,
            resident,
        } = &now;
        println!(
            "{hour:>4} {turns:>6} {reads:>6} {nodes:>6} {rows:>5} {expiring:>9} {unacknowledged:>15} {heap:>5} KiB {:>5} MiB",
            resident >> 10
        );
        measurements.push(now);
    }
    compare(&measurements)
}

/// Compares the last hours with the first ones, which fill caches.
fn compare(measurements: &[Measurement]) -> ExitCode {
    let (before, after) = measurements.split_at(WARM_UP_HOURS.min(measurements.len() / 2));
    let most = |of: &[Measurement], what: fn(&Measurement) -> usize| {
        of.iter().map(what).max().unwrap_or_default()
    };
    // Each node has separate rows.
    let per_node = |hour: &Measurement| hour.rows.saturating_sub(hour.nodes * ROWS_OF_A_NODE);
    let checks = [
        (
            "rows without an expiry, apart from those of nodes",
            most(after, per_node),
            most(before, per_node),
        ),
        (
            "unacknowledged messages",
            most(after, |hour| hour.unacknowledged),
            0,
        ),
        (
            "allocated KiB",
            most(after, |hour| hour.heap),
            most(before, |hour| hour.heap) * (100 + HEAP_TOLERANCE_PERCENT) / 100,
        ),
    ];
    let mut code = ExitCode::SUCCESS;
    for (what, is, may) in checks {
        let word = if is <= may { "holds" } else { "GREW" };
        println!("{word}: {what}: {is}, at most {may}");
        if is > may {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Rows of one node: launch intent, NodeClaim and instance.
const ROWS_OF_A_NODE: usize = 3;

struct Soak {
    stack: Stack,
    unacknowledged: usize,
}

impl Soak {
    async fn new() -> Self {
        let mut stack = Stack::of(1);
        stack.pass(secs(180)).await;
        Self {
            stack,
            unacknowledged: 0,
        }
    }

    async fn hour(&mut self) -> Measurement {
        let (mut turns, mut reads) = (0, 0);
        for minute in 0..60 {
            if let Some((_, event)) = HOUR.iter().find(|(at, _)| *at == minute) {
                self.apply(*event).await;
            }
            self.stack.report_change();
            let counts = self.stack.pass(secs(60)).await;
            for count in counts.values() {
                turns += count.invocations;
                reads += count.units.reads;
            }
        }
        self.drop_external_state();
        let (heap, resident) = (HEAP.allocated() >> 10, resident());
        let (rows, expiring) = self.count_rows();
        Measurement {
            nodes: self.stack.sim.with(|world| world.api.nodes.len()),
            rows,
            expiring,
            unacknowledged: std::mem::take(&mut self.unacknowledged),
            turns,
            reads,
            heap,
            resident,
        }
    }

    async fn apply(&mut self, event: HourlyEvent) {
        let sim = self.stack.sim.clone();
        match event {
            HourlyEvent::Scale(replicas) => {
                sim.with(|world| world.api.scale("web", replicas, cpu(POD)))
            }
            HourlyEvent::Delete => sim.with(|world| {
                let name = world.api.node_claims.keys().next().cloned();
                name.iter()
                    .for_each(|name| world.api.request_deletion(name, world.now));
            }),
            HourlyEvent::Interrupt | HourlyEvent::Kill => {
                let is_announced = matches!(event, HourlyEvent::Interrupt);
                let alive = sim.with(|world| {
                    world
                        .account
                        .alive()
                        .next()
                        .map(|instance| instance.id.clone())
                });
                let Some(instance) = alive else { return };
                if is_announced {
                    sim.with(|world| make_spot(world, &instance));
                    self.announce(
                        &instance,
                        InterruptionKind::SpotInterrupted,
                        Some(NOTICE_SECONDS),
                    )
                    .await;
                    self.stack.report_change();
                    self.stack.pass(secs(NOTICE_SECONDS)).await;
                }
                sim.with(|world| world.account.terminate(&instance, world.now));
                self.announce(&instance, InterruptionKind::InstanceTerminated, None)
                    .await;
            }
        }
    }

    async fn announce(&mut self, instance: &InstanceId, kind: InterruptionKind, left: Option<i64>) {
        let now = self.stack.now();
        let fact = Interruption {
            instance: instance.clone(),
            kind,
            at: Some(now),
            deadline: left.map(|left| now + secs(left)),
            hook: None,
            event: String::new(),
            reboots: false,
        };
        let turn = self.stack.next();
        let outcomes = Box::pin(turns::interrupt(&self.stack.world, &[fact], &turn)).await;
        self.unacknowledged += outcomes.iter().filter(|outcome| outcome.is_err()).count();
    }

    /// Drops state that belongs to AWS or the API server in production and must not count as a function's.
    fn drop_external_state(&self) {
        self.stack.metrics();
        // Sizes of rows in the meter; the table itself is counted separately.
        self.stack.meter.expire(i64::MAX);
        self.stack.sim.with(|world| {
            world.account.forget_ended();
            let there = &world.account.instances;
            world.api.joined.retain(|id| there.contains_key(id));
            world.account.requests.clear();
            world.ledger.archive.clear();
            world.api.events.clear();
            world.api.created.clear();
            world.notifications.clear();
            world.looked_up.clear();
        });
    }

    /// Returns the number of rows without an expiry, and of rows that expire.
    fn count_rows(&self) -> (usize, usize) {
        let now = self.stack.now().as_second().to_string();
        let later = json!({":now": {"N": now}});
        (
            self.count("attribute_not_exists(#expires)", &Value::Null),
            self.count("#expires > :now", &later),
        )
    }

    /// Counts in DynamoDB: reading whole rows would need more memory than is measured.
    fn count(&self, filter: &str, values: &Value) -> usize {
        let mut request = json!({
            "TableName": stack::TABLE,
            "Select": "COUNT",
            "FilterExpression": filter,
            "ExpressionAttributeNames": {"#expires": "expires"},
        });
        if !values.is_null() {
            request["ExpressionAttributeValues"] = values.clone();
        }
        let mut count = 0;
        loop {
            let page = self
                .stack
                .dynamodb
                .call("dynamodb", "scan", request.clone());
            count += page["Count"].as_u64().unwrap();
            match page.get("LastEvaluatedKey") {
                Some(last) if !last.is_null() => request["ExclusiveStartKey"] = last.clone(),
                _ => return usize::try_from(count).unwrap(),
            }
        }
    }
}

/// Resident KiB of this process.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
