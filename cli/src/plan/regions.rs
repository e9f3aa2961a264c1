//! Instance types for manifests: those of the Region whose zones they name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use api::manifests::Object;
use model::{
    InstanceType,
    labels::{REGION, ZONE, ZONE_ID},
    requirement::Requirement,
    selector::Operator,
    spelling::nearest,
};
use serde_json::Value;

use crate::catalogs;

const SHIPPED: &str = "us-east-1";

/// The shipped types, as if the Region of the manifests had them, and what users should know of that.
pub(super) fn types(
    objects: &[Object],
    region: Option<&str>,
) -> Result<(Vec<InstanceType>, Vec<String>)> {
    let shipped = catalogs::us_east_1()?;
    let named = named(objects);
    let mut notes = Vec::new();
    let region = match region {
        Some(region) => known(region)?,
        None => {
            let mut regions: Vec<&String> = named.keys().collect();
            regions.sort_by_key(|region| std::cmp::Reverse(named.get(*region).map(BTreeSet::len)));
            if let [first, _, ..] = regions.as_slice() {
                let all: Vec<&str> = regions.iter().map(|region| region.as_str()).collect();
                notes.push(format!(
                    "the manifests name zones of {}: {first} is planned for, --region chooses another",
                    all.join(" and ")
                ));
            }
            regions.first().map_or(SHIPPED, |region| region.as_str())
        }
    };
    if region == SHIPPED {
        return Ok((shipped, notes));
    }
    notes.push(format!(
        "instance types and prices are those of {SHIPPED}, as if {region} had them: `AWS_REGION={region} whittle catalog` of a build \
         with AWS asks EC2 for its own, and --catalog takes what that prints"
    ));
    let mut zones: BTreeSet<String> = ["a", "b", "c"]
        .map(|letter| format!("{region}{letter}"))
        .into();
    zones.extend(named.get(region).into_iter().flatten().cloned());
    Ok((moved(shipped, region, &zones), notes))
}

/// Zones that stand in manifests, by Region; a Region that stands there by itself has none.
fn named(objects: &[Object]) -> BTreeMap<String, BTreeSet<String>> {
    let mut named = BTreeMap::new();
    for object in objects {
        if let Ok(manifest) = object.to_manifest() {
            walk(&manifest, &mut named);
        }
    }
    named
}

fn walk(value: &Value, named: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::String(text) => {
            let zone = text.strip_suffix(|c: char| c.is_ascii_lowercase());
            if let Some(region) = zone.filter(|region| is_region(region)) {
                named
                    .entry(region.to_owned())
                    .or_default()
                    .insert(text.clone());
            } else if is_region(text) {
                named.entry(text.clone()).or_default();
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, named)),
        Value::Object(fields) => fields.values().for_each(|value| walk(value, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Parts of the world that Regions are named after; each has one or more, with a number.
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

/// The Region, unless it can be none.
fn known(region: &str) -> Result<&str> {
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

/// `eu-west-1`, `us-gov-east-1`.
fn is_region(text: &str) -> bool {
    let parts = text.rsplit_once('-');
    parts.is_some_and(|(place, number)| {
        PLACES.contains(&place) && number.len() == 1 && number.chars().all(|c| c.is_ascii_digit())
    })
}

/// The types with the offerings that zones with the same letters have.
fn moved(types: Vec<InstanceType>, region: &str, zones: &BTreeSet<String>) -> Vec<InstanceType> {
    let letter = |zone: &str| zone.chars().next_back().unwrap_or('a');
    let source = |zone: &str| match letter(zone) {
        known @ 'a'..='f' => format!("{SHIPPED}{known}"),
        _ => format!("{SHIPPED}a"),
    };
    types
        .into_iter()
        .map(|mut kind| {
            let offerings = std::mem::take(&mut kind.offerings);
            for zone in zones {
                let source = source(zone);
                let same = offerings.iter().filter(|offering| offering.zone == source);
                kind.offerings.extend(same.cloned().map(|mut offering| {
                    offering.zone.clone_from(zone);
                    offering.zone_id.clear();
                    offering
                }));
            }
            let offered = kind
                .requirements
                .get(ZONE)
                .map(|zones| zones.values.clone());
            let offered = offered.unwrap_or_default();
            let here = zones
                .iter()
                .filter(|zone| offered.contains(&source(zone)))
                .cloned();
            let here: Vec<String> = here.collect();
            for (key, values) in [(ZONE, here), (REGION, vec![region.to_owned()])] {
                let requirement = Requirement::new(key, Operator::In, values);
                kind.requirements.0.insert(key.to_owned(), requirement);
            }
            kind.requirements.0.remove(ZONE_ID);
            kind
        })
        .filter(|kind| !kind.offerings.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_told_from_other_words() {
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
    fn misspelt_region_is_refused_with_the_nearest_one() {
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
