//! `whittle pause` and `resume`: a user pauses Whittle for a while, and resumes it (docs/operations.md).

use anyhow::Result;
use clap::{ArgGroup, Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use model::ledger::{Pause, PauseLevel, PauseScope};
#[cfg(feature = "aws")]
use serde::Serialize;

#[cfg(feature = "aws")]
use crate::output::Row;
use crate::{exit::Exit, output::ListOutput};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle pause prod --for 2h --reason 'upgrade of the database'
  whittle pause prod --node-pool gpu --level all --reason 'training runs'
  whittle pause --account --reason 'change freeze'
  whittle pause prod --list")]
pub(crate) struct Arguments {
    #[command(flatten)]
    what: PauseTarget,
    /// List the pauses of the cluster or the account that are in force, and change nothing
    #[arg(long, conflicts_with_all = ["reason", "node_pool"])]
    list: bool,
    #[command(flatten)]
    output: ListOutput,
    /// Extent of the pause: "voluntary" stops disruption that Whittle chooses, "all" also launches and drains under way
    #[arg(long, value_enum, default_value = "voluntary")]
    level: Level,
    /// Duration, such as 4h, at most 30 days; the pause ends by itself
    #[arg(long = "for", default_value = "4h", value_parser = lasting)]
    lasting: SignedDuration,
    /// Reason, shown to other users
    #[arg(long, value_parser = text, required_unless_present = "list")]
    reason: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  whittle resume prod
  whittle resume prod --node-pool gpu --who ann")]
pub(crate) struct Resume {
    #[command(flatten)]
    what: PauseTarget,
}

#[derive(Args)]
#[command(group(ArgGroup::new("where").required(true).args(["cluster", "account"])))]
pub(crate) struct PauseTarget {
    /// Name of the registered cluster
    #[arg(value_parser = crate::registry::name)]
    cluster: Option<String>,
    /// Pause or resume every cluster that the stack serves, including clusters registered later
    #[arg(long)]
    account: bool,
    /// Restrict to this NodePool of the cluster
    #[arg(long, conflicts_with = "account", value_name = "NAME", value_parser = text)]
    node_pool: Option<String>,
    /// Owner of the pause; defaults to the user of this machine. Each owner has one pause per cluster and NodePool
    #[arg(long, value_name = "NAME", value_parser = text)]
    who: Option<String>,
    #[command(flatten)]
    pub(crate) stack: crate::stack::Stack,
}

#[derive(Clone, Copy, ValueEnum)]
enum Level {
    Voluntary,
    All,
}

fn lasting(text: &str) -> Result<SignedDuration, String> {
    api::duration::parse_go_duration(text)
        .filter(|lasting| *lasting > SignedDuration::ZERO && *lasting <= Pause::DURATION_MAX)
        .ok_or_else(|| "expected a duration of up to 720h (30 days), such as 4h".to_owned())
}

/// Upper bound on the length of a text in bytes: every turn reads all pauses of a cluster.
const TEXT_BYTES_MAX: usize = 200;

pub(crate) fn text(text: &str) -> Result<String, String> {
    let text = text.trim();
    match !text.is_empty() && text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "expected one line of 1 to {TEXT_BYTES_MAX} characters"
        )),
    }
}

impl PauseTarget {
    #[cfg(feature = "aws")]
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    pub(crate) fn scope(&self) -> PauseScope {
        match &self.node_pool {
            Some(name) => PauseScope::NodePool(name.as_str().into()),
            None if self.account => PauseScope::Account,
            None => PauseScope::Cluster,
        }
    }

    pub(crate) fn who(&self) -> Result<String> {
        match user(self.who.as_deref()) {
            Some(who) => Ok(who),
            None => anyhow::bail!("who pauses is not known: say so with --who NAME"),
        }
    }

    /// The target's name in messages.
    pub(crate) fn name(&self) -> String {
        match (&self.cluster, &self.node_pool) {
            (Some(cluster), Some(pool)) => format!("NodePool {pool} of cluster {cluster}"),
            (Some(cluster), None) => format!("cluster {cluster}"),
            (None, _) => "the account".to_owned(),
        }
    }
}

