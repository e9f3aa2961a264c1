//! Journal of turns: their records and snapshots (docs/design.md#journal). No decision depends on it: failures are reported and
//! have no other effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufWriter, Read},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use model::{InstanceType, Lane, NodePoolName, Snapshot, ids::TurnId, journal::Subject};
use ports::{ArchiveError, JournalEntry, LedgerError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{Report, World};

/// Interval at which an unchanged state is recorded again.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Least time between snapshots of a lane that decided something: a busy cluster's would cost more than its turns.
const KEPT_EVERY: SignedDuration = SignedDuration::from_secs(10);
/// Interval between snapshots of a quiet cluster, kept for comparison and review.
const QUIET_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// The interval where the quiet cluster's set of nodes has changed.
const CHANGED_QUIET_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// Upper bound on an unpacked snapshot, in bytes: ten times that of the largest clusters.
const UNPACKED_MAX: u64 = 2 << 30;

/// Bytes passed to the compressor at once.
const BUFFER: usize = 64 << 10;

/// Version of the format that [`pack`] writes.
const VERSION: u32 = 1;

/// Records a turn's report, if it is notable, and its snapshot.
pub(crate) async fn record_turn(world: &World, report: &mut Report, snapshot: Option<Snapshot>) {
    let now = world.clock.now();
    let notable = match has_news(world, report, now).await {
        Ok(news) => news,
        Err(error) => return add_problem(report, &error),
    };
    if let Some(snapshot) = snapshot {
        match is_snapshot_kept(world, report, &snapshot, notable, now).await {
            Ok(true) => match archive(world, report, snapshot).await {
                Ok(name) => report.snapshot = Some(name),
                Err(error) => add_problem(report, &error),
            },
            Ok(false) => {}
            Err(error) => add_problem(report, &error),
        }
    }
    if (notable || report.snapshot.is_some())
        && let Err(error) = write_record(world, report).await
    {
        add_problem(report, &error);
    }
}

/// Records a report of work done outside a lane's turn.
pub(crate) async fn record_report(world: &World, report: &Report) {
    if let Err(error) = write_record(world, report).await {
        tracing::warn!(cluster = %report.cluster, %error, "journal record not written");
    }
}

fn add_problem(report: &mut Report, error: &dyn std::error::Error) {
    report.problems.push(format!("journal: {error}"));
}

/// Whether a record would contain anything that the records of the last minutes do not.
async fn has_news(world: &World, report: &Report, now: Timestamp) -> Result<bool, LedgerError> {
    if !report.is_notable() {
        return Ok(false);
    }
    let Some(state) = report.state() else {
        return Ok(true);
    };
    let key = format!("journal/{}/{state}", report.lane);
    let ledger = &world.ledger;
    ledger
        .once(&report.cluster, &key, now, now + REPEAT_AFTER)
        .await
}

/// Whether the snapshot is kept, too.
async fn is_snapshot_kept(
    world: &World,
    report: &Report,
    snapshot: &Snapshot,
    notable: bool,
    now: Timestamp,
) -> Result<bool, LedgerError> {
    let lane = report.lane;
    let once = async |what: &str, wait: SignedDuration| {
        let key = format!("snapshot/{lane}/{what}");
        let ledger = &world.ledger;
        ledger.once(&report.cluster, &key, now, now + wait).await
    };
    if notable {
        return once("decided", KEPT_EVERY).await;
    }
    if lane != Lane::Disruption || !once("quiet", CHANGED_QUIET_EVERY).await? {
        return Ok(false);
    }
    let claims = snapshot.node_claims.iter();
    let names = digest(claims.map(|claim| claim.name.as_str()));
    once(&names, QUIET_EVERY).await
}

async fn archive(
    world: &World,
    report: &Report,
    snapshot: Snapshot,
) -> Result<String, JournalError> {
    let (cluster, lane, turn) = (&report.cluster, report.lane, &report.turn);
    let name = format!("journal/{cluster}/{:.3}-{lane}-{turn}.json.zst", report.at);
    let packed = Box::new(move || pack(snapshot));
    world.archive.put_lazily(&name, packed).await?;
    Ok(name)
}

async fn write_record(world: &World, report: &Report) -> Result<(), JournalError> {
    let entry = JournalEntry {
        turn: report.turn.clone(),
        at: report.at,
        lane: report.lane,
        about: report.about().cloned().collect::<BTreeSet<Subject>>(),
        body: serde_json::to_value(report).map_err(io::Error::from)?,
    };
    world.journal.record(&report.cluster, &entry).await?;
    Ok(())
}

#[derive(Debug, Error)]
pub enum JournalError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("the snapshot cannot be written or read")]
    Pack(#[from] io::Error),
    #[error("the record of turn {turn} cannot be read")]
    Record {
        turn: TurnId,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "the record of turn {turn} was written by a newer version: use that version's `whittle`"
    )]
    NewerRecord { turn: TurnId },
    #[error(
        "the snapshot was written by a newer version (its format is {version}: expected {VERSION}): use that version's `whittle`"
    )]
    Newer { version: u32 },
}

/// A snapshot in its stored form: NodePools with equal instance types share one list.
#[derive(Serialize, Deserialize)]
struct Packed {
    version: u32,
    lists: Vec<Arc<Vec<InstanceType>>>,
    types: BTreeMap<NodePoolName, usize>,
    snapshot: Snapshot,
}

