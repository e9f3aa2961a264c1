//! Conversion between rows and records, for tests that inspect or prepare a table without the ledger.

use std::sync::Arc;

use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Lane, NodeClaimName, Notification,
    budget::{Api, TokenBucket},
    caps::AccountSpending,
    experience::{FullSubnet, MeasuredMemory, ZonalShift},
    ids::PlanId,
    ledger::{
        Call, ClaimRow, Command, InstanceOwner, Intent, IntentState, LaneRow, Meta, Notice, Pause,
        PauseLevel, RelayBeat, SCHEMA, SweepMemory, UnavailableOffering,
    },
    plan::Expected,
};
use ports::{JournalEntry, LedgerError};

use crate::{
    commands, commit, journal,
    key::{self, Account},
    lanes, launches, memory, ownership, pauses, requests,
    row::{NewRow, Row, SCHEMA_OF_ROW, json},
    spending,
    table::{Item, Key, Value},
};

/// Record of one row of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterRecord {
    /// Includes the cluster's own pauses and requests.
    Meta(Meta),
    Lane(Lane, LaneRow),
    Intent(Intent),
    Call(Call),
    Claim(NodeClaimName, ClaimRow),
    Command(Command),
    Notice(Notice),
    /// The flag is set once it was sent, or given up.
    Notification(Notification, bool),
    Nomination(Expected, Timestamp),
    OnceMarker(String, Timestamp),
    Sweep(SweepMemory),
    ZonalShifts(Vec<ZonalShift>),
    RelayBeat(RelayBeat),
}

/// Record of one row of the account.
#[derive(Clone, Debug, PartialEq)]
pub enum AccountRecord {
    Owner(InstanceId, InstanceOwner),
    NotOurs(InstanceId, Timestamp),
    Unavailable(UnavailableOffering),
    FullSubnet(FullSubnet),
    MeasuredMemory(MeasuredMemory),
    TokenBucket(Api, TokenBucket),
    Pauses(Vec<Pause>, AccountSpending),
}

/// Returns the cluster of a row's key. Rows of plan bodies, journals and staged intents belong to no record.
pub fn cluster_of(key: &Key) -> Option<ClusterName> {
    let relay = key.pk.strip_prefix("RELAY#");
    relay
        .or_else(|| key.pk.strip_prefix("CLUSTER#"))
        .map(ClusterName::from)
}

pub fn read_cluster(key: &Key, item: &Arc<Item>) -> Result<Option<ClusterRecord>, LedgerError> {
    let row = Row::new(Arc::clone(item));
    if key.pk.starts_with("RELAY#") {
        return Ok(Some(ClusterRecord::RelayBeat(memory::beat_of(&row))));
    }
    let sk = key.sk.as_str();
    let (kind, name) = sk.split_once('#').unwrap_or((sk, ""));
    Ok(Some(match kind {
        "META" => ClusterRecord::Meta(commit::meta_of(&row)?),
        "LANE" => {
            let lane = serde_json::from_value(name.into());
            let lane = lane.map_err(|error: serde_json::Error| row.corrupt(error.to_string()))?;
            ClusterRecord::Lane(lane, lanes::lane_row(&row))
        }
        "INTENT" | "LAUNCHED" => ClusterRecord::Intent(launches::intent_of(&row)?),
        "CALL" | "CLOSED" => ClusterRecord::Call(launches::call_of(&row)?),
        "CLAIM" => ClusterRecord::Claim(name.into(), ownership::claim_of(&row)?),
        "COMMAND" => ClusterRecord::Command(commands::command_of(&row)),
        "NOTICE" => ClusterRecord::Notice(Notice {
            done: row.flag("done"),
            ..row.json("body")?
        }),
        "OUTBOX" => ClusterRecord::Notification(row.json("body")?, row.flag("done")),
        "NOMINATED" => match memory::nominated(&row) {
            Some((expected, until)) => ClusterRecord::Nomination(expected, until),
            None => return Ok(None),
        },
        "ONCE" => match row.time("until") {
            Some(until) => ClusterRecord::OnceMarker(name.to_owned(), until),
            None => return Ok(None),
        },
        "SWEEP" => ClusterRecord::Sweep(memory::sweep_of(Some(&row))?),
        "SHIFT" => ClusterRecord::ZonalShifts(row.json("body")?),
        _ => return Ok(None),
    }))
}

/// The row that lists a cluster with META among all clusters.
pub fn registered(cluster: &ClusterName) -> (Key, Item) {
    let key = Key::registered(cluster);
    let row = NewRow::new(&key);
    (key, with_schema(row))
}

