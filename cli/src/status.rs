//! `whittle status`: the clusters of a stack, their turns and relays, and what waits for a person.

#[cfg(feature = "aws")]
use std::io::Write as _;

use anyhow::Result;
use clap::Args;
#[cfg(any(feature = "aws", test))]
use {
    jiff::{SignedDuration, Timestamp},
    model::{
        counted,
        ledger::{LaneRow, Mode, SweepMemory},
    },
    ports::ledger::ClusterSummary,
    serde::Serialize,
    std::fmt::Write as _,
};

#[cfg(any(feature = "aws", test))]
use crate::output::Row;
use crate::{exit::Exit, output::ListOutput};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle status
  whittle status -o json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    pub(crate) stack: crate::stack::Stack,
    #[command(flatten)]
    pub(crate) registry: crate::registry::Registry,
}

/// Status of a registered cluster.
#[cfg(any(feature = "aws", test))]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterStatus {
    cluster: String,
    /// `active` or `shadow` as functions know it; `unknown` before the first sweep.
    mode: &'static str,
    /// Number of nodes; `None` if the ledger does not know the cluster, or cannot be read.
    nodes: Option<u32>,
    /// Price of all nodes, in dollars per hour; `None` as for the nodes.
    dollars_per_hour: Option<String>,
    relay: Option<RelayStatus>,
    lanes: Vec<LaneStatus>,
    /// Whether the cluster's rows in the ledger could be read, for the table.
    #[serde(skip)]
    is_readable: bool,
    /// Age of the last turn that read the whole cluster in any lane, and the number of failing lanes, for the table.
    #[serde(skip)]
    last_turn: String,
    pauses: Vec<String>,
    /// Everything that waits for a person, each with its remedy.
    waiting: Vec<String>,
}

#[cfg(any(feature = "aws", test))]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RelayStatus {
    version: String,
    /// Time of the last heartbeat by the relay's clock.
    beat_at: String,
    /// Negative if the relay's clock is ahead.
    age_seconds: Option<i64>,
}

#[cfg(any(feature = "aws", test))]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LaneStatus {
    lane: &'static str,
    /// Whether a turn runs now.
    running: bool,
    /// Last turn that read the whole cluster.
    last_full_look: Option<Timestamp>,
    /// Next turn that was asked for.
    due: Option<Timestamp>,
    /// Number of failed turns since the last successful one.
    failures: u32,
    last_error: Option<String>,
}

/// Age from which a missing instance or NodeClaim counts as held back: garbage collection needs two sweeps, two minutes apart.
#[cfg(any(feature = "aws", test))]
const HELD_BACK_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Age of a heartbeat, in seconds, below which the table says that the relay's clock is ahead.
#[cfg(any(feature = "aws", test))]
const AGE_MIN: i64 = -60;

