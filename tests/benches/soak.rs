//! What a day leaves behind: a cluster that never rests for long, over virtual time, with the real ledger in a local DynamoDB.
//!
//!     cargo bench --workspace --features whittle/aws --profile dev --bench soak -- 24
//!
//! Each hour workloads grow and shrink, AWS takes an instance back, one dies and a person deletes a NodeClaim; the rest of the
//! hour is quiet. Then rows are counted that stay for ever, and those that DynamoDB removes in time, and the memory of this process:
//! what is in use of its heap, and how much of it has been touched, which is what a function is given memory for.
//! Ends with 1 where anything but rows that expire has grown, or a message was not acknowledged.
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

/// As the functions allocate, counted.
#[global_allocator]
static HEAP: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

const POD: i64 = 700;
/// What happens in an hour, by its minutes; the others are quiet.
const HOUR: [(i64, Deed); 8] = [
    (0, Deed::Scale(9)),
    (5, Deed::Scale(3)),
    (10, Deed::Interrupt),
    (15, Deed::Scale(12)),
    (20, Deed::Kill),
    (25, Deed::Scale(6)),
    (30, Deed::Delete),
    (35, Deed::Scale(4)),
];
/// What AWS gives a spot instance.
const NOTICE: i64 = 120;
/// A process has what it needs after so many hours.
const WARM: usize = 4;
/// Of a hundred: what connections and their buffers differ by from hour to hour. What a turn leaves behind is noticed in a day from
/// seven bytes on.
const BREATH: usize = 10;

#[derive(Clone, Copy)]
enum Deed {
    Scale(usize),
    /// AWS announces that it takes an instance back, and does so.
    Interrupt,
    /// An instance ends, and AWS says so afterwards.
    Kill,
    /// A person deletes a NodeClaim.
    Delete,
}

/// What is there when an hour is over.
struct Kept {
    nodes: usize,
    /// Rows that nothing removes by itself.
    rows: usize,
    expiring: usize,
    /// Messages that would be delivered again, and in the end be dead letters.
    unacknowledged: usize,
    turns: usize,
    /// Read units of all turns.
    reads: usize,
    /// KiB in use.
    heap: usize,
    /// KiB that are resident.
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
    let mut kept = Vec::new();
    for hour in 1..=hours {
        let now = Box::pin(soak.hour()).await;
        let Kept {
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
        kept.push(now);
    }
    tell(&kept)
}

/// Compares the end with what was there once everything was warm.
fn tell(kept: &[Kept]) -> ExitCode {
    let (before, after) = kept.split_at(WARM.min(kept.len() / 2));
    let most =
        |of: &[Kept], what: fn(&Kept) -> usize| of.iter().map(what).max().unwrap_or_default();
    // Each node has rows of its own.
    let per_node = |one: &Kept| one.rows.saturating_sub(one.nodes * ROWS_OF_A_NODE);
    let checks = [
        (
            "rows that stay, but for those of nodes",
            most(after, per_node),
            most(before, per_node),
        ),
        (
            "messages not acknowledged",
            most(after, |one| one.unacknowledged),
            0,
        ),
        (
            "KiB in use of the heap",
            most(after, |one| one.heap),
            most(before, |one| one.heap) * (100 + BREATH) / 100,
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

/// The launch, its NodeClaim and its instance.
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

    async fn hour(&mut self) -> Kept {
        let (mut turns, mut reads) = (0, 0);
        for minute in 0..60 {
            if let Some((_, deed)) = HOUR.iter().find(|(at, _)| *at == minute) {
                self.happen(*deed).await;
            }
            self.stack.change();
            let counts = self.stack.pass(secs(60)).await;
            for count in counts.values() {
                turns += count.invocations;
                reads += count.units.reads;
            }
        }
        self.forget();
        let (heap, resident) = (HEAP.allocated() >> 10, resident());
        let (rows, expiring) = self.rows();
        Kept {
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

    async fn happen(&mut self, deed: Deed) {
        let sim = self.stack.sim.clone();
        match deed {
            Deed::Scale(replicas) => sim.with(|world| world.api.scale("web", replicas, cpu(POD))),
            Deed::Delete => sim.with(|world| {
                let name = world.api.node_claims.keys().next().cloned();
                name.iter()
                    .for_each(|name| world.api.request_deletion(name, world.now));
            }),
            Deed::Interrupt | Deed::Kill => {
                let is_announced = matches!(deed, Deed::Interrupt);
                let alive =
                    sim.with(|world| world.account.alive().next().map(|one| one.id.clone()));
                let Some(instance) = alive else { return };
                if is_announced {
                    sim.with(|world| make_spot(world, &instance));
                    self.announce(&instance, InterruptionKind::SpotInterrupted, Some(NOTICE))
                        .await;
                    self.stack.change();
                    self.stack.pass(secs(NOTICE)).await;
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

    /// What AWS and an API server forget, or keep elsewhere: none of it is a function's.
    fn forget(&self) {
        self.stack.metrics();
        // Sizes of rows that are in the table, which is counted itself.
        self.stack.meter.expire(i64::MAX);
        self.stack.sim.with(|world| {
            world.account.forget_ended();
            let there = &world.account.instances;
            world.api.joined.retain(|id| there.contains_key(id));
            world.account.requests.clear();
            world.ledger.archive.clear();
            world.api.events.clear();
            world.api.created.clear();
            world.told.clear();
            world.looked_up.clear();
        });
    }

    /// Rows that stay, and those that are removed in time.
    fn rows(&self) -> (usize, usize) {
        let now = self.stack.now().as_second().to_string();
        let later = json!({":now": {"N": now}});
        (
            self.count("attribute_not_exists(#expires)", &Value::Null),
            self.count("#expires > :now", &later),
        )
    }

    /// Counted where they are: whole rows would need more memory than what is measured.
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
