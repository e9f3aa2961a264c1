//! Small catalogs by name: `tests/catalogs/<name>.yaml`.

use std::{collections::BTreeMap, fs};

use model::InstanceType;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::shorthand;

/// A catalog of instance types in short form, with equal prices in all zones of a capacity type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalog {
    /// Zones by capacity type.
    zones: BTreeMap<String, Vec<String>>,
    /// Resources reserved on every node (kube-reserved).
    #[serde(default)]
    overhead: BTreeMap<String, Value>,
    types: Vec<CatalogType>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogType {
    name: String,
    #[serde(default = "amd64")]
    arch: String,
    capacity: BTreeMap<String, Value>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Number of EBS volumes that an instance can attach.
    #[serde(default)]
    attaches: Option<u32>,
    /// Price in dollars per hour by capacity type.
    price: BTreeMap<String, f64>,
    /// Capacity reservations by id, with their zone and number of available instances.
    #[serde(default)]
    reservations: BTreeMap<String, (String, u32)>,
}

fn amd64() -> String {
    "amd64".to_owned()
}

/// Instance types of a catalog, with the `unavailable` offerings marked as such. An offering is written
/// `<type> <capacity type> <zone>`, where `*` matches any value.
pub(crate) fn read(name: &str, unavailable: &[String]) -> Result<Vec<InstanceType>, String> {
    let path = format!("{}/../catalogs/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).map_err(|error| format!("catalog {name}: {error}"))?;
    let catalog: Catalog =
        serde_saphyr::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    let mut types = Vec::new();
    for catalog_type in &catalog.types {
        types.push(entry(catalog_type, &catalog, unavailable)?);
    }
    let json = serde_json::to_vec(&types).map_err(|error| error.to_string())?;
    api::convert::catalog_file::read(&json).map_err(|error| format!("catalog {name}: {error}"))
}

fn entry(
    catalog_type: &CatalogType,
    catalog: &Catalog,
    unavailable: &[String],
) -> Result<Value, String> {
    let mut offerings = Vec::new();
    for (capacity_type, price) in &catalog_type.price {
        for zone in catalog.zones.get(capacity_type).into_iter().flatten() {
            offerings.push(json!({
                "capacityType": capacity_type, "zone": zone, "price": price,
                "available": !unavailable.iter().any(|text| matches_offering(text, &catalog_type.name, capacity_type, zone)),
            }));
        }
    }
    for (id, (zone, capacity)) in &catalog_type.reservations {
        let is_full = unavailable
            .iter()
            .any(|text| matches_offering(text, &catalog_type.name, "reserved", zone));
        offerings.push(json!({
            "capacityType": "reserved", "zone": zone, "price": 0.000_001, "available": !is_full,
            "reservationId": id, "reservationCapacity": if is_full { 0 } else { *capacity },
        }));
    }
    let mut zones: Vec<&Value> = offerings
        .iter()
        .filter_map(|offering| offering.get("zone"))
        .collect();
    zones.sort_by_key(|zone| zone.to_string());
    zones.dedup();
    let mut capacity_types: Vec<&Value> = offerings
        .iter()
        .filter_map(|offering| offering.get("capacityType"))
        .collect();
    capacity_types.dedup();
    let family = catalog_type.name.split('.').next().unwrap_or_default();
    let ids: Vec<&String> = catalog_type.reservations.keys().collect();
    let reservation = if ids.is_empty() {
        json!({ "operator": "DoesNotExist" })
    } else {
        json!({ "operator": "In", "values": ids })
    };
    let mut requirements = vec![
        json!({ "key": shorthand::key("instance-type"), "operator": "In", "values": [catalog_type.name] }),
        json!({ "key": shorthand::key("arch"), "operator": "In", "values": [catalog_type.arch] }),
        json!({ "key": shorthand::key("os"), "operator": "In", "values": ["linux"] }),
        json!({ "key": shorthand::key("zone"), "operator": "In", "values": zones }),
        json!({ "key": shorthand::key("capacity-type"), "operator": "In", "values": capacity_types }),
        json!({ "key": shorthand::key("family"), "operator": "In", "values": [family] }),
        json!({ "key": api::names::label::CAPACITY_RESERVATION_ID, "operator": reservation["operator"], "values": reservation.get("values").unwrap_or(&json!([])) }),
    ];
    for (key, value) in &catalog_type.labels {
        requirements
            .push(json!({ "key": shorthand::key(key), "operator": "In", "values": [value] }));
    }
    Ok(json!({
        "name": catalog_type.name, "requirements": requirements, "capacity": catalog_type.capacity,
        "overhead": { "kubeReserved": catalog.overhead }, "offerings": offerings,
        "ebsAttachLimit": catalog_type.attaches,
    }))
}

fn matches_offering(text: &str, name: &str, capacity_type: &str, zone: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.len() == 3
        && words
            .iter()
            .zip([name, capacity_type, zone])
            .all(|(word, value)| *word == "*" || *word == value)
}
