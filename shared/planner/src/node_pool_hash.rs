//! Hash of the NodePool fields that nodes are created with: a change of them is drift (docs/spec/lifecycle.md#node-pool-hash).

use std::fmt::Write;

use api::{GoDuration, NillableDuration};
use model::node_pool::NodeClaimTemplate;
use sha2::{Digest, Sha256};

/// Version of the hash, written beside it. Hashes of other versions are not compared. Karpenter's is `v3`, so that taking over
/// a cluster drifts nothing.
pub const NODE_POOL_HASH_VERSION: &str = "whittle-v1";

/// Hash of a NodePool's template without its requirements, which are compared with node labels instead.
pub fn node_pool_hash(template: &NodeClaimTemplate) -> String {
    // Hashes a text with all fields delimited and lists sorted.
    let mut text = String::new();
    let mut line = |field: &str, value: &dyn std::fmt::Debug| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{field} {value:?}");
    };
    line("labels", &template.labels);
    line("annotations", &template.annotations);
    for (field, taints) in [
        ("taints", &template.taints),
        ("startupTaints", &template.startup_taints),
    ] {
        let mut taints: Vec<_> = taints.iter().collect();
        taints.sort();
        line(field, &taints);
    }
    let class = &template.node_class;
    line("nodeClassRef", &(&class.group, &class.kind, &class.name.0));
    let grace = template.termination_grace_period.as_deref();
    line("terminationGracePeriod", &grace.map(grace_period));
    let expiry = template.expire_after.as_deref();
    line("expireAfter", &expiry.and_then(expire_after));
    let digest = Sha256::digest(text);
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or(0));
    u64::from_be_bytes(first).to_string()
}

/// Normalizes durations: `1h` equals `60m`.
fn grace_period(text: &str) -> String {
    let parsed = text.parse::<GoDuration>();
    parsed.map_or_else(|_| text.to_owned(), |duration| seconds(duration.value()))
}

/// Normalizes a duration; `Never` equals absence.
fn expire_after(text: &str) -> Option<String> {
    match text.parse::<NillableDuration>() {
        Ok(duration) => duration.value().map(seconds),
        Err(_) => Some(text.to_owned()),
    }
}

fn seconds(duration: jiff::SignedDuration) -> String {
    format!("{}s", duration.as_secs())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::{
        selector::{NodeSelectorRequirement, Operator},
        taint::{Taint, TaintEffect},
    };

    use super::*;

    fn taint(key: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        }
    }

    fn template() -> NodeClaimTemplate {
        NodeClaimTemplate {
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            taints: vec![taint("x"), taint("y")],
            expire_after: Some("720h".to_owned()),
            ..NodeClaimTemplate::default()
        }
    }

    #[test]
    fn hash_covers_every_field_that_nodes_are_created_with() {
        let changes: [fn(&mut NodeClaimTemplate); 7] = [
            |t| drop(t.labels.insert("team".into(), "b".into())),
            |t| drop(t.annotations.insert("team".into(), "a".into())),
            |t| t.taints.push(taint("z")),
            |t| t.startup_taints.push(taint("z")),
            |t| t.node_class.name = "other".into(),
            |t| t.termination_grace_period = Some("1h".to_owned()),
            |t| t.expire_after = Some("700h".to_owned()),
        ];
        let mut hashes = vec![node_pool_hash(&template())];
        for change in changes {
            let mut changed = template();
            change(&mut changed);
            hashes.push(node_pool_hash(&changed));
        }
        let count = hashes.len();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn hash_ignores_order_spelling_and_requirements() {
        let mut same = template();
        same.taints.reverse();
        same.expire_after = Some("43200m".to_owned());
        let graceful = |text: &str| {
            node_pool_hash(&NodeClaimTemplate {
                termination_grace_period: Some(text.to_owned()),
                ..template()
            })
        };
        assert_eq!(graceful("1h"), graceful("60m"));
        assert_ne!(graceful("1h"), graceful("2h"));
        same.requirements = vec![NodeSelectorRequirement {
            key: "karpenter.sh/capacity-type".to_owned(),
            operator: Operator::In,
            values: vec!["spot".to_owned()],
            min_values: None,
        }];
        assert_eq!(node_pool_hash(&same), node_pool_hash(&template()));
        let never = |text: Option<&str>| NodeClaimTemplate {
            expire_after: text.map(str::to_owned),
            ..template()
        };
        let absent = node_pool_hash(&never(None));
        assert_eq!(node_pool_hash(&never(Some("Never"))), absent);
    }
}
