//! `whittle explain`: the decisions about one object, with time and reason; and its state at a time.

mod facts;
mod timeline;
mod waiting;

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane, NodeClaimName, PodKey,
    journal::{Line, Subject},
};
use ports::journal::JournalQuery;
use serde_json::json;
use turns::Report;

use crate::{
    journal::{
        rendering::{self, DecisionRow},
        source::{self, Source},
    },
    kubeconfig::Kubeconfig,
    moment::{self, Moment},
    output::TextOutput,
    progress::Progress,
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle explain pod web-1 -n shop -c prod
  whittle explain nodeclaim/default-x7k2p -c prod --timeline
  whittle explain node ip-10-0-1-7.ec2.internal -c prod --at 2h
  whittle explain nodepool default -c prod -o table")]
pub(crate) struct Arguments {
    /// Kind and name of a pod, node, nodeclaim or nodepool, as for kubectl: `pod web-1` or `pod/web-1`; if omitted, explain what waits in
    /// the cluster of the kubeconfig context
    #[arg(num_args = 1..=2, requires = "cluster")]
    object: Vec<String>,
    /// Name of the registered cluster; without an object, adds its pauses and approvals
    #[arg(short, long)]
    cluster: Option<String>,
    /// Namespace of the pod
    #[arg(short, long, default_value = "default", requires = "object")]
    namespace: String,
    /// Show the state and the decisions at a time such as 2026-08-22T12:00:00Z, or an age such as 2h30m
    #[arg(long, value_parser = moment::parse, requires = "object")]
    at: Option<Moment>,
    /// Show at most N turns with decisions about the object, the latest ones
    #[arg(long, value_name = "N", default_value_t = 20, requires = "object")]
    last: usize,
    /// Show the steps from the wake to the node's first pods, and the time that each took
    #[arg(long, requires = "object")]
    timeline: bool,
    /// Kubeconfig context: for the timeline's steps after the launch, which are the node's conditions and pods, and without an object
    /// for the cluster to explain; defaults to the current context, and with --from to none
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    output: TextOutput,
    #[command(flatten)]
    from: source::Origin,
}

/// Retention of records (docs/design.md#journal).
const RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Maximum age of a snapshot: a quiet cluster's state is recorded once an hour.
const SNAPSHOT_AGE_MAX: SignedDuration = SignedDuration::from_hours(3);
/// Upper bound on the records searched for a snapshot: about one a minute in [`SNAPSHOT_AGE_MAX`].
const RECORDS_SEARCHED_MAX: usize = 200;

/// Upper bound on the records of a node that are searched for its launch, which is the oldest.
const TIMELINE_RECORDS_MAX: usize = 2_000;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.cluster.is_none() || arguments.object.is_empty() {
        return waiting::run(arguments);
    }
    if arguments.context.is_some() && !arguments.timeline {
        bail!("--context has an effect with --timeline, or without an object");
    }
    source::block_on(async {
        let progress = Progress::of("Reading the journal");
        let explanation = Explanation::read(arguments).await?;
        drop(progress);
        if arguments.timeline {
            return explanation.print_timeline(arguments).await;
        }
        let decisions = explanation.decisions();
        let document = json!({
            "object": explanation.subject.to_string(), "state": explanation.state, "decisions": &decisions,
        });
        arguments
            .output
            .print(&explanation.text(), &decisions, &document)
    })
}

/// The decisions about an object in the text format.
pub(crate) async fn text(arguments: &Arguments) -> Result<String> {
    Ok(Explanation::read(arguments).await?.text())
}

/// An object's records.
struct Explanation {
    subject: Subject,
    /// Names of the object: a node and its NodeClaim are the same object.
    names: BTreeSet<Subject>,
    /// The object, and its state at the time of `--at`.
    head: String,
    state: Option<String>,
    /// Turns with decisions about the object, oldest first.
    reports: Vec<Report>,
}