pub fn write_cluster(
    cluster: &ClusterName,
    record: &ClusterRecord,
) -> Result<(Key, Item), LedgerError> {
    let (key, row) = match record {
        ClusterRecord::Meta(meta) => {
            let key = Key::meta(cluster);
            let row = NewRow::new(&key)
                .with("generation", meta.generation)
                .json("registry", &meta.registry)?
                .with("mode", commit::mode_name(meta.mode))
                .json("modeBody", &meta.mode)?
                .json(pauses::LIST, &meta.pauses)?
                .with(
                    "pausedAny",
                    pauses::last(&meta.pauses, PauseLevel::Voluntary),
                )
                .with("pausedAll", pauses::last(&meta.pauses, PauseLevel::All))
                .json(requests::LIST, &meta.requests)?;
            let row = match &meta.uid {
                Some(uid) => row.with("uid", uid.as_str()),
                None => row,
            };
            (key, row)
        }
        ClusterRecord::Lane(lane, row) => lane_row(cluster, *lane, row)?,
        ClusterRecord::Intent(intent) => {
            let key = intent_key(cluster, intent);
            let row = Row::new(Arc::new(launches::intent_row(cluster, intent)?.0)).at(&key);
            (key, row)
        }
        ClusterRecord::Call(call) => {
            let token = &call.request.token;
            let key = match call.closed {
                true => Key::closed_call(cluster, token),
                false => Key::call(cluster, token),
            };
            let row = Row::new(Arc::new(launches::call_row(cluster, call)?.0)).at(&key);
            (key, row)
        }
        ClusterRecord::Claim(name, row) => (
            Key::claim(cluster, name),
            ownership::claim_row(cluster, name, &row.instance, row.phase)?,
        ),
        ClusterRecord::Command(command) => (
            Key::command(cluster, &command.id),
            commands::command_row(cluster, command)?,
        ),
        ClusterRecord::Notice(notice) => (
            Key::notice(cluster, &notice.instance, &notice.kind),
            commands::notice_row(cluster, notice)?,
        ),
        ClusterRecord::Notification(notification, done) => {
            let key = memory::outbox(cluster, notification);
            let row = memory::notification_row(&key, notification)?;
            (key, row.with("done", *done))
        }
        ClusterRecord::Nomination(expected, until) => {
            let key = memory::nomination(cluster, expected);
            let row = NewRow::new(&key).with("until", *until).expires(*until);
            (key, row)
        }
        ClusterRecord::OnceMarker(what, until) => {
            let key = memory::once_key(cluster, what);
            let row = NewRow::new(&key).with("until", *until).expires(*until);
            (key, row)
        }
        ClusterRecord::Sweep(memory) => {
            let key = Key::sweep(cluster);
            let row = NewRow::new(&key).json("body", memory)?;
            (key, row)
        }
        ClusterRecord::ZonalShifts(shifts) => {
            let key = Key::shifts(cluster);
            let row = NewRow::new(&key).json("body", shifts)?;
            (key, row)
        }
        ClusterRecord::RelayBeat(beat) => (Key::relay(cluster), beat_row(cluster, beat)?),
    };
    Ok((key, with_schema(row)))
}

/// Key of an intent; launched intents have another prefix.
fn intent_key(cluster: &ClusterName, intent: &Intent) -> Key {
    match intent.state {
        IntentState::Launched { .. } => Key::launched(cluster, intent.name()),
        IntentState::Intended
        | IntentState::Claimed { .. }
        | IntentState::Launching { .. }
        | IntentState::Failed { .. }
        | IntentState::Void { .. } => Key::intent(cluster, intent.name()),
    }
}

fn lane_row(
    cluster: &ClusterName,
    lane: Lane,
    row: &LaneRow,
) -> Result<(Key, NewRow), LedgerError> {
    let key = Key::lane(cluster, lane);
    let looked = row.last_full_look.unwrap_or(Timestamp::UNIX_EPOCH);
    let seen = row.seen.clone().unwrap_or_default();
    let mut new = NewRow::new(&key)
        .lease(row.lease.as_ref())
        .with("failures", u64::from(row.failures))
        .with("lastError", row.last_error.clone().unwrap_or_default())
        .with("lastFullLook", looked)
        .with("seenEpoch", seen.epoch)
        .with("seenSeq", seen.seq);
    if row.again {
        new = new.with("again", true);
    }
    if let Some(due) = row.due {
        new = new.with("due", due);
    }
    if let Some(cursor) = &row.cursor {
        new = new.json("cursor", cursor)?;
    }
    Ok((key, new))
}

