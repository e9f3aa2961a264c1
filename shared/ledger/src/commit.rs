//! Committing: plan bodies first, then one transaction that moves the generation (PROTOCOL C1–C3).

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Uid,
    caps::AccountSpending,
    ids::PlanId,
    ledger::{Command, CommandState, Intent, Meta, Mode, Notice, PauseLevel},
    plan::Plan,
};
use ports::{
    LedgerError,
    ledger::{Commit, Committed, Moved, Record, Unfenced},
};
use serde::{Deserialize, Serialize};

use crate::{
    commands,
    key::{self, Account, Key},
    lanes, launches, pauses, requests,
    row::{NewRow, Row},
    spending,
    table::{Table, Write},
};

/// Plans are read back by turns that lost a race, and by people for a while.
const PLANS_KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// DynamoDB's items end at 400 KB, keys and attributes included.
const CHUNK_BYTES: usize = 350_000;
/// A transaction holds 100 items; the generation, the plan's row, the account's and the lanes take up to nine.
const ROWS_IN_TRANSACTION: usize = 90;
/// Unfenced records and lanes move all the time; each round starts from what is there now.
const TRIES: usize = 10;

/// What one generation stands for, as its row says.
#[derive(Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Header {
    Plan {
        id: PlanId,
        chunks: usize,
    },
    Unfenced {
        commands: Vec<Command>,
        notices: Vec<Notice>,
    },
}

pub(crate) async fn meta(
    table: &Table,
    cluster: &ClusterName,
) -> Result<Option<Meta>, LedgerError> {
    let row = table.get(&Key::meta(cluster)).await?;
    row.as_ref().map(meta_of).transpose()
}

/// Without what is in the account's row.
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
    table: &Table,
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
    table: &Table,
    cluster: &ClusterName,
    uid: &Uid,
) -> Result<(), LedgerError> {
    let write = Write::update(&Key::meta(cluster), "SET #uid = :uid")
        .when("attribute_exists(#pk)")
        .value("uid", uid.as_str());
    table.write(write).await.map(drop)
}

const ACTIVE: &str = "active";

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Active => ACTIVE,
        Mode::Shadow => "shadow",
    }
}

pub(crate) async fn commit(
    table: &Table,
    account: &Account,
    cluster: &ClusterName,
    commit: &Commit,
) -> Result<Committed, LedgerError> {
    let chunks = put_body(table, cluster, commit).await?;
    let generation = commit.base + 1;
    let (now, later) = commit.intents.split_at(
        commit
            .intents
            .len()
            .min(ROWS_IN_TRANSACTION.saturating_sub(commit.commands.len())),
    );
    launches::stage(table, cluster, &commit.id, later, commit.now).await?;
    for _ in 0..TRIES {
        let mut writes = vec![
            next_generation(cluster, commit),
            Write::put(
                &Key::plan(cluster, generation),
                header(
                    cluster,
                    generation,
                    &Header::Plan {
                        id: commit.id.clone(),
                        chunks,
                    },
                    Some(commit.now),
                )?,
            )
            .when("attribute_not_exists(#pk)"),
        ];
        for intent in now {
            writes.push(
                Write::put(
                    &Key::intent(cluster, intent.name()),
                    launches::intent_row(cluster, intent)?,
                )
                .when("attribute_not_exists(#pk)"),
            );
        }
        for command in &commit.commands {
            writes.push(
                Write::put(
                    &Key::command(cluster, &command.id),
                    commands::command_row(cluster, command)?,
                )
                .when("attribute_not_exists(#pk)"),
            );
        }
        if let Some(next) = &commit.spending {
            writes.push(spending::next(account, next)?);
        }
        writes.extend(lanes::due_in_transaction(table, cluster, &commit.due).await?);
        if table.transact(writes).await? == Moved::Yes
            || is_committed(table, cluster, generation, &commit.id).await?
        {
            launches::materialize(table, cluster).await?;
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
        // Only a lane's due time moved: once more.
    }
    Err(LedgerError::Throttled {
        action: format!("commit plan {}: lanes moved {TRIES} times", commit.id),
    })
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

async fn is_committed(
    table: &Table,
    cluster: &ClusterName,
    generation: u64,
    id: &PlanId,
) -> Result<bool, LedgerError> {
    let Some(row) = table.get(&Key::plan(cluster, generation)).await? else {
        return Ok(false);
    };
    Ok(matches!(row.json("header")?, Header::Plan { id: found, .. } if found == *id))
}

/// Whether the plan that staged rows belong to was committed at this generation.
pub(crate) async fn stands(
    table: &Table,
    cluster: &ClusterName,
    intent: &Intent,
) -> Result<bool, LedgerError> {
    is_committed(table, cluster, intent.generation, &intent.plan).await
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
        Some(now) => row.expires(now.saturating_add(PLANS_KEPT).unwrap_or(now)),
        None => row,
    })
}