impl Explanation {
    async fn read(arguments: &Arguments) -> Result<Self> {
        let subject = subject(&arguments.object, &arguments.namespace)?;
        let now = moment::now();
        let until = arguments.at.map_or(Ok(now), |at| at.before(now))?;
        if arguments.from.of_stack() && until < now - RETENTION {
            bail!(
                "the journal keeps 30 days: it begins at {:.0}, and {until:.0} is before that",
                now - RETENTION
            );
        }
        let source = Source::open(&arguments.from).await?;
        let cluster = ClusterName(arguments.cluster.clone().unwrap_or_default());
        let mut head = format!("{subject}\n");
        let mut state = None;
        if arguments.at.is_some()
            && !arguments.timeline
            && let Some(report) = last_snapshot(&source, &cluster, &subject, until).await?
        {
            let snapshot = source.snapshot(&report).await?;
            state = facts::of(&snapshot, &subject, report.lane);
            head.push_str(&format!(
                "\nAs turn {} saw it at {:.0}:\n{}",
                report.turn,
                report.at,
                state.as_deref().unwrap_or("  it was not there\n")
            ));
        }
        // A turn that began at this very time counts.
        let until = until + SignedDuration::from_millis(1);
        let (reports, names) = history(arguments, &source, &cluster, &subject, until).await?;
        if reports.is_empty() && state.is_none() {
            bail!(
                "the journal of cluster {cluster} says nothing about {subject} in the 30 days before {until:.0}: check its name{}, \
                 or list decisions with `whittle journal {cluster} --since 1d`",
                match subject {
                    Subject::Pod(_) => " and namespace",
                    Subject::Node(_) | Subject::NodeClaim(_) | Subject::NodePool(_) => "",
                }
            );
        }
        Ok(Self {
            subject,
            names,
            head,
            state,
            reports,
        })
    }

    fn is_about(&self, line: &Line) -> bool {
        line.about
            .iter()
            .any(|subject| self.names.contains(subject))
    }

    fn text(&self) -> String {
        let mut text = self.head.clone();
        for report in &self.reports {
            text.push('\n');
            text.push_str(&rendering::about(report, &|line| self.is_about(line)));
        }
        text
    }

    fn decisions(&self) -> Vec<DecisionRow> {
        let reports = self.reports.iter();
        reports
            .flat_map(|report| rendering::decisions(report, &|line| self.is_about(line)))
            .collect()
    }

    async fn print_timeline(&self, arguments: &Arguments) -> Result<()> {
        let is_name = |subject: &Subject| self.names.contains(subject);
        let (report, claim) = timeline::launch(&self.reports, is_name)?;
        let observed = arguments.observe(&claim).await?;
        let steps = timeline::steps(report, &observed);
        let text = format!("{}{}", self.head, timeline::render(&steps));
        arguments.output.print(&text, &steps, &steps)
    }
}

impl Arguments {
    /// The node in its cluster. A copy of the journal may be of a cluster that is no context here, and the current context may be another
    /// cluster's or not exist, so that only a named context must be readable.
    async fn observe(&self, claim: &NodeClaimName) -> Result<timeline::Observed> {
        if let Some(selection) = self.kubeconfig.select_named(self.context.as_deref()) {
            return timeline::observe(&selection, claim).await;
        }
        if !self.from.of_stack() {
            return Ok(timeline::Observed::default());
        }
        let observed = timeline::observe(&self.kubeconfig.select(None), claim).await;
        Ok(observed.unwrap_or_else(|error| {
            eprintln!("whittle: the steps after the launch are left out: {error:#}");
            timeline::Observed::default()
        }))
    }
}

/// Parses `pod web`, `pod/web`, `po web` …
fn subject(object: &[String], namespace: &str) -> Result<Subject> {
    let joined = object.join("/");
    let (kind, name) = joined.split_once('/').unwrap_or((&joined, ""));
    if name.is_empty() || object.iter().any(String::is_empty) {
        bail!("{joined:?} names no object: expected pod, node, nodeclaim or nodepool, and a name");
    }
    Ok(match kind {
        "pod" | "pods" | "po" => match name.split_once('/') {
            Some((namespace, name)) => Subject::Pod(PodKey::new(namespace, name)),
            None => Subject::Pod(PodKey::new(namespace, name)),
        },
        "node" | "nodes" | "no" => Subject::Node(name.into()),
        "nodeclaim" | "nodeclaims" => Subject::NodeClaim(name.into()),
        "nodepool" | "nodepools" => Subject::NodePool(name.into()),
        kind => bail!("{kind:?} is no kind: expected pod, node, nodeclaim or nodepool"),
    })
}

