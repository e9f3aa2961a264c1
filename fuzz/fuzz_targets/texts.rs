//! What others write and functions read: whatever it is, nobody panics, and what was understood is understood the same when it is
//! written again.

#![expect(
    clippy::expect_used,
    reason = "what cannot be written again is what is looked for"
)]

use std::collections::BTreeMap;

use api::{EC2NodeClass, List, NodeClaim, NodePool, Resource, kubernetes};
use aws_rules::{
    ClusterFacts,
    families::Family,
    interruption,
    user_data::{Boot, render},
};
use jiff::Timestamp;
use model::interruption::Home;
use serde_json::json;

/// Messages of the queue.
pub(crate) fn events(text: &str) {
    let home = Home {
        account: "000000000000".to_owned(),
        region: "us-east-1".to_owned(),
    };
    // What it says is for others to judge; here it must only say something.
    let _understood = interruption::read(text, &home, Timestamp::UNIX_EPOCH);
    let _older = interruption::message(text);
}

/// Answers of an API server.
pub(crate) fn lists(text: &str) {
    for pod in read::<kubernetes::Pod>(text) {
        let pod = model::pod::Pod::from(pod);
        let written = serde_json::to_string(&pod).expect("pods have text for keys");
        let again: model::pod::Pod = serde_json::from_str(&written).expect("what was written");
        assert_eq!(again, pod);
    }
    for node in read::<kubernetes::Node>(text) {
        let _of_ours = model::node::Node::from(node);
    }
    for claim in read::<NodeClaim>(text) {
        let _of_ours = model::node_claim::NodeClaim::from(claim);
    }
    read::<NodePool>(text);
    read::<EC2NodeClass>(text);
}

/// What can be read is the same object after it was sent back.
fn read<T: Resource + PartialEq + std::fmt::Debug>(text: &str) -> Vec<T> {
    let Ok(list) = List::<T>::from_json(text) else {
        return Vec::new();
    };
    for item in &list.items {
        let manifest = item.to_manifest().expect("objects have text for keys");
        let again: T = serde_json::from_value(manifest).expect("what was written");
        assert_eq!(&again, item);
    }
    list.items
}

/// Quantities and durations.
pub(crate) fn quantities(text: &str) {
    if let Ok(quantity) = text.parse::<model::quantity::Quantity>() {
        let whole = i128::from(quantity.ceil());
        let milli = i128::from(quantity.milli());
        let is_clamped = milli == i128::from(i64::MAX) || milli == i128::from(i64::MIN);
        assert!(is_clamped || (whole - 1) * 1000 < milli && milli <= whole * 1000);
    }
    if let Ok(duration) = text.parse::<api::GoDuration>() {
        assert_eq!(duration.to_string().parse(), Ok(duration));
    }
    if let Ok(duration) = text.parse::<api::NillableDuration>() {
        assert_eq!(duration.to_string().parse(), Ok(duration));
    }
}

/// A user's own user data, in each family.
pub(crate) fn user_data(text: &str) {
    let cluster = ClusterFacts {
        name: "demo".into(),
        region: "us-east-1".to_owned(),
        endpoint: "https://127.0.0.1".to_owned(),
        certificate_authority: String::new(),
        service_cidr: Some("10.100.0.0/16".to_owned()),
        dns_ip: None,
        version: "1.37".parse().expect("a version"),
    };
    let rendered = |family, text: String| {
        let node_class = json!({"metadata": {"name": "default"}, "spec": {
            "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "userData": text,
        }});
        let node_class = serde_json::from_value(node_class).expect("an EC2NodeClass");
        let boot = Boot {
            cluster: &cluster,
            node_class: &node_class,
            labels: &BTreeMap::new(),
            taints: &[],
            startup_taints: &[],
            capacity_type: "spot",
            max_pods: 110,
            resolved: None,
        };
        render(family, &boot)
    };
    for family in [
        Family::Al2,
        Family::Al2023,
        Family::Bottlerocket,
        Family::Windows2022,
    ] {
        if let Ok(once) = rendered(family, text.to_owned()) {
            let again = rendered(family, once.clone());
            assert!(
                again.is_ok(),
                "{family:?} cannot read its own: {again:?} of {once}"
            );
        }
    }
}
