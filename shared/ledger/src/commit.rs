//! Committing: plan bodies first, then one transaction that moves the generation (docs/protocol.md#committing).

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Uid,
    caps::AccountSpending,
    ids::PlanId,
    ledger::{Command, CommandState, Meta, Mode, PauseLevel},
    plan::Plan,
};
use ports::{
    LedgerError,
    ledger::{Commit, Committed, Moved, Record, Unfenced},
    limits::dynamodb::{ITEM_BYTES, TRANSACTION_BYTES},
};

use crate::{
    commands,
    key::{self, Account},
    lanes, launches, pauses,
    plan_header::{Header, PlanOutcome, plan_outcome},
    requests,
    row::{NewRow, Row, pack, unpack},
    spending, staging,
    store::Store,
    table::{Key, Write},
};

/// Retention of plans: turns that lost a race read them back, and people inspect them for a few days.
const PLAN_RETENTION: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Size of a plan's chunk. A DynamoDB item holds at most 400 KB, keys and attributes included.
const CHUNK_BYTES: usize = 350_000;
/// Rows of intents and commands in one transaction. A transaction holds 100 items; the generation, the plan's row, the account's
/// and the lanes take up to nine.
const ROWS_IN_TRANSACTION: usize = 90;
/// Upper bound on the bytes of the intents in a transaction, which holds 4 MB; commands, the plan's row and the lanes take the
/// rest.
const INTENT_BYTES_IN_TRANSACTION: usize = TRANSACTION_BYTES * 3 / 4;
/// Upper bound on the bytes of an unfenced record, which is one item of 400 KB with its key and attributes.
const RECORD_BYTES: usize = ITEM_BYTES * 3 / 4;
/// Tries of a transaction. Unfenced records and due times of lanes change at any time, so each try starts from a fresh read.
const TRIES: u32 = 10;

pub(crate) async fn meta(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Option<Meta>, LedgerError> {
    let row = table.get(&Key::meta(cluster)).await?;
    row.as_ref().map(meta_of).transpose()
}

/// Decodes META; the account's pauses and spending are not in this row.
pub(crate) fn meta_of(row: &Row) -> Result<Meta, LedgerError> {
    Ok(Meta {
        generation: row.unsigned("generation").unwrap_or(0),
        mode: row.json("modeBody")?,
        registry: row.json("registry")?,
        uid: row.text("uid").map(Uid::from),
        pauses: pauses::of_row(row)?,
        account: AccountSpending::default(),
        requests: requests::of_row(row)?,
    })
}

pub(crate) async fn mirror_registry(
    table: &Store,
    cluster: &ClusterName,
    registry: &serde_json::Value,
    mode: &Mode,
) -> Result<(), LedgerError> {
    let registry = crate::row::json(registry)?;
    let key = Key::meta(cluster);
    let whole = Write::update(&key, "SET #registry = :registry, #generation = if_not_exists(#generation, :zero), #mode = :mode, #modeBody = :body")
        .value("registry", registry)
        .value("zero", 0_u64)
        .value("mode", mode_name(*mode))
        .value("body", crate::row::json(mode)?);
    table.write(whole).await?;
    let known = NewRow::new(&Key::registered(cluster));
    table
        .write(Write::put(&Key::registered(cluster), known))
        .await
        .map(drop)
}

pub(crate) async fn identify(
    table: &Store,
    cluster: &ClusterName,
    uid: &Uid,
) -> Result<(), LedgerError> {
    let write = Write::update(&Key::meta(cluster), "SET #uid = :uid")
        .when("attribute_exists(#pk)")
        .value("uid", uid.as_str());
    table.write(write).await.map(drop)
}

const ACTIVE: &str = "active";

pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Active => ACTIVE,
        Mode::Shadow => "shadow",
    }
}

