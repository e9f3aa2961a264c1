//! Commands and notices: facts that require a turn to act (docs/protocol.md#c3, docs/protocol.md#d1).

use std::collections::{BTreeMap, BTreeSet};

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
    commit, key,
    row::{NewRow, Row, json, readable},
    store::{Store, Written},
    table::{Key, Write},
};

/// A finished notice is kept this long, so that late duplicates of its event are recognized.
const NOTICE_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// A finished command expires after this time, in case no disruption turn deletes it.
const COMMAND_RETENTION: SignedDuration = SignedDuration::from_hours(24);

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
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<Command>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::COMMAND).await?;
    Ok(rows.iter().map(command_of).collect())
}

/// Decodes the command of a row. A command that cannot be decoded completely is returned with [`CommandState::Newer`], so that
/// turns neither advance it nor disrupt its nodes.
pub(crate) fn command_of(row: &Row) -> Command {
    complete_command(row).unwrap_or_else(|error| {
        tracing::warn!(%error, "disruption command cannot be decoded; its nodes are not disrupted");
        let outline = row.json::<CommandOutline>("body");
        let outline = outline.unwrap_or_else(|_| CommandOutline::of_key(row));
        Command {
            id: outline.id,
            reason: outline.reason,
            delete: outline.delete,
            replacements: outline.replacements,
            state: CommandState::Newer,
            ..Command::default()
        }
    })
}

/// Decodes a command; fails unless every attribute can be read.
fn complete_command(row: &Row) -> Result<Command, LedgerError> {
    let body: Command = row.json("body")?;
    Ok(Command {
        state: row.json("state")?,
        initialized: match row.has("initialized") {
            false => body.initialized,
            true => row.json("initialized")?,
        },
        ..body
    })
}

/// The fields of a command that identify its nodes. They are enough to leave the nodes alone, whatever a newer version adds.
#[derive(Deserialize)]
struct CommandOutline {
    id: String,
    #[serde(default)]
    reason: String,
    delete: Vec<Target>,
    #[serde(default)]
    replacements: Vec<NodeClaimName>,
}

impl CommandOutline {
    /// CommandOutline of a command whose body cannot be read: only its id is known, from the sort key.
    fn of_key(row: &Row) -> Self {
        let id = row.sort_key().strip_prefix(key::COMMAND);
        Self {
            id: id.unwrap_or_default().to_owned(),
            reason: String::new(),
            delete: Vec::new(),
            replacements: Vec::new(),
        }
    }
}

pub(crate) async fn move_command(
    table: &Store,
    cluster: &ClusterName,
    from: &Command,
    to: CommandState,
) -> Result<Moved, LedgerError> {
    if from.state == CommandState::Replacing && to == CommandState::RolledBack {
        return commit::roll_back(table, cluster, from).await;
    }
    let written = table.write(state_change(cluster, from, to)?).await?;
    let to = json(&to)?;
    Ok(match written {
        Written::Refused(Some(row)) if row.text("state") == Some(to.as_str()) => Moved::Yes,
        written @ (Written::Done(_) | Written::Refused(_)) => written.into(),
    })
}

/// Changes a command's state on condition that it is still in `from`'s state.
pub(crate) fn state_change(
    cluster: &ClusterName,
    from: &Command,
    to: CommandState,
) -> Result<Write, LedgerError> {
    let key = Key::command(cluster, &from.id);
    let expires_at = from.committed_at.saturating_add(COMMAND_RETENTION);
    let write = match expires_at.ok().filter(|_| to.is_over()) {
        None => Write::update(&key, "SET #state = :to"),
        Some(expires_at) => Write::update(&key, "SET #state = :to, #expires = :expires")
            .value("expires", expires_at.as_second()),
    };
    Ok(write
        .when("#state = :from")
        .value("from", json(&from.state)?)
        .value("to", json(&to)?))
}

