//! Names of Regions and zones in manifests and clusters.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use api::{EC2NodeClass, manifests::Object};
use model::{labels::ZONE, node::Node, spelling::nearest};
use serde_json::Value;

/// Zones by Region; a Region that is named by itself has none.
pub(crate) type Zones = BTreeMap<String, BTreeSet<String>>;

/// Zones that manifests name.
pub(crate) fn of_manifests(objects: &[Object]) -> Zones {
    let mut zones = Zones::new();
    for object in objects {
        if let Ok(manifest) = object.to_manifest() {
            walk(&manifest, &mut zones);
        }
    }
    zones
}

/// Zones of the subnets in the status of EC2NodeClasses, and of nodes.
pub(crate) fn of_cluster<'c>(
    classes: impl IntoIterator<Item = &'c EC2NodeClass>,
    nodes: &[Node],
) -> Zones {
    let mut zones = Zones::new();
    for class in classes {
        let status = class.status.as_ref();
        let subnets = status.and_then(|status| status.subnets.as_ref());
        for subnet in subnets.into_iter().flatten() {
            add(&subnet.zone, &mut zones);
        }
    }
    for node in nodes {
        if let Some(zone) = node.labels.get(ZONE) {
            add(zone, &mut zones);
        }
        add(&node.provider_id, &mut zones);
    }
    zones
}

fn walk(value: &Value, zones: &mut Zones) {
    match value {
        Value::String(text) => add(text, zones),
        Value::Array(items) => items.iter().for_each(|item| walk(item, zones)),
        Value::Object(fields) => fields.values().for_each(|value| walk(value, zones)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Adds the zone or Region in a text, which may be a node's provider id.
fn add(text: &str, zones: &mut Zones) {
    let of_provider = text
        .strip_prefix("aws:///")
        .and_then(|id| id.split('/').next());
    let text = of_provider.unwrap_or(text);
    if let Some(region) = region_of(text) {
        let zones = zones.entry(region.to_owned()).or_default();
        zones.insert(text.to_owned());
    } else if is_region(text) {
        zones.entry(text.to_owned()).or_default();
    }
}

pub(super) fn region_of(zone: &str) -> Option<&str> {
    let region = zone.strip_suffix(|c: char| c.is_ascii_lowercase());
    region.filter(|region| is_region(region))
}

/// Geographic parts of Region names; a name has one or more, and a number.
const PLACES: [&str; 32] = [
    "af-south",
    "ap-east",
    "ap-northeast",
    "ap-south",
    "ap-southeast",
    "ca-central",
    "ca-west",
    "cn-north",
    "cn-northwest",
    "eu-central",
    "eu-isoe-west",
    "eu-north",
    "eu-south",
    "eu-west",
    "eusc-de-east",
    "il-central",
    "me-central",
    "me-south",
    "me-west",
    "mx-central",
    "sa-east",
    "sa-west",
    "us-east",
    "us-gov-east",
    "us-gov-west",
    "us-iso-east",
    "us-iso-west",
    "us-isob-east",
    "us-isob-west",
    "us-isof-east",
    "us-isof-south",
    "us-west",
];

/// The Region, unless no Region can have this name.
pub(super) fn known(region: &str) -> Result<&str> {
    if is_region(region) {
        return Ok(region);
    }
    let (place, number) = region.rsplit_once('-').unwrap_or((region, ""));
    let number = match number.len() {
        1 => number,
        _ => "1",
    };
    let meant = nearest(place, PLACES).map(|place| format!(" (did you mean {place}-{number}?)"));
    bail!(
        "there is no Region {region}{}: of one that this version does not know, --catalog takes the instance types",
        meant.unwrap_or_default()
    )
}

/// Whether a text has the form of a Region: `eu-west-1`, `us-gov-east-1`.
fn is_region(text: &str) -> bool {
    let parts = text.rsplit_once('-');
    parts.is_some_and(|(place, number)| {
        PLACES.contains(&place) && number.len() == 1 && number.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_recognized() {
        for region in [
            "us-east-1",
            "eu-central-2",
            "us-gov-west-1",
            "ap-southeast-7",
            "cn-north-1",
        ] {
            assert!(is_region(region), "{region}");
        }
        for word in [
            "us-east-1a",
            "my-app-1",
            "us-1",
            "eu-cental-1",
            "eu-west-10",
            "us-east-1-bos-1a",
            "",
        ] {
            assert!(!is_region(word), "{word}");
        }
    }

    #[test]
    fn misspelt_region_is_refused_with_the_nearest_name() {
        for (word, meant) in [
            ("eu-cental-1", "(did you mean eu-central-1?)"),
            ("ap-sotheast-2", "(did you mean ap-southeast-2?)"),
            ("us-east", "no Region us-east"),
            ("frankfurt", "no Region frankfurt:"),
        ] {
            let refused = known(word).unwrap_err().to_string();
            assert!(refused.contains(meant), "{refused}");
        }
        assert_eq!(known("ap-southeast-8").unwrap(), "ap-southeast-8");
    }
}