/// Decisions about the object, oldest first, and its names: a node and its NodeClaim are the same object.
async fn history(
    arguments: &Arguments,
    source: &Source,
    cluster: &ClusterName,
    subject: &Subject,
    until: Timestamp,
) -> Result<(Vec<Report>, BTreeSet<Subject>)> {
    let most = match arguments.timeline {
        true => TIMELINE_RECORDS_MAX,
        false => arguments.last,
    };
    let wanted = |subject: &Subject| JournalQuery {
        about: Some(subject.clone()),
        from: until - RETENTION,
        until,
        most,
    };
    let mut reports = read(source.latest(cluster, &wanted(subject)).await?);
    let mut subjects = BTreeSet::from([subject.clone()]);
    for other in counterparts(&reports, subject) {
        if subjects.insert(other.clone()) {
            let found = read(source.latest(cluster, &wanted(&other)).await?);
            reports.extend(found);
        }
    }
    reports.sort_by(|a, b| (a.at, &a.turn).cmp(&(b.at, &b.turn)));
    reports.dedup_by(|a, b| a.turn == b.turn && a.at == b.at);
    let first = reports.len().saturating_sub(most);
    Ok((reports.split_off(first), subjects))
}

fn read(entries: Vec<ports::JournalEntry>) -> Vec<Report> {
    let entries = entries.iter();
    let reports = entries.filter_map(|entry| match Report::read(entry) {
        Ok(report) => Some(report),
        Err(error) => {
            eprintln!("whittle: {:#}", anyhow::Error::from(error));
            None
        }
    });
    reports.collect()
}

/// The NodeClaim of a node, or the node of a NodeClaim, from lines that name both and nothing else.
fn counterparts(reports: &[Report], subject: &Subject) -> BTreeSet<Subject> {
    let lines = reports.iter().flat_map(Report::lines);
    let pairs = lines.filter_map(|line| match line.about.as_slice() {
        [first, other] if first == subject => Some(other),
        [other, first] if first == subject => Some(other),
        _ => None,
    });
    let other = |other: &&Subject| match subject {
        Subject::Node(_) => matches!(other, Subject::NodeClaim(_)),
        Subject::NodeClaim(_) => matches!(other, Subject::Node(_)),
        Subject::Pod(_) | Subject::NodePool(_) => false,
    };
    pairs.filter(other).cloned().collect()
}

/// The last turn until then with a snapshot; for nodes, one that read all pods.
async fn last_snapshot(
    source: &Source,
    cluster: &ClusterName,
    subject: &Subject,
    until: Timestamp,
) -> Result<Option<Report>> {
    let wanted = JournalQuery {
        about: None,
        from: until - SNAPSHOT_AGE_MAX,
        until: until + SignedDuration::from_millis(1),
        most: RECORDS_SEARCHED_MAX,
    };
    let reports = read(source.latest(cluster, &wanted).await?);
    let of_pod = matches!(subject, Subject::Pod(_));
    let mut kept = reports
        .into_iter()
        .filter(|report| report.snapshot.is_some() && (of_pod || report.lane == Lane::Disruption));
    Ok(kept.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_in_kubectl() {
        let read = |object: &[&str]| {
            let object: Vec<String> = object.iter().map(|&text| text.to_owned()).collect();
            subject(&object, "shop").map(|subject| subject.to_string())
        };
        assert_eq!(read(&["pod", "web"]).unwrap(), "pod/shop/web");
        assert_eq!(read(&["po/web"]).unwrap(), "pod/shop/web");
        assert_eq!(read(&["pod/other/web"]).unwrap(), "pod/other/web");
        assert_eq!(read(&["nodeclaims", "a"]).unwrap(), "nodeclaim/a");
        for object in [&["pod"][..], &["pod", ""], &["service", "web"]] {
            assert!(read(object).is_err(), "{object:?}");
        }
    }
}