pub(crate) async fn commit(
    table: &Store,
    account: &Account,
    cluster: &ClusterName,
    commit: &Commit,
) -> Result<Committed, LedgerError> {
    let chunks = put_body(table, cluster, commit).await?;
    let generation = commit.base + 1;
    let room = ROWS_IN_TRANSACTION.saturating_sub(commit.commands.len());
    let mut rows = Vec::new();
    let mut bytes = 0;
    for intent in commit.intents.iter().take(room) {
        let row = launches::intent_row(cluster, intent)?;
        bytes += row.size();
        if bytes > INTENT_BYTES_IN_TRANSACTION {
            break;
        }
        rows.push((Key::intent(cluster, intent.name()), row));
    }
    let later = commit.intents.get(rows.len()..).unwrap_or_default();
    let staged = staging::stage(table, cluster, &commit.id, generation, later, commit.now).await?;
    let committed = transact(table, account, cluster, commit, chunks, &rows).await;
    match &committed {
        Ok(Committed::At(_)) if !staged.is_empty() => staging::materialize(table, cluster).await?,
        // After an error it is not known whether the plan was committed.
        Ok(Committed::At(_)) | Err(_) => {}
        Ok(Committed::Raced { .. } | Committed::Overtaken { .. } | Committed::NotActive) => {
            // The next turn that reads these rows deletes them as well.
            if let Err(error) = staged.discard(table).await {
                tracing::warn!(%cluster, %error, "staged rows of an uncommitted plan cannot be deleted");
            }
        }
    }
    committed
}

/// Commits the plan and these intents in one transaction.
async fn transact(
    table: &Store,
    account: &Account,
    cluster: &ClusterName,
    commit: &Commit,
    chunks: usize,
    intents: &[(Key, NewRow)],
) -> Result<Committed, LedgerError> {
    let generation = commit.base + 1;
    let plan = Header::Plan {
        id: commit.id.clone(),
        chunks,
    };
    let plan = header(cluster, generation, &plan, Some(commit.now))?;
    let mut fixed = vec![
        next_generation(cluster, commit),
        put_once(&Key::plan(cluster, generation), plan),
    ];
    for (key, row) in intents {
        fixed.push(put_once(key, row.clone()));
    }
    for command in &commit.commands {
        let row = commands::command_row(cluster, command)?;
        fixed.push(put_once(&Key::command(cluster, &command.id), row));
    }
    if let Some(next) = &commit.spending {
        fixed.push(spending::next(account, next)?);
    }
    for tries in 1..=TRIES {
        let mut writes = fixed.clone();
        writes.extend(lanes::due_in_transaction(table, cluster, &commit.due).await?);
        if table.transact(writes).await? == Moved::Yes
            || plan_outcome(table, cluster, generation, &commit.id).await? == PlanOutcome::Committed
        {
            return Ok(Committed::At(generation));
        }
        let meta = table.get(&Key::meta(cluster)).await?;
        let found = meta
            .as_ref()
            .and_then(|row| row.unsigned("generation"))
            .unwrap_or(0);
        let is_active = |row: &Row| {
            row.text("mode") == Some(ACTIVE)
                && pauses::held_until(row, commit.held_by).is_none_or(|until| until <= commit.now)
        };
        if !meta.as_ref().is_some_and(is_active) {
            return Ok(Committed::NotActive);
        }
        if found != commit.base {
            return Ok(Committed::Raced { generation: found });
        }
        if let Some(next) = &commit.spending {
            let row = table.get(&account.pauses()).await?;
            if !spending::is_next(row.as_ref(), next) {
                let account = row.as_ref().map(spending::of_row).transpose()?;
                let account = account.unwrap_or_default();
                return Ok(Committed::Overtaken { account });
            }
        }
        // Only the due time of a lane has changed: the transaction is tried again.
        table.pause(tries).await;
    }
    Err(LedgerError::Throttled {
        action: format!("commit plan {}: lanes moved {TRIES} times", commit.id),
    })
}

fn put_once(key: &Key, row: NewRow) -> Write {
    Write::put(key, row).when("attribute_not_exists(#pk)")
}

fn next_generation(cluster: &ClusterName, commit: &Commit) -> Write {
    let condition = match commit.held_by {
        PauseLevel::Voluntary => {
            "#generation = :base AND #mode = :active AND (attribute_not_exists(#pausedAny) OR #pausedAny <= :now)"
        }
        PauseLevel::All => {
            "#generation = :base AND #mode = :active AND (attribute_not_exists(#pausedAll) OR #pausedAll <= :now)"
        }
    };
    Write::update(&Key::meta(cluster), "SET #generation = :next")
        .when(condition)
        .value("next", commit.base + 1)
        .value("base", commit.base)
        .value("active", ACTIVE)
        .value("now", commit.now)
}