pub(crate) async fn forget(
    table: &Store,
    cluster: &ClusterName,
    command: &Command,
) -> Result<(), LedgerError> {
    let write = Write::delete(&Key::command(cluster, &command.id))
        .when("#state = :state")
        .value("state", json(&command.state)?);
    table.write(write).await?;
    Ok(())
}

/// Returns a command's state; `None` if no command has this id.
pub(crate) async fn state(
    table: &Store,
    cluster: &ClusterName,
    id: &str,
) -> Result<Option<CommandState>, LedgerError> {
    let row = table.get(&Key::command(cluster, id)).await?;
    row.as_ref().map(|row| row.json("state")).transpose()
}

pub(crate) async fn note_initialized(
    table: &Store,
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
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<Notice>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::NOTICE).await?;
    let open = rows.iter().filter(|row| !row.flag("done"));
    // Notices that cannot be read are left to functions of a newer version; the instances are terminated in either case.
    Ok(readable(open, |row| row.json("body")).collect())
}

pub(crate) async fn finish_notice(
    table: &Store,
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
    // A notice without a deadline announces something that had already happened at `at`.
    let over = notice.deadline.or(notice.at);
    let write = match over.and_then(|over| over.saturating_add(NOTICE_RETENTION).ok()) {
        None => write,
        Some(expires_at) => Write::update(&key, "SET #done = :yes, #expires = :expires")
            .when("attribute_exists(#pk)")
            .value("yes", true)
            .value("expires", expires_at.as_second()),
    };
    table.write(write).await.map(drop)
}

/// Commands and notices that have no row yet, with the writes that create the rows.
#[derive(Default)]
pub(crate) struct UnrecordedActs {
    pub(crate) commands: Vec<Command>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) writes: Vec<Write>,
}

impl UnrecordedActs {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

pub(crate) async fn unrecorded_acts(
    table: &Store,
    cluster: &ClusterName,
    acts: &Unfenced,
) -> Result<UnrecordedActs, LedgerError> {
    let commands = acts.commands.iter();
    let commands = commands.map(|command| Key::command(cluster, &command.id));
    let notices = acts.notices.iter();
    let notices = notices.map(|notice| Key::notice(cluster, &notice.instance, &notice.kind));
    // DynamoDB rejects a batch that names a row twice.
    let keys: BTreeSet<Key> = commands.chain(notices).collect();
    let keys: Vec<Key> = keys.into_iter().collect();
    let rows = table.get_together(&keys).await?;
    let rows: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.sort_key(), row)).collect();
    let mut new = UnrecordedActs::default();
    let mut seen = BTreeSet::new();
    for command in &acts.commands {
        let key = Key::command(cluster, &command.id);
        if !rows.contains_key(key.sk.as_str()) && seen.insert(key.clone()) {
            let put = Write::put(&key, command_row(cluster, command)?);
            new.writes.push(put.when("attribute_not_exists(#pk)"));
            new.commands.push(command.clone());
        }
    }
    for notice in &acts.notices {
        let key = Key::notice(cluster, &notice.instance, &notice.kind);
        let put = Write::put(&key, notice_row(cluster, notice)?);
        let put = match rows.get(key.sk.as_str()) {
            None => put.when("attribute_not_exists(#pk)"),
            Some(row) if is_newer_event(row, notice) => put
                .when("#done = :yes AND #body = :body")
                .value("yes", true)
                .value("body", row.text("body").unwrap_or_default()),
            Some(_) => continue,
        };
        if seen.insert(key) {
            new.writes.push(put);
            new.notices.push(notice.clone());
        }
    }
    Ok(new)
}

/// Returns whether the recorded notice is done and `notice` is of a different, later event. AWS delivers an event more than once.
fn is_newer_event(row: &Row, notice: &Notice) -> bool {
    let Ok(before) = row.json::<Notice>("body") else {
        return false;
    };
    let another = !notice.event.is_empty() && notice.event != before.event;
    row.flag("done") && another && notice.at > before.at
}
