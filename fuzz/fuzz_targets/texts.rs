//! Fuzz targets of texts that functions read and other programs write: parsing never panics, and a parsed value is
//! equal after a round trip.

#![expect(clippy::expect_used, reason = "a failed round trip is a finding")]

use std::collections::BTreeMap;

use api::{EC2NodeClass, List, NodeClaim, NodePool, Resource, kubernetes};
use aws_rules::{
    ClusterFacts, ProviderSettings, ami,
    cluster::KubernetesVersion,
    families::{Alias, Family},
    interruption,
    user_data::{UserDataInput, render},
};
use jiff::Timestamp;
use model::interruption::StackLocation;
use serde_json::json;

/// Messages of the interruption queue.
pub(crate) fn events(text: &str) {
    let home = StackLocation {
        account: "000000000000".to_owned(),
        region: "us-east-1".to_owned(),
    };
    // Any result is valid; the call must only return.
    let _queue_message = interruption::read(text, &home, Timestamp::UNIX_EPOCH);
    let _older = interruption::message(text);
}

/// Responses of an API server.
pub(crate) fn lists(text: &str) {
    for pod in read::<kubernetes::Pod>(text) {
        let pod = model::pod::Pod::from(pod);
        let written = serde_json::to_string(&pod).expect("pods have text for keys");
        let again: model::pod::Pod = serde_json::from_str(&written).expect("what was written");
        assert_eq!(again, pod);
    }
    for node in read::<kubernetes::Node>(text) {
        let _converted = model::node::Node::from(node);
    }
    for claim in read::<NodeClaim>(text) {
        let _converted = model::node_claim::NodeClaim::from(claim);
    }
    read::<NodePool>(text);
    read::<EC2NodeClass>(text);
}

/// Parses a list, and asserts that each object is equal after a round trip.
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

/// Contents of Parameter Store: registry entries, images, and the parameters that name them.
pub(crate) fn parameters(text: &str) {
    if let Ok(entry) = serde_json::from_str::<serde_json::Value>(text) {
        let _endpoint = turns::endpoint(&entry);
        let read = turns::Entry::read(&entry);
        let settings = entry.get("settings").unwrap_or(&serde_json::Value::Null);
        let of_provider = ProviderSettings::read(settings);
        // Unknown fields of an entry are ignored.
        let mut entry = entry;
        if let Some(entry) = entry.as_object_mut()
            && !entry.contains_key("x")
        {
            entry.insert("x".to_owned(), json!(1));
            if let Some(settings) = entry
                .get_mut("settings")
                .and_then(|settings| settings.as_object_mut())
            {
                settings.entry("x").or_insert(json!(1));
            }
            let settings = entry.get("settings").unwrap_or(&serde_json::Value::Null);
            assert_eq!(ProviderSettings::read(settings), of_provider);
            let again = turns::Entry::read(&serde_json::Value::Object(entry.clone()));
            assert_eq!(again.err(), read.err());
        }
    }
    if let Ok(version) = text.parse::<KubernetesVersion>() {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    if let Some(image) = ami::image_id(text) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(
            image.len() <= 64 && image.chars().all(is_plain),
            "{image:?}"
        );
    }
    let (alias, version) = text.split_once('\n').unwrap_or((text, "1.35"));
    if let (Ok(alias), Ok(version)) = (Alias::parse(alias), version.parse()) {
        for parameter in ami::parameters(&alias, version).unwrap_or_default() {
            assert_parameter_name(&parameter.name);
        }
    }
}

/// Asserts that a parameter name is valid, because Parameter Store answers an invalid name with another error than "not
/// found".
fn assert_parameter_name(name: &str) {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    assert!(name.chars().all(is_allowed), "{name}");
}

/// User data of an EC2NodeClass, in each family.
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
        let boot = UserDataInput {
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
                "{family:?} cannot parse its own output: {again:?} of {once}"
            );
        }
    }
}