fn header(
    cluster: &ClusterName,
    generation: u64,
    header: &Header,
    now: Option<Timestamp>,
) -> Result<NewRow, LedgerError> {
    let row = NewRow::new(&Key::plan(cluster, generation))
        .with("generation", generation)
        .json("header", header)?;
    Ok(match now {
        Some(now) => row.expires(now.saturating_add(PLAN_RETENTION).unwrap_or(now)),
        None => row,
    })
}

async fn put_body(
    table: &Store,
    cluster: &ClusterName,
    commit: &Commit,
) -> Result<usize, LedgerError> {
    let packed = pack(&commit.plan)?;
    let expires_at = commit
        .now
        .saturating_add(PLAN_RETENTION)
        .unwrap_or(commit.now);
    let mut chunks = 0;
    for bytes in packed.chunks(CHUNK_BYTES) {
        let key = Key::plan_body(cluster, &commit.id, chunks);
        table
            .write(Write::put(
                &key,
                NewRow::new(&key)
                    .with("body", bytes.to_vec())
                    .expires(expires_at),
            ))
            .await?;
        chunks += 1;
    }
    Ok(chunks)
}

async fn body(
    table: &Store,
    cluster: &ClusterName,
    row: &Row,
    id: &PlanId,
    chunks: usize,
) -> Result<Plan, LedgerError> {
    let rows = table
        .query(&key::partition(cluster), &key::plan_body_prefix(id))
        .await?;
    let packed: Vec<u8> = rows
        .iter()
        .take(chunks)
        .filter_map(|row| row.bytes("body"))
        .flatten()
        .copied()
        .collect();
    let unreadable = |message: String| row.corrupt(format!("body of plan {id}: {message}"));
    unpack(&packed).map_err(unreadable)
}

/// The rows from which a generation's record is read.
pub(crate) fn record_rows(
    cluster: &ClusterName,
    record: &Record,
    id: &PlanId,
) -> Result<Vec<(Key, NewRow)>, LedgerError> {
    let mut rows = Vec::new();
    let (generation, stands_for) = match record {
        Record::Plan { generation, plan } => {
            let id = PlanId(format!("{id}-{generation}"));
            let packed = pack(plan)?;
            for (chunk, bytes) in packed.chunks(CHUNK_BYTES).enumerate() {
                let key = Key::plan_body(cluster, &id, chunk);
                let row = NewRow::new(&key).with("body", bytes.to_vec());
                rows.push((key, row));
            }
            let chunks = rows.len();
            (*generation, Header::Plan { id, chunks })
        }
        Record::Unfenced {
            generation,
            commands,
            notices,
        } => {
            let (commands, notices) = (commands.clone(), notices.clone());
            (*generation, Header::Unfenced { commands, notices })
        }
    };
    let row = header(cluster, generation, &stands_for, None)?;
    rows.push((Key::plan(cluster, generation), row));
    Ok(rows)
}

pub(crate) async fn since(
    table: &Store,
    cluster: &ClusterName,
    generation: u64,
) -> Result<Vec<Record>, LedgerError> {
    let mut records = Vec::new();
    let (from, to) = (key::plan_sort(generation + 1), key::plan_sort(u64::MAX));
    for row in table.between(&key::partition(cluster), &from, &to).await? {
        let generation = row
            .unsigned("generation")
            .ok_or_else(|| row.corrupt("attribute generation is missing".to_owned()))?;
        records.push(match row.json("header")? {
            Header::Plan { id, chunks } => Record::Plan {
                generation,
                plan: Box::new(body(table, cluster, &row, &id, chunks).await?),
            },
            Header::Unfenced { commands, notices } => Record::Unfenced {
                generation,
                commands,
                notices,
            },
        });
    }
    Ok(records)
}

/// Records the acts in several transactions: a rejected one does not affect the others.
pub(crate) async fn record_unfenced(
    table: &Store,
    cluster: &ClusterName,
    acts: &Unfenced,
) -> Result<u64, LedgerError> {
    if acts.commands.is_empty() && acts.notices.is_empty() {
        return record_part(table, cluster, acts).await;
    }
    let mut recorded = Ok(0);
    for piece in acts.pieces().flat_map(split_to_record_size) {
        let piece = record_part(table, cluster, &piece).await;
        recorded = match (recorded, piece) {
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(generation)) => Ok(generation),
        };
    }
    recorded
}

