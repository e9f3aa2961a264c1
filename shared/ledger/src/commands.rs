//! Commands and notices: facts that oblige someone to act (docs/protocol.md#c3, docs/protocol.md#d1).

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
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<Command>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::COMMAND).await?;
    Ok(rows.iter().map(command_of).collect())
}

/// The command of a row; one that cannot be read whole is left alone, and so are its nodes.
pub(crate) fn command_of(row: &Row) -> Command {
    whole(row).unwrap_or_else(|error| {
        tracing::warn!(%error, "command left alone");
        let outline = row.json::<Outline>("body");
        let outline = outline.unwrap_or_else(|_| Outline::of_key(row));
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

/// A command whose attributes can all be read.
fn whole(row: &Row) -> Result<Command, LedgerError> {
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

impl Outline {
    /// All that is known of one that cannot be read at all: that it is there.
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
    let written = table.write(moving(cluster, from, to)?).await?;
    let to = json(&to)?;
    Ok(match written {
        Written::Refused(Some(row)) if row.text("state") == Some(to.as_str()) => Moved::Yes,
        written @ (Written::Done(_) | Written::Refused(_)) => written.into(),
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

/// Where a command stands; `None` if there is none of this id.
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
    // Functions that can read the others handle them; the instances end in either case.
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

/// Acts that no row stands for yet, with the writes that make rows of them.
#[derive(Default)]
pub(crate) struct NotRecorded {
    pub(crate) commands: Vec<Command>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) writes: Vec<Write>,
}

impl NotRecorded {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

pub(crate) async fn not_recorded(
    table: &Store,
    cluster: &ClusterName,
    acts: &Unfenced,
) -> Result<NotRecorded, LedgerError> {
    let commands = acts.commands.iter();
    let commands = commands.map(|command| Key::command(cluster, &command.id));
    let notices = acts.notices.iter();
    let notices = notices.map(|notice| Key::notice(cluster, &notice.instance, &notice.kind));
    // A request that names a row twice is refused.
    let keys: BTreeSet<Key> = commands.chain(notices).collect();
    let keys: Vec<Key> = keys.into_iter().collect();
    let rows = table.get_together(&keys).await?;
    let rows: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.sort_key(), row)).collect();
    let mut new = NotRecorded::default();
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
            Some(row) if is_news(row, notice) => put
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

/// Whether the notice that stands is done, and this one is of another event, later than it: AWS delivers an event more than once.
fn is_news(row: &Row, notice: &Notice) -> bool {
    let Ok(before) = row.json::<Notice>("body") else {
        return false;
    };
    let another = !notice.event.is_empty() && notice.event != before.event;
    row.flag("done") && another && notice.at > before.at
}
