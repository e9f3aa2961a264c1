//! Annotation `karpenter.sh/do-not-disrupt` of pods (docs/spec/lifecycle.md#pod-do-not-disrupt).

use std::collections::BTreeSet;

use api::names::{annotation::DO_NOT_DISRUPT, label};
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeName, Snapshot,
    pod::{Pod, PodPhase},
};

use crate::decision::Note;

/// Whether, and until when, the do-not-disrupt annotation protects a pod.
enum Protection {
    Always,
    /// Protected until this time, counted from the pod's start.
    Until(Timestamp),
    /// Protected: the pod has not started, so its duration has not begun.
    Unstarted,
    Over(SignedDuration),
    /// The annotation's value does not parse.
    Invalid,
}

/// Whether the pod is protected from voluntary disruption now.
pub fn must_not_be_disrupted(pod: &Pod, now: Timestamp) -> bool {
    match protection(pod, now) {
        Some(Protection::Always | Protection::Until(_) | Protection::Unstarted) => true,
        Some(Protection::Over(_) | Protection::Invalid) | None => false,
    }
}

/// Time at which the pod's protection ends by itself, if it does.
pub(crate) fn protected_until(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    match protection(pod, now) {
        Some(Protection::Until(until)) => Some(until),
        Some(
            Protection::Always | Protection::Unstarted | Protection::Over(_) | Protection::Invalid,
        )
        | None => None,
    }
}

/// Events about protected pods on managed nodes: the end of the protection, that it is over, or that the annotation is invalid.
pub fn do_not_disrupt_notes(snapshot: &Snapshot) -> Vec<Note> {
    let ours = snapshot.nodes.iter();
    let ours: BTreeSet<&NodeName> = ours
        .filter(|node| node.labels.contains_key(label::NODE_POOL))
        .map(|node| &node.name)
        .collect();
    let pods = snapshot.pods.iter();
    let pods = pods.filter(|pod| {
        pod.node_name
            .as_ref()
            .is_some_and(|name| ours.contains(name))
    });
    pods.filter_map(|pod| note(pod, snapshot.now)).collect()
}

fn note(pod: &Pod, now: Timestamp) -> Option<Note> {
    match protection(pod, now)? {
        Protection::Always | Protection::Unstarted => None,
        Protection::Until(until) => Some(Note::normal(
            pod,
            "DoNotDisruptUntil",
            format!("Pod is protected from voluntary disruption until {until:.0}"),
        )),
        Protection::Over(time) => Some(Note::normal(
            pod,
            "DoNotDisruptGracePeriodElapsed",
            format!("The pod's protection of {time:#} from voluntary disruption has ended"),
        )),
        Protection::Invalid => Some(Note::warning(
            pod,
            "InvalidDoNotDisruptAnnotation",
            format!(
                "Annotation {DO_NOT_DISRUPT} is {:?} and protects nothing: expected \"true\" or a positive duration such as \"1h30m\"",
                pod.annotations
                    .get(DO_NOT_DISRUPT)
                    .map_or("", String::as_str)
            ),
        )),
    }
}

/// Returns the protection of a pod that is neither terminal nor being deleted.
fn protection(pod: &Pod, now: Timestamp) -> Option<Protection> {
    let active = !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    let annotation = pod.annotations.get(DO_NOT_DISRUPT);
    let text = annotation.filter(|_| active && pod.deletion.is_none())?;
    if text == "true" {
        return Some(Protection::Always);
    }
    let time = api::duration::parse_go_duration(text);
    let Some(time) = time.filter(|time| *time > SignedDuration::ZERO) else {
        return Some(Protection::Invalid);
    };
    let Some(started) = pod.started_at else {
        return Some(Protection::Unstarted);
    };
    Some(match started.checked_add(time) {
        Ok(until) if now < until => Protection::Until(until),
        Ok(_) => Protection::Over(time),
        Err(_) => Protection::Always,
    })
}

#[cfg(test)]
mod tests {
    use model::node::Node;

    use super::*;
    use crate::{
        About,
        fixtures::{now, snapshot},
    };

    fn reasons(annotation: &str, on: &str) -> Vec<(bool, &'static str)> {
        reasons_of(annotation, on, |_| {})
    }

    fn reasons_of(annotation: &str, on: &str, change: fn(&mut Pod)) -> Vec<(bool, &'static str)> {
        let mut snapshot = snapshot();
        for (name, pool) in [("ours", true), ("theirs", false)] {
            let mut node = Node {
                name: name.into(),
                ..Node::default()
            };
            if pool {
                node.labels
                    .insert(label::NODE_POOL.into(), "general".into());
            }
            snapshot.nodes.push(node);
        }
        let mut pod = Pod {
            node_name: Some(on.into()),
            started_at: Some(now() - SignedDuration::from_mins(10)),
            ..Pod::default()
        };
        change(&mut pod);
        pod.annotations
            .insert(DO_NOT_DISRUPT.into(), annotation.into());
        snapshot.pods.push(pod);
        let notes = do_not_disrupt_notes(&snapshot);
        assert!(
            notes
                .iter()
                .all(|note| matches!(note.about, About::Pod(..)))
        );
        notes
            .into_iter()
            .map(|note| (note.warning, note.reason))
            .collect()
    }

    #[test]
    fn events_report_the_protection_of_pods() {
        assert_eq!(reasons("true", "ours"), []);
        assert_eq!(reasons("1h30m", "ours"), [(false, "DoNotDisruptUntil")]);
        let elapsed = (false, "DoNotDisruptGracePeriodElapsed");
        assert_eq!(reasons("5m", "ours"), [elapsed]);
        for nonsense in ["false", "0s", "-5m", "soon"] {
            let reported = reasons(nonsense, "ours");
            assert_eq!(reported, [(true, "InvalidDoNotDisruptAnnotation")]);
        }
        assert_eq!(reasons("false", "theirs"), []);
        let finished = |pod: &mut Pod| pod.phase = PodPhase::Succeeded;
        assert_eq!(reasons_of("1h30m", "ours", finished), []);
        let leaving = |pod: &mut Pod| {
            pod.deletion = Some(model::pod::Deletion {
                at: now(),
                grace_seconds: 30,
            });
        };
        assert_eq!(reasons_of("1h30m", "ours", leaving), []);
    }
}