/// The heartbeat's row in the relay's format.
fn beat_row(cluster: &ClusterName, beat: &RelayBeat) -> Result<NewRow, LedgerError> {
    let counters = beat.counters.iter();
    let counters = counters.map(|(lane, count)| (lane.clone(), Value::N(count.to_string())));
    let row = NewRow::new(&Key::relay(cluster))
        .with("epoch", beat.epoch.as_str())
        .with("beatAt", beat.beat_at.as_str())
        .with("version", beat.version.as_str())
        .with("counters", Value::M(counters.collect()));
    match &beat.view {
        None => Ok(row),
        Some(view) => row.json("view", view),
    }
}

/// Decodes a row of the account; `None` for rows of clusters and for published objects.
pub fn read_account(key: &Key, item: &Arc<Item>) -> Result<Option<AccountRecord>, LedgerError> {
    let row = Row::new(Arc::clone(item));
    if let Some(instance) = key.pk.strip_prefix("INSTANCE#") {
        return match key.sk.as_str() {
            "OWNER" => Ok(Some(AccountRecord::Owner(
                instance.into(),
                row.json("owner")?,
            ))),
            "NOTOURS" => {
                let until = row.time("until");
                Ok(until.map(|until| AccountRecord::NotOurs(instance.into(), until)))
            }
            _ => Ok(None),
        };
    }
    if !key.pk.starts_with("ACCT#") {
        return Ok(None);
    }
    let mut kind = key.pk.splitn(4, '#').skip(3);
    let kind = kind.next().unwrap_or_default();
    Ok(Some(match kind {
        "ICE" => AccountRecord::Unavailable(row.json("body")?),
        "SUBNET" => AccountRecord::FullSubnet(row.json("body")?),
        "LEARNED" => AccountRecord::MeasuredMemory(row.json("body")?),
        "PAUSE" => AccountRecord::Pauses(pauses::of_row(&row)?, spending::of_row(&row)?),
        kind => {
            let api = kind.strip_prefix("BUCKET#");
            let api =
                api.and_then(|name| Api::ALL.into_iter().find(|api| key::api_name(*api) == name));
            match api {
                Some(api) => AccountRecord::TokenBucket(api, row.json("body")?),
                None => return Ok(None),
            }
        }
    }))
}

pub fn write_account(
    account: &str,
    region: &str,
    record: &AccountRecord,
) -> Result<(Key, Item), LedgerError> {
    let account = Account::new(account, region);
    let body = |key: Key, json: String| {
        let row = NewRow::new(&key).with("body", json);
        (key, row)
    };
    let (key, row) = match record {
        AccountRecord::Owner(instance, owner) => {
            (Key::owner(instance), ownership::owner_row(instance, owner)?)
        }
        AccountRecord::NotOurs(instance, until) => {
            let key = ownership::not_ours(instance);
            let row = NewRow::new(&key).with("until", *until).expires(*until);
            (key, row)
        }
        AccountRecord::Unavailable(entry) => body(account.offering(&entry.offering), json(entry)?),
        AccountRecord::FullSubnet(entry) => body(account.subnet(&entry.subnet), json(entry)?),
        AccountRecord::MeasuredMemory(entry) => body(
            account.measured(&entry.instance_type, &entry.image),
            json(entry)?,
        ),
        AccountRecord::TokenBucket(api, bucket) => body(account.bucket(*api), json(bucket)?),
        AccountRecord::Pauses(list, spending) => {
            let key = account.pauses();
            let row = NewRow::new(&key)
                .json(pauses::LIST, list)?
                .with("pausedAny", pauses::last(list, PauseLevel::Voluntary))
                .with("pausedAll", pauses::last(list, PauseLevel::All));
            let row = match spending.is_empty() {
                true => row,
                false => row.json(spending::BODY, spending)?,
            };
            let row = match spending.revision {
                0 => row,
                revision => row.with(spending::REVISION, revision),
            };
            (key, row)
        }
    };
    Ok((key, with_schema(row)))
}

/// The rows of a generation: of unfenced acts, or of a plan with a fixed id.
pub fn write_generation(
    cluster: &ClusterName,
    record: &ports::ledger::Record,
) -> Result<Vec<(Key, Item)>, LedgerError> {
    let rows = commit::record_rows(cluster, record, &PlanId::from("prepared"))?;
    let rows = rows.into_iter();
    Ok(rows.map(|(key, row)| (key, with_schema(row))).collect())
}

/// Converts a journal entry to the form in which it is read back from its row.
pub fn journal_entry(
    cluster: &ClusterName,
    entry: &JournalEntry,
) -> Result<JournalEntry, LedgerError> {
    journal::as_read_back(cluster, entry)
}

fn with_schema(row: NewRow) -> Item {
    row.with(SCHEMA_OF_ROW, u64::from(SCHEMA)).0
}
