//! `whittle approve`: approval of a plan above a limit (docs/operations.md), or of what garbage collection held back
//! (docs/design.md#mass-absence).

use std::io::Write;

use anyhow::{Context, Result};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use model::ledger::Approval;
#[cfg(any(feature = "aws", test))]
use model::ledger::Request;
#[cfg(any(feature = "aws", test))]
use serde::Serialize;

use crate::output::ListOutput;
#[cfg(any(feature = "aws", test))]
use crate::output::Row;

#[derive(Args)]
#[command(after_help = "Examples:
  whittle approve prod --list
  whittle approve prod 1a2b --for 30m
  whittle approve prod")]
pub(crate) struct Arguments {
    /// Name of the registered cluster
    #[arg(value_parser = name)]
    cluster: String,
    /// Request to approve, as its event and --list name it; if omitted, release what garbage collection and expiration hold back
    #[arg(value_parser = crate::pause::text)]
    request: Option<String>,
    /// List requests that are pending, approved or recently expired, and change nothing
    #[arg(long, conflicts_with = "request")]
    list: bool,
    #[command(flatten)]
    pub(crate) output: ListOutput,
    /// Time for which the approval is valid, such as 30m; at most 24h
    #[arg(long = "for", default_value = "1h", value_parser = lasting)]
    lasting: SignedDuration,
    /// Name of the approver; defaults to the user of this machine
    #[arg(long, value_name = "NAME", value_parser = crate::pause::text)]
    who: Option<String>,
    /// Path of the registry in Parameter Store
    #[arg(long, default_value = "/whittle/clusters")]
    registry: String,
    #[command(flatten)]
    pub(crate) stack: crate::stack::Stack,
}

const DURATION_MAX: SignedDuration = SignedDuration::from_hours(24);

fn lasting(text: &str) -> Result<SignedDuration, String> {
    api::duration::parse_go_duration(text)
        .filter(|lasting| *lasting > SignedDuration::ZERO && *lasting <= DURATION_MAX)
        .ok_or_else(|| "expected a duration of up to 24h, such as 30m".to_owned())
}

fn name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains('/') {
        true => Err("expected the name of a cluster".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let now = crate::moment::now();
    let until = (now + arguments.lasting).round(jiff::Unit::Second)?;
    let Some(id) = &arguments.request else {
        if arguments.list {
            return list(arguments, now);
        }
        approve(arguments, now, until)?;
        writeln!(
            std::io::stdout(),
            "Approved in {} until {until}: nodes held back by garbage collection or the cap on terminations may be terminated.",
            arguments.cluster
        )?;
        return Ok(());
    };
    let by = crate::pause::user(arguments.who.as_deref());
    let by = by.context("who approves is not known: say so with --who NAME")?;
    let approval = Approval { by, until };
    let description = answer(arguments, id, approval, now)?;
    writeln!(
        std::io::stdout(),
        "Approved in {} until {until}: {description}. The next turn plans again, and acts if its plan needs no more than this.",
        arguments.cluster
    )?;
    Ok(())
}

/// A request and its state.
#[cfg(any(feature = "aws", test))]
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedRequest {
    id: String,
    /// `waiting`, `approved`, `lapsed` (the approval is over) or `expired`.
    state: &'static str,
    /// End of the state, or the time at which it began if it is an end.
    until: Timestamp,
    approved_by: Option<String>,
    description: String,
}

#[cfg(any(feature = "aws", test))]
impl Row for ListedRequest {
    const HEADERS: &'static [&'static str] =
        &["ID", "STATE", "UNTIL", "APPROVED BY", "DESCRIPTION"];
    const NARROW: usize = 5;

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            self.state.to_owned(),
            format!("{:.0}", self.until),
            self.approved_by.clone().unwrap_or_default(),
            self.description.clone(),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

/// The requests with their states.
#[cfg(any(feature = "aws", test))]
pub(crate) fn listed(requests: &[Request], now: Timestamp) -> Vec<ListedRequest> {
    let row = |request: &Request| {
        let (state, until) = match &request.approved {
            Some(approval) if approval.until > now => ("approved", approval.until),
            Some(approval) => ("lapsed", approval.until),
            None if request.until > now => ("waiting", request.until),
            None => ("expired", request.until),
        };
        ListedRequest {
            id: request.id.clone(),
            state,
            until,
            approved_by: request
                .approved
                .as_ref()
                .map(|approval| approval.by.clone()),
            description: request.description.clone(),
        }
    };
    requests.iter().map(row).collect()
}

#[cfg(feature = "aws")]
impl Arguments {
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }
}

#[cfg(feature = "aws")]
use crate::aws::requests::{answer, list};

#[cfg(not(feature = "aws"))]
fn list(_: &Arguments, _: Timestamp) -> Result<()> {
    anyhow::bail!(
        "approve --list reads the ledger in AWS, which this build cannot: build it with `--features aws`"
    );
}

#[cfg(not(feature = "aws"))]
fn answer(_: &Arguments, id: &str, _: Approval, _: Timestamp) -> Result<String> {
    anyhow::bail!(
        "request {id} is approved in AWS, which this build cannot: build it with `--features aws`"
    );
}

#[cfg(feature = "aws")]
fn approve(arguments: &Arguments, now: Timestamp, until: Timestamp) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let cluster = &arguments.cluster;
    let approved = runtime.block_on(crate::aws::approve(
        cluster,
        &arguments.registry,
        now,
        until,
    ));
    approved.with_context(|| {
        format!(
            "cannot write the registry entry {}/{cluster}; nothing was changed",
            arguments.registry
        )
    })
}

#[cfg(not(feature = "aws"))]
fn approve(_: &Arguments, _: Timestamp, _: Timestamp) -> Result<()> {
    anyhow::bail!("approve calls AWS, which this build cannot: build it with `--features aws`");
}

#[cfg(test)]
mod tests {
    use model::ledger::ApprovalScope;

    use super::*;

    #[test]
    fn requests_are_listed_with_their_state() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(2);
        let request = |id: &str, hours: i64, approved: Option<i64>| Request {
            id: id.to_owned(),
            asks: ApprovalScope::Launches([].into()),
            description: "launching 9 nodes".to_owned(),
            until: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours),
            approved: approved.map(|hours| Approval {
                by: "ann".to_owned(),
                until: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours),
            }),
        };
        let requests = [
            request("a", 3, None),
            request("b", 3, Some(4)),
            request("c", 1, None),
            request("d", 3, Some(1)),
        ];
        let rows: Vec<_> = listed(&requests, now).iter().map(Row::cells).collect();
        let expected = [
            ["a", "waiting", "1970-01-01T03:00:00Z", ""],
            ["b", "approved", "1970-01-01T04:00:00Z", "ann"],
            ["c", "expired", "1970-01-01T01:00:00Z", ""],
            ["d", "lapsed", "1970-01-01T01:00:00Z", "ann"],
        ];
        assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(expected) {
            assert_eq!(row[..4], expected);
            assert_eq!(row[4], "launching 9 nodes");
        }
    }
}