/// Splits the acts until the record of each part fits into one item. An act that is too large by itself stays alone.
fn split_to_record_size(acts: Unfenced) -> Vec<Unfenced> {
    let count = acts.commands.len() + acts.notices.len();
    let record = Header::Unfenced {
        commands: acts.commands.clone(),
        notices: acts.notices.clone(),
    };
    let bytes = serde_json::to_vec(&record).map_or(0, |json| json.len());
    if bytes <= RECORD_BYTES || count < 2 {
        return vec![acts];
    }
    let Unfenced {
        turn,
        mut commands,
        mut notices,
        due,
    } = acts;
    let more_commands = commands.split_off(commands.len() / 2);
    let more_notices = notices.split_off(notices.len().div_ceil(2));
    let first = Unfenced {
        turn: turn.clone(),
        commands,
        notices,
        due: due.clone(),
    };
    let second = Unfenced {
        turn,
        commands: more_commands,
        notices: more_notices,
        due,
    };
    [first, second]
        .into_iter()
        .flat_map(split_to_record_size)
        .collect()
}

async fn record_part(
    table: &Store,
    cluster: &ClusterName,
    acts: &Unfenced,
) -> Result<u64, LedgerError> {
    // The turn's own time; a record without a lane to wake never expires.
    let now = acts.due.iter().map(|(_, due)| *due).max();
    for tries in 1..=TRIES {
        let base = generation(table, cluster).await?;
        let new = commands::unrecorded_acts(table, cluster, acts).await?;
        let mut writes = lanes::due_in_transaction(table, cluster, &acts.due).await?;
        let generation = if new.is_empty() {
            base
        } else {
            let generation = base + 1;
            writes.push(advance_generation(cluster, base));
            writes.extend(new.writes);
            let record = Header::Unfenced {
                commands: new.commands,
                notices: new.notices,
            };
            let record = header(cluster, generation, &record, now)?;
            writes.push(put_once(&Key::plan(cluster, generation), record));
            generation
        };
        if table.transact(writes).await? == Moved::Yes {
            return Ok(generation);
        }
        table.pause(tries).await;
    }
    Err(LedgerError::Throttled {
        action: format!(
            "record unfenced acts of {cluster}: other writers were faster {TRIES} times"
        ),
    })
}

/// Rolls back a command that was replacing nodes (docs/protocol.md#d1). Plans made before count on its nodes leaving, so the
/// rollback moves the generation and they lose the race.
pub(crate) async fn roll_back(
    table: &Store,
    cluster: &ClusterName,
    command: &Command,
) -> Result<Moved, LedgerError> {
    let to = CommandState::RolledBack;
    let record = Header::Unfenced {
        commands: vec![Command {
            state: to,
            ..command.clone()
        }],
        notices: Vec::new(),
    };
    for tries in 1..=TRIES {
        let base = generation(table, cluster).await?;
        let at = base + 1;
        let record = header(cluster, at, &record, Some(command.committed_at))?;
        let writes = vec![
            advance_generation(cluster, base),
            commands::state_change(cluster, command, to)?,
            put_once(&Key::plan(cluster, at), record),
        ];
        if table.transact(writes).await? == Moved::Yes {
            return Ok(Moved::Yes);
        }
        match commands::state(table, cluster, &command.id).await? {
            Some(state) if state == command.state => table.pause(tries).await,
            Some(state) if state == to => return Ok(Moved::Yes),
            Some(_) | None => return Ok(Moved::No),
        }
    }
    Err(LedgerError::Throttled {
        action: format!(
            "roll back command {} of {cluster}: other writers were faster {TRIES} times",
            command.id
        ),
    })
}

async fn generation(table: &Store, cluster: &ClusterName) -> Result<u64, LedgerError> {
    let meta = table.get(&Key::meta(cluster)).await?;
    let generation = meta.as_ref().and_then(|row| row.unsigned("generation"));
    Ok(generation.unwrap_or(0))
}

/// Increments the generation in any mode: unfenced acts are not voluntary.
fn advance_generation(cluster: &ClusterName, base: u64) -> Write {
    Write::update(&Key::meta(cluster), "SET #generation = :next")
        .when("attribute_not_exists(#generation) OR #generation = :base")
        .value("next", base + 1)
        .value("base", base)
}