/// Encodes a snapshot in its stored form, compressed.
pub fn pack(mut snapshot: Snapshot) -> Result<Vec<u8>, io::Error> {
    let mut lists: Vec<Arc<Vec<InstanceType>>> = Vec::new();
    let mut types = BTreeMap::new();
    for (pool, list) in std::mem::take(&mut snapshot.instance_types) {
        let same = |known: &Arc<Vec<InstanceType>>| Arc::ptr_eq(known, &list) || *known == list;
        let index = lists.iter().position(same).unwrap_or_else(|| {
            lists.push(list);
            lists.len() - 1
        });
        types.insert(pool, index);
    }
    let packed = Packed {
        version: VERSION,
        lists,
        types,
        snapshot,
    };
    let encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    // JSON is written in small pieces, each of which would be a call of the compressor.
    let mut buffered = BufWriter::with_capacity(BUFFER, encoder);
    serde_json::to_writer(&mut buffered, &packed)?;
    let encoder = buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    encoder.finish()
}

/// Decodes what [`pack`] encoded.
pub fn unpack(packed: &[u8]) -> Result<Snapshot, JournalError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let mut text = Vec::new();
    zstd::Decoder::new(packed)?
        .take(UNPACKED_MAX)
        .read_to_end(&mut text)?;
    let Version { version } = serde_json::from_slice(&text).map_err(io::Error::from)?;
    if version > VERSION {
        return Err(JournalError::Newer { version });
    }
    let packed: Packed = serde_json::from_slice(&text).map_err(io::Error::from)?;
    let mut snapshot = packed.snapshot;
    for (pool, index) in packed.types {
        if let Some(list) = packed.lists.get(index) {
            snapshot.instance_types.insert(pool, Arc::clone(list));
        }
    }
    Ok(snapshot)
}

impl Report {
    /// The report in a journal record.
    pub fn read(entry: &JournalEntry) -> Result<Self, JournalError> {
        let turn = entry.turn.clone();
        let version = entry.body.get("version").and_then(Value::as_u64);
        if version.is_some_and(|version| version > u64::from(Self::VERSION)) {
            return Err(JournalError::NewerRecord { turn });
        }
        let record = serde_json::from_value(entry.body.clone());
        record.map_err(|source| JournalError::Record { turn, source })
    }

    /// Subjects of all lines.
    pub fn about(&self) -> impl Iterator<Item = &Subject> {
        self.lines().flat_map(|line| &line.about)
    }

    /// Digest of a report that did nothing and only states the present situation; `None` for any other.
    fn state(&self) -> Option<String> {
        let did = !(self.launched.is_empty()
            && self.failed.is_empty()
            && self.disrupted.is_empty()
            && self.proposed.is_empty()
            && (self.planned.is_empty() || self.stopped.is_some()));
        if did {
            return None;
        }
        let ended = format!("{:?}{:?}", self.outcome, self.stopped);
        let problems = self.problems.iter().map(String::as_str);
        let texts = self.lines().map(|line| &**line).chain(problems);
        Some(digest(texts.chain([ended.as_str()])))
    }
}

pub(crate) fn digest<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text);
        digest.update([0]);
    }
    let digest = digest.finalize();
    let bytes = digest.iter().take(8);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use model::{ids::TurnId, journal::Line};

    use super::*;

    fn report() -> Report {
        let turn = TurnId("turn-1".into());
        Report::new(
            &"demo".into(),
            Lane::Provisioner,
            &turn,
            Timestamp::UNIX_EPOCH,
        )
    }

    #[test]
    fn only_reports_without_actions_have_a_state() {
        let waiting = |text: &str| Report {
            unplaced: vec![Line::from(text)],
            ..report()
        };
        assert_eq!(waiting("web: no").state(), waiting("web: no").state());
        assert_ne!(waiting("web: no").state(), waiting("api: no").state());
        let launched = Report {
            launched: vec![Line::from("default-1 is i-1")],
            ..waiting("web: no")
        };
        assert_eq!(launched.state(), None, "what was done is always news");
    }

    #[test]
    fn report_of_a_stopped_plan_has_a_state() {
        let planned = Report {
            planned: vec![Line::from("launch")],
            ..report()
        };
        assert_eq!(planned.state(), None);
        let shadow = Report {
            stopped: Some("the cluster is not active".into()),
            ..planned
        };
        assert!(shadow.state().is_some());
    }

    #[test]
    fn record_of_a_newer_version_is_refused() {
        let entry = |body: serde_json::Value| JournalEntry {
            turn: "turn-1".into(),
            at: Timestamp::UNIX_EPOCH,
            lane: Lane::Provisioner,
            about: BTreeSet::new(),
            body,
        };
        let mut body = serde_json::to_value(report()).unwrap();
        assert_eq!(Report::read(&entry(body.clone())).unwrap().turn.0, "turn-1");
        body["version"] = 2.into();
        let error = Report::read(&entry(body)).unwrap_err();
        assert!(error.to_string().contains("newer version"), "{error}");
        let error = Report::read(&entry(serde_json::json!({}))).unwrap_err();
        assert!(error.to_string().contains("turn-1"), "{error}");
    }
}