#[cfg(any(feature = "aws", test))]
impl ClusterStatus {
    /// The status of an entry by its rows in the ledger, or the reason why those cannot be read; `refused` is the reason why functions
    /// refuse the entry.
    pub(crate) fn of(
        cluster: &str,
        summary: Result<&ClusterSummary, String>,
        refused: Option<String>,
        now: Timestamp,
    ) -> Self {
        let refused = refused.map(|why| format!("the registry entry is refused: {why}"));
        let is_refused = refused.is_some();
        let mut waiting: Vec<String> = refused.into_iter().collect();
        let none = ClusterSummary::default();
        let is_readable = summary.is_ok();
        let summary = summary.unwrap_or_else(|error| {
            waiting.push(error);
            &none
        });
        let meta = summary.meta.as_ref();
        let spending = meta.map(|meta| meta.account.of(&cluster.into()));
        let relay = summary.beat.as_ref().map(|beat| RelayStatus {
            version: beat.version.clone(),
            beat_at: beat.beat_at.clone(),
            age_seconds: beat
                .beat_at
                .parse()
                .ok()
                .map(|at: Timestamp| now.duration_since(at).as_secs()),
        });
        let pauses = meta.map(|meta| meta.pauses.as_slice()).unwrap_or_default();
        let live = pauses.iter().filter(|pause| pause.is_live(now));
        let lanes = summary.lanes.iter();
        let lanes: Vec<LaneStatus> = lanes
            .map(|(lane, row)| LaneStatus::of(lane.as_str(), row, now))
            .collect();
        match meta {
            None if !is_readable => {}
            None if is_refused => waiting.push(
                "the ledger does not know the cluster: a sweep reads its entry once that is valid".to_owned(),
            ),
            None => waiting.push(
                "the ledger does not know the cluster yet: the next sweep, within a minute, reads its entry"
                    .to_owned(),
            ),
            Some(meta) => {
                let open = meta.requests.iter().filter(|request| request.is_open(now));
                waiting.extend(open.map(|request| {
                    let (id, description) = (&request.id, &request.description);
                    format!("approval of {description}: whittle approve {cluster} {id}")
                }));
            }
        }
        let is_active = meta.is_some_and(|meta| meta.mode == Mode::Active);
        waiting.extend(of_sweep(cluster, &summary.memory, is_active, now));
        Self {
            cluster: cluster.to_owned(),
            mode: meta.map_or("unknown", |meta| crate::registry::mode_text(meta.mode)),
            nodes: spending.map(|spending| spending.nodes),
            dollars_per_hour: spending.map(|spending| spending.price.to_string()),
            is_readable,
            relay,
            last_turn: last_turn(&lanes, now),
            lanes,
            pauses: live.map(ToString::to_string).collect(),
            waiting,
        }
    }

    /// Pauses, and everything that waits for a person.
    #[cfg(feature = "aws")]
    pub(crate) fn held_back(self) -> Vec<String> {
        self.pauses.into_iter().chain(self.waiting).collect()
    }

    fn relay_text(&self) -> String {
        match &self.relay {
            None if !self.is_readable => "?".to_owned(),
            None => "none".to_owned(),
            Some(RelayStatus {
                age_seconds: Some(age @ ..AGE_MIN),
                ..
            }) => format!("{} ahead", age_text(-age)),
            Some(RelayStatus {
                age_seconds: Some(age),
                ..
            }) => format!("{} ago", age_text((*age).max(0))),
            Some(_) => "?".to_owned(),
        }
    }
}

/// Age of the last turn that read the whole cluster in any lane, and the number of failing lanes.
#[cfg(any(feature = "aws", test))]
fn last_turn(lanes: &[LaneStatus], now: Timestamp) -> String {
    let last = lanes.iter().filter_map(|lane| lane.last_full_look).max();
    let failing = lanes.iter().filter(|lane| lane.failures > 0).count();
    let last = last.map_or_else(
        || "never".to_owned(),
        |at| format!("{} ago", age_text(seconds(now, at))),
    );
    match failing {
        0 => last,
        failing => format!("{last}, {failing} failing"),
    }
}

#[cfg(any(feature = "aws", test))]
impl LaneStatus {
    fn of(lane: &'static str, row: &LaneRow, now: Timestamp) -> Self {
        Self {
            lane,
            running: row.lease.as_ref().is_some_and(|lease| lease.is_live(now)),
            last_full_look: row.last_full_look,
            due: row.due,
            failures: row.failures,
            last_error: row.last_error.clone().filter(|_| row.failures > 0),
        }
    }
}

/// Findings of the housekeeper that a person has to resolve. In shadow mode the housekeeper neither collects garbage nor takes the Lease,
/// and its memory of them is old.
#[cfg(any(feature = "aws", test))]
fn of_sweep(cluster: &str, memory: &SweepMemory, is_active: bool, now: Timestamp) -> Vec<String> {
    let mut waiting = Vec::new();
    let missing = memory.orphans.values().chain(memory.instance_gone.values());
    let is_old = |since: &&Timestamp| now.duration_since(**since) > HELD_BACK_AFTER;
    let held = missing.filter(is_old).count();
    if is_active && held > 0 {
        waiting.push(format!(
            "garbage collection for {}, if the brake holds it back: whittle journal {cluster} says so, and whittle approve {cluster} allows it",
            counted(held, "missing counterpart")
        ));
    }
    // Set anew whenever the other controller renews the Lease.
    if is_active && memory.lease_since.is_some() {
        waiting.push(format!(
            "another controller holds Karpenter's leader Lease: scale it to 0, or whittle deactivate {cluster}"
        ));
    }
    if let Some(twin) = &memory.twin {
        waiting.push(format!(
            "its API server is registered as {twin}, too: whittle unregister one of them"
        ));
    }
    if memory.cluster_gone.is_some() {
        waiting.push(format!(
            "EKS has no cluster of this name any more: whittle unregister {cluster}"
        ));
    }
    waiting
}

