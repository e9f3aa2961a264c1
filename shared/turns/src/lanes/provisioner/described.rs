//! Description of waiting pods in a turn's report.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use model::{
    Plan, PodKey,
    journal::{Line, Subject},
    plan::names,
};

use crate::{
    Report,
    lanes::record_snapshot,
    observe::Observed,
    report::{Waiting, events},
};

/// Age from which a waiting pod is counted for an alarm; a node takes a minute or two.
const LONG_WAIT: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn describe(observed: &Observed, checked: &plancheck::Checked, report: &mut Report) {
    record_snapshot(observed, report);
    report.refuse(&checked.refused);
    report.postponed = checked.plan.postponed.len();
    report.alarm_counts.waiting = count_waiting_long(observed);
    // Only the last round's pods are kept.
    report.limited.clear();
    for unplaced in &checked.plan.unplaced {
        if unplaced.reasons.iter().any(|refusal| refusal.limited) {
            let why = events::reasons(unplaced);
            let key = &unplaced.pod.key;
            let text = format!("{key}: {why}");
            report
                .limited
                .push(Line::new(text, [Subject::Pod(key.clone())]));
        }
    }
    let plan = &checked.plan;
    if !(plan.unplaced.is_empty() && plan.nominations.is_empty() && plan.actions.is_empty()) {
        report.waiting = Some(Waiting {
            unplaced: plan.unplaced.len(),
            pending: planner::pending_pods(&observed.snapshot),
        });
    }
    report.unplaced = unplaced(&checked.plan).collect();
    report.expected = expected(&checked.plan).collect();
}

/// Pods without a place, one line for those with the same reasons.
fn unplaced(plan: &Plan) -> impl Iterator<Item = Line> {
    let mut by_reasons: BTreeMap<String, Vec<&PodKey>> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        let why = events::reasons(unplaced);
        by_reasons.entry(why).or_default().push(&unplaced.pod.key);
    }
    by_reasons.into_iter().map(|(why, pods)| {
        let text = format!("{}: {why}", names(pods.iter()));
        Line::new(text, pods.into_iter().cloned().map(Subject::Pod))
    })
}

/// Pods that are nominated without a launch, one line for each node.
fn expected(plan: &Plan) -> impl Iterator<Item = Line> {
    let mut nodes: BTreeMap<Subject, Vec<&PodKey>> = BTreeMap::new();
    for nomination in &plan.nominations {
        let node = Subject::from(&nomination.node);
        nodes.entry(node).or_default().push(&nomination.pod.key);
    }
    nodes.into_iter().map(|(node, pods)| {
        let text = format!("expect {} on {node}", names(pods.iter()));
        let pods = pods.into_iter().cloned().map(Subject::Pod);
        Line::new(text, [node].into_iter().chain(pods))
    })
}

/// Number of pods that have waited for a node for [`LONG_WAIT`] or longer.
fn count_waiting_long(observed: &Observed) -> u64 {
    let now = observed.snapshot.now;
    let pods = observed.snapshot.pods.iter();
    let long = pods.filter(|pod| {
        let since = pod.created_at.map(|at| now.duration_since(at));
        planner::is_provisionable(pod) && since.is_some_and(|since| since >= LONG_WAIT)
    });
    u64::try_from(long.count()).unwrap_or(u64::MAX)
}