async fn put_body(
    table: &Table,
    cluster: &ClusterName,
    commit: &Commit,
) -> Result<usize, LedgerError> {
    let encode = |message: String| LedgerError::Unavailable {
        action: "encode a plan".to_owned(),
        message,
    };
    let json = serde_json::to_vec(&commit.plan).map_err(|error| encode(error.to_string()))?;
    let packed = zstd::encode_all(json.as_slice(), zstd::DEFAULT_COMPRESSION_LEVEL)
        .map_err(|error| encode(error.to_string()))?;
    let kept = commit.now.saturating_add(PLANS_KEPT).unwrap_or(commit.now);
    let mut chunks = 0;
    for bytes in packed.chunks(CHUNK_BYTES) {
        let key = Key::plan_body(cluster, &commit.id, chunks);
        table
            .write(Write::put(
                &key,
                NewRow::new(&key).with("body", bytes.to_vec()).expires(kept),
            ))
            .await?;
        chunks += 1;
    }
    Ok(chunks)
}

async fn body(
    table: &Table,
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
    let json =
        zstd::decode_all(packed.as_slice()).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&json).map_err(|error| unreadable(error.to_string()))
}

pub(crate) async fn since(
    table: &Table,
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

pub(crate) async fn record_unfenced(
    table: &Table,
    cluster: &ClusterName,
    acts: &Unfenced,
) -> Result<u64, LedgerError> {
    // The turn's own time; without a lane to wake the record is kept for good.
    let now = acts.due.iter().map(|(_, due)| *due).max();
    for _ in 0..TRIES {
        let base = generation(table, cluster).await?;
        let (commands, notices) = commands::not_recorded(table, cluster, acts).await?;
        let mut writes = lanes::due_in_transaction(table, cluster, &acts.due).await?;
        let generation = if commands.is_empty() && notices.is_empty() {
            base
        } else {
            let generation = base + 1;
            writes.push(bump(cluster, base));
            for command in &commands {
                writes.push(
                    Write::put(
                        &Key::command(cluster, &command.id),
                        commands::command_row(cluster, command)?,
                    )
                    .when("attribute_not_exists(#pk)"),
                );
            }
            for notice in &notices {
                let key = Key::notice(cluster, &notice.instance, &notice.kind);
                writes.push(
                    Write::put(&key, commands::notice_row(cluster, notice)?)
                        .when("attribute_not_exists(#pk)"),
                );
            }
            let record = Header::Unfenced { commands, notices };
            writes.push(
                Write::put(
                    &Key::plan(cluster, generation),
                    header(cluster, generation, &record, now)?,
                )
                .when("attribute_not_exists(#pk)"),
            );
            generation
        };
        if table.transact(writes).await? == Moved::Yes {
            return Ok(generation);
        }
    }
    Err(LedgerError::Throttled {
        action: format!("record unfenced acts of {cluster}: others were faster {TRIES} times"),
    })
}

/// A command that was replacing is given up (D1). Plans made until now count on its nodes to leave, so they lose a race for it.
pub(crate) async fn roll_back(
    table: &Table,
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
    for _ in 0..TRIES {
        let base = generation(table, cluster).await?;
        let at = base + 1;
        let record = header(cluster, at, &record, Some(command.committed_at))?;
        let writes = vec![
            bump(cluster, base),
            commands::moving(cluster, command, to)?,
            Write::put(&Key::plan(cluster, at), record).when("attribute_not_exists(#pk)"),
        ];
        if table.transact(writes).await? == Moved::Yes {
            return Ok(Moved::Yes);
        }
        match commands::state(table, cluster, &command.id).await? {
            Some(state) if state == command.state => {}
            Some(state) if state == to => return Ok(Moved::Yes),
            Some(_) | None => return Ok(Moved::No),
        }
    }
    Err(LedgerError::Throttled {
        action: format!(
            "roll back command {} of {cluster}: others were faster {TRIES} times",
            command.id
        ),
    })
}

async fn generation(table: &Table, cluster: &ClusterName) -> Result<u64, LedgerError> {
    let meta = table.get(&Key::meta(cluster)).await?;
    let generation = meta.as_ref().and_then(|row| row.unsigned("generation"));
    Ok(generation.unwrap_or(0))
}

/// Whatever the mode: unfenced acts are not choices.
fn bump(cluster: &ClusterName, base: u64) -> Write {
    Write::update(&Key::meta(cluster), "SET #generation = :next")
        .when("attribute_not_exists(#generation) OR #generation = :base")
        .value("next", base + 1)
        .value("base", base)
}
