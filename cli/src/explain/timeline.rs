//! Timeline of a node: the steps from the wake of the turn that launched it to its first pods, with the time that each took.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s::{ContextClient, ContextSelection, KubeCluster};
use model::{
    NodeClaimName,
    journal::Subject,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    pod::Pod,
};
use ports::Cluster;
use serde::Serialize;
use turns::{Report, Step};

use crate::output::Row;

/// A node as its cluster has it, with the pods on it.
#[derive(Default)]
pub(super) struct Observed {
    claim: Option<NodeClaim>,
    node: Option<Node>,
    pods: Vec<Pod>,
}

struct Event {
    at: Timestamp,
    what: String,
}

/// Reads the node from the cluster of a kubeconfig context.
pub(super) async fn observe(
    selection: &ContextSelection,
    claim: &NodeClaimName,
) -> Result<Observed> {
    let ContextClient { context, client } = k8s::from_kubeconfig(selection).await?;
    // The Lease is irrelevant, because the cluster is only read.
    let api = KubeCluster::new(client, "kube-system");
    let read = tokio::try_join!(api.node_claims(), api.nodes(), api.pods());
    let (claims, nodes, pods) =
        read.with_context(|| format!("cannot read the cluster of context {context}"))?;
    let claim = claims.into_iter().find(|known| known.name == *claim);
    let name = claim
        .as_ref()
        .and_then(|claim| claim.status.node_name.clone());
    let on_node = |pod: &Pod| name.is_some() && pod.node_name == name;
    Ok(Observed {
        node: nodes
            .into_iter()
            .find(|node| Some(&node.name) == name.as_ref()),
        pods: pods.into_iter().filter(on_node).collect(),
        claim,
    })
}

/// The NodeClaim that a turn launched, among the names of the explained node.
pub(super) fn launch(
    reports: &[Report],
    is_subject: impl Fn(&Subject) -> bool,
) -> Result<(&Report, NodeClaimName)> {
    let launches = reports.iter().filter(|report| !report.steps.is_empty());
    let mut launched =
        launches.flat_map(|report| report.launched.iter().map(move |line| (report, line)));
    let found = launched.find_map(|(report, line)| {
        line.about.iter().find_map(|subject| match subject {
            Subject::NodeClaim(claim) if is_subject(subject) => Some((report, claim.clone())),
            Subject::NodeClaim(_) | Subject::Node(_) | Subject::NodePool(_) | Subject::Pod(_) => {
                None
            }
        })
    });
    match found {
        Some(found) => Ok(found),
        None => bail!(
            "the journal has no launch of it with times: --timeline is for nodes and NodeClaims that were launched for pods within 30 days"
        ),
    }
}

/// A step of the timeline.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TimelineStep {
    at: Timestamp,
    /// Seconds since the first step, and since the step before.
    seconds: f64,
    took: f64,
    step: String,
}

impl Row for TimelineStep {
    const HEADERS: &'static [&'static str] = &["AT", "TOOK", "STEP", "TIME"];
    const NARROW: usize = 3;

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{:.2}s", self.seconds),
            format!("{:.2}s", self.took),
            self.step.clone(),
            format!("{:.3}", self.at),
        ]
    }

    fn name(&self) -> String {
        self.step.clone()
    }
}

pub(super) fn steps(report: &Report, observed: &Observed) -> Vec<TimelineStep> {
    let events = events(report, observed);
    let Some(first) = events.first().map(|event| event.at) else {
        return Vec::new();
    };
    let mut last = first;
    let steps = events.into_iter().map(|event| {
        // The API server's times are whole seconds, so that a step may seem to end before it began.
        let took = event.at.duration_since(last).as_secs_f64().max(0.0);
        last = last.max(event.at);
        TimelineStep {
            at: event.at,
            seconds: last.duration_since(first).as_secs_f64(),
            took,
            step: event.what,
        }
    });
    steps.collect()
}

/// One line for each step: seconds since the first, seconds since the step before, and the step.
pub(super) fn render(steps: &[TimelineStep]) -> String {
    let Some(first) = steps.first() else {
        return String::new();
    };
    let mut text = format!("{:>8}  {:>8}  since {:.3}\n", "AT", "TOOK", first.at);
    for TimelineStep {
        seconds,
        took,
        step,
        ..
    } in steps
    {
        let _ = writeln!(text, "{seconds:>7.2}s  {took:>7.2}s  {step}");
    }
    text
}

/// In the order in which they cause each other.
fn events(report: &Report, observed: &Observed) -> Vec<Event> {
    let (claim, node) = (observed.claim.as_ref(), observed.node.as_ref());
    let condition = |kind: &str| {
        let conditions = claim.into_iter().flat_map(|claim| &claim.status.conditions);
        let mut met = conditions.filter(|condition| condition.status == ConditionStatus::True);
        met.find(|condition| condition.kind == kind)
            .map(|condition| condition.last_transition)
    };
    let ready = node
        .map(|node| &node.ready)
        .filter(|ready| ready.status == ConditionStatus::True);
    let turn = format!("turn {} of the {} begins", report.turn, report.lane);
    let steps = report.steps.iter().map(|end| {
        let what = match end.step {
            Step::Observed => "cluster and ledger are read",
            Step::Planned => "plan is made and checked",
            Step::Committed => "plan is committed",
            Step::Launched => "EC2 has answered CreateFleet",
        };
        (Some(end.at), what.to_owned())
    });
    let before = [
        (report.woken_at, "relay sends the wake".to_owned()),
        (Some(report.at), turn),
    ];
    let after = [
        (condition("Launched"), "NodeClaim is Launched"),
        (
            node.and_then(|node| node.created_at),
            "kubelet creates the Node",
        ),
        (condition("Registered"), "NodeClaim is Registered"),
        (ready.and_then(|ready| ready.since), "Node is Ready"),
        (condition("Initialized"), "NodeClaim is Initialized"),
        (
            observed.pods.iter().filter_map(|pod| pod.started_at).min(),
            "kubelet starts the first pod",
        ),
        (
            observed.pods.iter().filter_map(|pod| pod.started_at).max(),
            "kubelet starts the last pod so far",
        ),
    ];
    let after = after.into_iter().map(|(at, what)| (at, what.to_owned()));
    let all = before.into_iter().chain(steps).chain(after);
    all.filter_map(|(at, what)| Some(Event { at: at?, what }))
        .collect()
}
