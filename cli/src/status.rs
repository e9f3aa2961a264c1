//! `whittle status`: the clusters of a stack, their turns and relays, and what waits for a person.

use anyhow::Result;
use clap::{Args, ValueEnum};
#[cfg(any(feature = "aws", test))]
use {
    jiff::{SignedDuration, Timestamp},
    model::{
        caps::Spending,
        counted,
        ledger::{LaneRow, SweepMemory},
    },
    ports::ledger::ClusterSummary,
    serde::Serialize,
    std::fmt::Write as _,
};

use crate::exit::Exit;

#[derive(Args)]
#[command(after_help = "Examples:
  whittle status
  whittle status -o json")]
pub(crate) struct Arguments {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    pub(crate) stack: crate::stack::Stack,
    #[command(flatten)]
    pub(crate) registry: crate::registry::Registry,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
}

/// Status of a registered cluster.
#[cfg(any(feature = "aws", test))]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterStatus {
    cluster: String,
    /// `active` or `shadow` as functions know it; `unknown` before the first sweep.
    mode: &'static str,
    nodes: u32,
    /// Price of all nodes, in dollars per hour.
    dollars_per_hour: String,
    relay: Option<RelayStatus>,
    lanes: Vec<LaneStatus>,
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

#[cfg(any(feature = "aws", test))]
impl ClusterStatus {
    /// The status of an entry by its rows in the ledger; `refused` is the reason why functions refuse the entry.
    pub(crate) fn of(
        cluster: &str,
        summary: &ClusterSummary,
        refused: Option<String>,
        now: Timestamp,
    ) -> Self {
        let meta = summary.meta.as_ref();
        let Spending { price, nodes } = meta
            .map(|meta| meta.account.of(&cluster.into()))
            .unwrap_or_default();
        let relay = summary.beat.as_ref().map(|beat| RelayStatus {
            version: beat.version.clone(),
            beat_at: beat.beat_at.clone(),
            age_seconds: beat.beat_at.parse().ok().map(|at| seconds(now, at)),
        });
        let pauses = meta.map(|meta| meta.pauses.as_slice()).unwrap_or_default();
        let live = pauses.iter().filter(|pause| pause.is_live(now));
        let lanes = summary.lanes.iter();
        let mut waiting: Vec<String> = refused.into_iter().collect();
        match meta {
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
        waiting.extend(of_sweep(cluster, &summary.memory, now));
        Self {
            cluster: cluster.to_owned(),
            mode: meta.map_or("unknown", |meta| crate::registry::mode_text(meta.mode)),
            nodes,
            dollars_per_hour: price.to_string(),
            relay,
            lanes: lanes
                .map(|(lane, row)| LaneStatus::of(lane.as_str(), row, now))
                .collect(),
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
            None => "none".to_owned(),
            Some(RelayStatus {
                age_seconds: Some(age),
                ..
            }) => format!("{} ago", age_text(*age)),
            Some(_) => "?".to_owned(),
        }
    }

    /// The last turn that read the whole cluster in any lane, and the number of failing lanes.
    fn lanes_text(&self, now: Timestamp) -> String {
        let last = self
            .lanes
            .iter()
            .filter_map(|lane| lane.last_full_look)
            .max();
        let failing = self.lanes.iter().filter(|lane| lane.failures > 0).count();
        let last = last.map_or_else(
            || "never".to_owned(),
            |at| format!("{} ago", age_text(seconds(now, at))),
        );
        match failing {
            0 => last,
            failing => format!("{last}, {failing} failing"),
        }
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

/// Findings of the housekeeper that a person has to resolve.
#[cfg(any(feature = "aws", test))]
fn of_sweep(cluster: &str, memory: &SweepMemory, now: Timestamp) -> Vec<String> {
    let mut waiting = Vec::new();
    let missing = memory.orphans.values().chain(memory.instance_gone.values());
    let is_old = |since: &&Timestamp| now.duration_since(**since) > HELD_BACK_AFTER;
    let held = missing.filter(is_old).count();
    if held > 0 {
        waiting.push(format!(
            "garbage collection for {}, if the brake holds it back: whittle journal {cluster} says so, and whittle approve {cluster} allows it",
            counted(held, "missing counterpart")
        ));
    }
    if let Some(since) = memory.lease_since {
        waiting.push(format!(
            "another controller has held Karpenter's leader Lease since {since:.0}: scale it to 0, or whittle deactivate {cluster}"
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
fn table(clusters: &[ClusterStatus], now: Timestamp) -> String {
    const HEADER: [&str; 6] = ["CLUSTER", "MODE", "NODES", "$/HOUR", "RELAY", "LAST TURN"];
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(clusters.iter().map(|status| {
        [
            status.cluster.clone(),
            status.mode.to_owned(),
            status.nodes.to_string(),
            status.dollars_per_hour.clone(),
            status.relay_text(),
            status.lanes_text(now),
        ]
    }));
    let mut widths = [0; HEADER.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
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

#[cfg(any(feature = "aws", test))]
impl Arguments {
    pub(crate) fn render(&self, clusters: &[ClusterStatus], now: Timestamp) -> Result<String> {
        Ok(match self.output {
            Output::Table => table(clusters, now),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(clusters)?),
            Output::Yaml => serde_saphyr::to_string(&clusters)?,
        })
    }
}

#[cfg(feature = "aws")]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    crate::aws::status::run(arguments)
}

#[cfg(not(feature = "aws"))]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let Arguments {
        stack,
        registry,
        output: Output::Table | Output::Json | Output::Yaml,
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
        caps::AccountSpending,
        ledger::{ApprovalScope, Meta, Mode, RelayBeat, Request},
    };

    use super::*;

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
        let status = ClusterStatus::of("prod", &summary(), None, now);
        let new = ClusterStatus::of("new", &ClusterSummary::default(), None, now);
        assert_eq!(
            table(&[status, new], now),
            "CLUSTER  MODE     NODES  $/HOUR  RELAY    LAST TURN\n\
             prod     active   3      1.5000  20s ago  10m ago, 1 failing\n\
             new      unknown  0      0.0000  none     never\n\
             \nprod: 2 failed turns of the provisioner: the API server answers 503\n\
             \nprod waits for you: approval of launching 40 nodes: whittle approve prod k3x\n\
             \nprod waits for you: garbage collection for 1 missing counterpart, if the brake holds it back: whittle journal \
             prod says so, and whittle approve prod allows it\n\
             \nnew waits for you: the ledger does not know the cluster yet: the next sweep, within a minute, reads its entry\n"
        );
    }

    #[test]
    fn json_and_yaml_have_the_same_fields() {
        let now = at(10_000);
        let all = [ClusterStatus::of("prod", &summary(), None, now)];
        let render = |output| {
            let arguments = Arguments {
                output,
                stack: crate::stack::Stack {
                    name: "whittle".to_owned(),
                },
                registry: crate::registry::Registry::default(),
            };
            arguments.render(&all, now).unwrap()
        };
        let json: serde_json::Value = serde_json::from_str(&render(Output::Json)).unwrap();
        let yaml: serde_json::Value = serde_saphyr::from_str(&render(Output::Yaml)).unwrap();
        assert_eq!(json, yaml);
        assert_eq!(json[0]["relay"]["ageSeconds"], 20);
        assert_eq!(json[0]["lanes"][0]["failures"], 2);
    }
}
