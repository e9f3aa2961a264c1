//! Commands and notices: facts that oblige someone to act (PROTOCOL C3, D1).

use jiff::SignedDuration;
use model::{
    ClusterName, InstanceId, NodeClaimName,
    ledger::{Command, CommandState, Notice},
    plan::Target,
};
use ports::{
    LedgerError,
    ledger::{Moved, Unfenced},
};
use serde::Deserialize;

use crate::{
    commit,
    key::{self, Key},
    row::{NewRow, Row, json},
    table::{Table, Write, Written},
};

/// A finished notice is kept for its late doubles.
const NOTICES_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A command that is over, where no turn of disruptions comes to forget it.
const COMMANDS_KEPT: SignedDuration = SignedDuration::from_hours(24);

pub(crate) fn command_row(cluster: &ClusterName, command: &Command) -> Result<NewRow, LedgerError> {
    NewRow::new(&Key::command(cluster, &command.id))
        .json("state", &command.state)?
        .json("body", command)
}

pub(crate) fn notice_row(cluster: &ClusterName, notice: &Notice) -> Result<NewRow, LedgerError> {
    let key = Key::notice(cluster, &notice.instance, &notice.kind);
    Ok(NewRow::new(&key)
        .json("body", notice)?
        .with("done", notice.done))
}

pub(crate) async fn commands(
    table: &Table,
    cluster: &ClusterName,
) -> Result<Vec<Command>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::COMMAND).await?;
    rows.iter().map(command_of).collect()
}

fn command_of(row: &Row) -> Result<Command, LedgerError> {
    match row.json::<Command>("body") {
        Ok(body) => Ok(Command {
            state: row.json("state")?,
            initialized: match row.text("initialized") {
                None => body.initialized,
                Some(_) => row.json("initialized")?,
            },
            ..body
        }),
        Err(LedgerError::Newer { .. }) => {
            let outline: Outline = row.json("body")?;
            Ok(Command {
                id: outline.id,
                reason: outline.reason,
                delete: outline.delete,
                replacements: outline.replacements,
                state: CommandState::Newer,
                ..Command::default()
            })
        }
        Err(error) => Err(error),
    }
}

/// What must be known of a command to leave its nodes alone, whatever a newer version says of it besides.
#[derive(Deserialize)]
struct Outline {
    id: String,
    #[serde(default)]
    reason: String,
    delete: Vec<Target>,
    #[serde(default)]
    replacements: Vec<NodeClaimName>,
}

pub(crate) async fn move_command(
    table: &Table,
    cluster: &ClusterName,
    from: &Command,
    to: CommandState,
) -> Result<Moved, LedgerError> {
    if from.state == CommandState::Replacing && to == CommandState::RolledBack {
        return commit::roll_back(table, cluster, from).await;
    }
    let written = table.write(moving(cluster, from, to)?).await?;
    let to = json(&to)?;
    Ok(match written {
        Written::Refused(Some(row)) if row.text("state") == Some(to.as_str()) => Moved::Yes,
        written => written.into(),
    })
}

/// On condition that the command is still where it was.
pub(crate) fn moving(
    cluster: &ClusterName,
    from: &Command,
    to: CommandState,
) -> Result<Write, LedgerError> {
    let key = Key::command(cluster, &from.id);
    let kept = from.committed_at.saturating_add(COMMANDS_KEPT);
    let write = match kept.ok().filter(|_| to.is_over()) {
        None => Write::update(&key, "SET #state = :to"),
        Some(kept) => Write::update(&key, "SET #state = :to, #expires = :expires")
            .value("expires", kept.as_second()),
    };
    Ok(write
        .when("#state = :from")
        .value("from", json(&from.state)?)
        .value("to", json(&to)?))
}

pub(crate) async fn forget(
    table: &Table,
    cluster: &ClusterName,
    command: &Command,
) -> Result<(), LedgerError> {
    let write = Write::delete(&Key::command(cluster, &command.id))
        .when("#state = :state")
        .value("state", json(&command.state)?);
    table.write(write).await?;
    Ok(())
}

/// Where a command stands; `None` if there is none of this id.
pub(crate) async fn state(
    table: &Table,
    cluster: &ClusterName,
    id: &str,
) -> Result<Option<CommandState>, LedgerError> {
    let row = table.get(&Key::command(cluster, id)).await?;
    row.as_ref().map(|row| row.json("state")).transpose()
}

pub(crate) async fn note_initialized(
    table: &Table,
    cluster: &ClusterName,
    command: &Command,
    replacements: &[NodeClaimName],
) -> Result<Moved, LedgerError> {
    let mut all: Vec<&NodeClaimName> = command.initialized.iter().collect();
    all.extend(
        replacements
            .iter()
            .filter(|name| !command.initialized.contains(name)),
    );
    let key = Key::command(cluster, &command.id);
    let write = Write::update(&key, "SET #initialized = :initialized")
        .when("#state = :state")
        .value("initialized", json(&all)?)
        .value("state", json(&command.state)?);
    Ok(table.write(write).await?.into())
}

pub(crate) async fn notices(
    table: &Table,
    cluster: &ClusterName,
) -> Result<Vec<Notice>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::NOTICE).await?;
    rows.iter()
        .filter(|row| !row.flag("done"))
        .map(|row| row.json("body"))
        .collect()
}

pub(crate) async fn finish_notice(
    table: &Table,
    cluster: &ClusterName,
    instance: &InstanceId,
    kind: &str,
) -> Result<(), LedgerError> {
    let key = Key::notice(cluster, instance, kind);
    let Some(notice) = table
        .get(&key)
        .await?
        .map(|row| row.json::<Notice>("body"))
        .transpose()?
    else {
        return Ok(());
    };
    let write = Write::update(&key, "SET #done = :yes")
        .when("attribute_exists(#pk)")
        .value("yes", true);
    // Without a deadline it had happened when it was told.
    let over = notice.deadline.or(notice.at);
    let write = match over.and_then(|over| over.saturating_add(NOTICES_KEPT).ok()) {
        None => write,
        Some(kept) => Write::update(&key, "SET #done = :yes, #expires = :expires")
            .when("attribute_exists(#pk)")
            .value("yes", true)
            .value("expires", kept.as_second()),
    };
    table.write(write).await.map(drop)
}

/// Those of the acts that no row stands for yet.
pub(crate) async fn not_recorded(
    table: &Table,
    cluster: &ClusterName,
    acts: &Unfenced,
) -> Result<(Vec<Command>, Vec<Notice>), LedgerError> {
    let mut commands = Vec::new();
    for command in &acts.commands {
        if table
            .get(&Key::command(cluster, &command.id))
            .await?
            .is_none()
        {
            commands.push(command.clone());
        }
    }
    let mut notices = Vec::new();
    for notice in &acts.notices {
        if table
            .get(&Key::notice(cluster, &notice.instance, &notice.kind))
            .await?
            .is_none()
        {
            notices.push(notice.clone());
        }
    }
    Ok((commands, notices))
}
