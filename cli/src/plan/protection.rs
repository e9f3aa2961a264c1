//! Annotations that are meant to protect pods and nodes from disruption, but have no effect.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use model::Snapshot;

const DO_NOT_DISRUPT: &str = api::names::annotation::DO_NOT_DISRUPT;

/// Warnings about such annotations, with each owner's pods together.
pub(super) fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = BTreeSet::new();
    for pod in &snapshot.pods {
        let Some(text) = pod.annotations.get(DO_NOT_DISRUPT) else {
            continue;
        };
        let is_time = || {
            let time = api::duration::parse_go_duration(text);
            time.is_some_and(|time| time > SignedDuration::ZERO)
        };
        if text != "true" && text != "false" && !is_time() {
            let of = match &pod.owner {
                Some(owner) => format!(
                    "pods of {} {}/{}",
                    owner.kind, pod.key.namespace, owner.name
                ),
                None => format!("pod {}", pod.key),
            };
            notes.insert(format!(
                "{of}: annotation {DO_NOT_DISRUPT} is {text:?} and protects nothing: expected \"true\" or a positive duration such as \"1h30m\""
            ));
        }
    }
    // On nodes only the exact value counts.
    for node in &snapshot.nodes {
        let text = node.annotations.get(DO_NOT_DISRUPT);
        if let Some(text) = text.filter(|text| !["true", "false"].contains(&text.as_str())) {
            notes.insert(format!(
                "node {}: annotation {DO_NOT_DISRUPT} is {text:?} and protects nothing: expected \"true\"",
                node.name
            ));
        }
    }
    notes.into_iter().collect()
}
