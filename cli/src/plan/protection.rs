//! Annotations that are meant to protect pods and nodes from disruption, but have no effect.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use model::Snapshot;

const DO_NOT_DISRUPT: &str = api::names::annotation::DO_NOT_DISRUPT;
/// Annotations of Karpenter's versions before v1beta1.
const OBSOLETE: [&str; 2] = [
    "karpenter.sh/do-not-evict",
    "karpenter.sh/do-not-consolidate",
];

/// Warnings about such annotations, with each owner's pods together.
pub(super) fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = BTreeSet::new();
    for pod in &snapshot.pods {
        let of = || match &pod.owner {
            Some(owner) => format!(
                "pods of {} {}/{}",
                owner.kind, pod.key.namespace, owner.name
            ),
            None => format!("pod {}", pod.key),
        };
        notes.extend(obsolete(&pod.annotations).map(|note| format!("{}: {note}", of())));
        let Some(text) = pod.annotations.get(DO_NOT_DISRUPT) else {
            continue;
        };
        let is_time = || {
            let time = api::duration::parse_go_duration(text);
            time.is_some_and(|time| time > SignedDuration::ZERO)
        };
        if text != "true" && text != "false" && !is_time() {
            notes.insert(format!(
                "{}: annotation {DO_NOT_DISRUPT} is {text:?} and protects nothing: expected \"true\" or a positive duration such as \"1h30m\"",
                of()
            ));
        }
    }
    // On nodes only the exact value counts.
    for node in &snapshot.nodes {
        let of_node = obsolete(&node.annotations);
        notes.extend(of_node.map(|note| format!("node {}: {note}", node.name)));
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

/// Warning about an annotation of old Karpenter versions, unless the present one stands beside it.
fn obsolete(annotations: &BTreeMap<String, String>) -> Option<String> {
    let is_set = |name: &&str| annotations.get(*name).is_some_and(|text| text == "true");
    let old = OBSOLETE.into_iter().find(is_set)?;
    (!annotations.contains_key(DO_NOT_DISRUPT)).then(|| {
        format!(
            "annotation {old} protects nothing: Karpenter v1 expects {DO_NOT_DISRUPT}: \"true\""
        )
    })
}