/// The given name, or else the user of this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "the name of the user is no configuration"
)]
pub(crate) fn user(named: Option<&str>) -> Option<String> {
    let user = ["USER", "LOGNAME", "USERNAME"].iter();
    let mut user = user.filter_map(|name| text(&std::env::var(name).ok()?).ok());
    named.map(str::to_owned).or_else(|| user.next())
}

pub(crate) fn pause(arguments: &Arguments) -> Result<Exit> {
    let now = crate::moment::now();
    let Some(reason) = &arguments.reason else {
        return list(arguments, now);
    };
    let pause = Pause {
        scope: arguments.what.scope(),
        owner: arguments.what.who()?,
        level: match arguments.level {
            Level::Voluntary => PauseLevel::Voluntary,
            Level::All => PauseLevel::All,
        },
        reason: reason.clone(),
        since: now,
        until: (now + arguments.lasting).round(jiff::Unit::Second)?,
    };
    put(&arguments.what, pause, now)
}

pub(crate) fn resume(arguments: &Resume) -> Result<Exit> {
    lift(
        &arguments.what,
        &arguments.what.who()?,
        crate::moment::now(),
    )
}

/// A pause for lists.
#[cfg(feature = "aws")]
#[derive(Serialize)]
pub(crate) struct ListedPause {
    /// `account`, `cluster` or `nodepool/<name>`.
    scope: String,
    level: String,
    owner: String,
    /// End of the pause; `None` if it lasts until it is lifted.
    until: Option<Timestamp>,
    since: Timestamp,
    reason: String,
}

#[cfg(feature = "aws")]
impl From<&Pause> for ListedPause {
    fn from(pause: &Pause) -> Self {
        Self {
            scope: match &pause.scope {
                PauseScope::Account => "account".to_owned(),
                PauseScope::Cluster => "cluster".to_owned(),
                PauseScope::NodePool(name) => format!("nodepool/{name}"),
            },
            level: pause.level.to_string(),
            owner: pause.owner.clone(),
            until: Some(pause.until).filter(|until| *until != Pause::INDEFINITE),
            since: pause.since,
            reason: pause.reason.clone(),
        }
    }
}

#[cfg(feature = "aws")]
impl Row for ListedPause {
    const HEADERS: &'static [&'static str] =
        &["SCOPE", "LEVEL", "OWNER", "UNTIL", "REASON", "SINCE"];
    const NARROW: usize = 5;

    fn cells(&self) -> Vec<String> {
        let until = self.until.map(|until| format!("{until:.0}"));
        vec![
            self.scope.clone(),
            self.level.clone(),
            self.owner.clone(),
            until.unwrap_or_else(|| "lifted".to_owned()),
            self.reason.clone(),
            format!("{:.0}", self.since),
        ]
    }

    fn name(&self) -> String {
        self.owner.clone()
    }
}

#[cfg(feature = "aws")]
fn list(arguments: &Arguments, now: Timestamp) -> Result<Exit> {
    let rows = crate::aws::pauses::of_target(&arguments.what, now)?;
    if rows.is_empty() {
        eprintln!("Nothing is paused in {}.", arguments.what.name());
    }
    arguments.output.print(&rows)?;
    Ok(Exit::Done)
}

#[cfg(not(feature = "aws"))]
fn list(arguments: &Arguments, _: Timestamp) -> Result<Exit> {
    anyhow::bail!(
        "pauses of {} are read from the ledger in AWS, which this build cannot: build it with `--features aws`",
        arguments.what.name()
    )
}

#[cfg(feature = "aws")]
use crate::aws::pauses::{lift, put};

#[cfg(not(feature = "aws"))]
fn put(what: &PauseTarget, pause: Pause, _: Timestamp) -> Result<Exit> {
    anyhow::bail!(
        "pause of {} until {} is written to the ledger in AWS, which this build cannot: build it with `--features aws`",
        what.name(),
        pause.until
    )
}

#[cfg(not(feature = "aws"))]
fn lift(what: &PauseTarget, who: &str, _: Timestamp) -> Result<Exit> {
    anyhow::bail!(
        "resume lifts {who}'s pause of {} in AWS, which this build cannot: build it with `--features aws`",
        what.name()
    )
}