#[cfg(any(feature = "aws", test))]
fn seconds(now: Timestamp, at: Timestamp) -> i64 {
    now.duration_since(at).as_secs().max(0)
}

/// An age as kubectl prints it.
#[cfg(any(feature = "aws", test))]
fn age_text(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(any(feature = "aws", test))]
impl Row for ClusterStatus {
    const HEADERS: &'static [&'static str] =
        &["CLUSTER", "MODE", "NODES", "$/HOUR", "RELAY", "LAST TURN"];
    const NARROW: usize = 6;

    fn cells(&self) -> Vec<String> {
        let unknown = || "?".to_owned();
        vec![
            self.cluster.clone(),
            self.mode.to_owned(),
            self.nodes.map_or_else(unknown, |nodes| nodes.to_string()),
            self.dollars_per_hour.clone().unwrap_or_else(unknown),
            self.relay_text(),
            match self.is_readable {
                true => self.last_turn.clone(),
                false => unknown(),
            },
        ]
    }

    fn name(&self) -> String {
        self.cluster.clone()
    }
}

/// Failed turns, pauses and everything that waits for a person, below the table.
#[cfg(any(feature = "aws", test))]
fn details(clusters: &[ClusterStatus]) -> String {
    let mut text = String::new();
    for status in clusters {
        let name = &status.cluster;
        for lane in &status.lanes {
            if let Some(error) = &lane.last_error {
                let LaneStatus { lane, failures, .. } = lane;
                let failures = counted(*failures, "failed turn");
                let _ = writeln!(text, "\n{name}: {failures} of the {lane}: {error}");
            }
        }
        for pause in &status.pauses {
            let _ = writeln!(text, "\n{name}: {pause}");
        }
        for waiting in &status.waiting {
            let _ = writeln!(text, "\n{name} waits for you: {waiting}");
        }
    }
    text
}

#[cfg(feature = "aws")]
impl Arguments {
    pub(crate) fn print(&self, clusters: &[ClusterStatus]) -> Result<()> {
        self.output.print(clusters)?;
        if self.output.is_table() {
            std::io::stdout().write_all(details(clusters).as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(feature = "aws")]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    crate::aws::status::run(arguments)
}

#[cfg(not(feature = "aws"))]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let Arguments {
        stack, registry, ..
    } = arguments;
    anyhow::bail!(
        "status reads {} and the ledger of stack {} in AWS, which this build cannot: build it with `--features aws`",
        registry.prefix(),
        stack.name
    )
}

#[cfg(test)]
mod tests {
    use model::{
        Lane, NanosPerHour,
        caps::{AccountSpending, Spending},
        ledger::{ApprovalScope, Meta, RelayBeat, Request},
    };

    use super::*;
    use crate::output;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn summary() -> ClusterSummary {
        let spending = Spending {
            price: NanosPerHour(1_500_000_000),
            nodes: 3,
        };
        let request = Request {
            id: "k3x".to_owned(),
            asks: ApprovalScope::Launches([].into()),
            description: "launching 40 nodes".to_owned(),
            until: at(20_000),
            approved: None,
        };
        let failing = LaneRow {
            failures: 2,
            last_error: Some("the API server answers 503".to_owned()),
            last_full_look: Some(at(9_400)),
            ..LaneRow::default()
        };
        ClusterSummary {
            meta: Some(Meta {
                generation: 7,
                mode: Mode::Active,
                registry: serde_json::json!({}),
                uid: None,
                pauses: Vec::new(),
                account: AccountSpending::default().with(&"prod".into(), spending),
                requests: vec![request],
            }),
            beat: Some(RelayBeat {
                beat_at: at(9_980).to_string(),
                ..RelayBeat::default()
            }),
            lanes: vec![
                (Lane::Provisioner, failing),
                (Lane::Terminator, LaneRow::default()),
            ],
            memory: SweepMemory {
                orphans: [("i-1".into(), at(1_000)), ("i-2".into(), at(9_990))].into(),
                ..SweepMemory::default()
            },
        }
    }

    #[test]
    fn table_shows_clusters_and_what_waits_for_a_person() {
        let now = at(10_000);
        let status = ClusterStatus::of("prod", Ok(&summary()), None, now);
        let new = ClusterStatus::of("new", Ok(&ClusterSummary::default()), None, now);
        let all = [status, new];
        assert_eq!(
            output::table(&all, ClusterStatus::NARROW, true),
            "CLUSTER   MODE      NODES   $/HOUR   RELAY     LAST TURN\n\
             prod      active    3       1.5000   20s ago   10m ago, 1 failing\n\
             new       unknown   ?       ?        none      never\n"
        );
        assert_eq!(
            details(&all),
            "\nprod: 2 failed turns of the provisioner: the API server answers 503\n\
             \nprod waits for you: approval of launching 40 nodes: whittle approve prod k3x\n\
             \nprod waits for you: garbage collection for 1 missing counterpart, if the brake holds it back: whittle journal \
             prod says so, and whittle approve prod allows it\n\
             \nnew waits for you: the ledger does not know the cluster yet: the next sweep, within a minute, reads its entry\n"
        );
    }

    #[test]
    fn documents_have_the_fields_of_relay_and_lanes() {
        let status = ClusterStatus::of("prod", Ok(&summary()), None, at(10_000));
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["relay"]["ageSeconds"], 20);
        assert_eq!(json["lanes"][0]["failures"], 2);
        assert_eq!(json.get("lastTurn"), None, "of the table alone");
    }

    #[test]
    fn unreadable_rows_and_refused_entry_are_reported_as_such() {
        let unreadable = Err("the ledger throttles BatchGetItem".to_owned());
        let refused = Some("mode is 1".to_owned());
        let status = ClusterStatus::of("prod", unreadable, refused, at(10_000));
        let expected = [
            "the registry entry is refused: mode is 1",
            "the ledger throttles BatchGetItem",
        ];
        assert_eq!(status.waiting, expected);
        assert_eq!(status.cells(), ["prod", "unknown", "?", "?", "?", "?"]);
    }

    #[test]
    fn refused_entry_of_an_unknown_cluster_is_not_read_by_the_next_sweep() {
        let refused = Some("mode is 1".to_owned());
        let none = ClusterSummary::default();
        let waiting = ClusterStatus::of("new", Ok(&none), refused, at(0)).waiting;
        assert!(
            waiting.iter().all(|text| !text.contains("within a minute")),
            "{waiting:?}"
        );
    }

    #[test]
    fn shadow_mode_waits_for_neither_lease_nor_garbage_collection() {
        let mut summary = summary();
        summary.memory.lease_since = Some(at(1_000));
        let waits = |summary: &ClusterSummary, about: &str| {
            let waiting = ClusterStatus::of("prod", Ok(summary), None, at(10_000)).waiting;
            waiting.iter().any(|text| text.contains(about))
        };
        for about in ["leader Lease", "garbage collection"] {
            assert!(waits(&summary, about), "{about}");
        }
        summary.meta.as_mut().unwrap().mode = Mode::Shadow;
        for about in ["leader Lease", "garbage collection"] {
            assert!(!waits(&summary, about), "{about}");
        }
    }

    #[test]
    fn heartbeat_of_a_clock_that_is_ahead_does_not_look_fresh() {
        let shown = |now| {
            let status = ClusterStatus::of("prod", Ok(&summary()), None, at(now));
            status.relay_text()
        };
        assert_eq!(shown(9_940), "0s ago");
        assert_eq!(shown(9_380), "10m ahead");
    }
}
