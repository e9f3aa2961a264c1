//! Instance types in a file: a JSON list with Kubernetes quantities and dollar prices, for `whittle plan --catalog` and
//! the conformance tests.

use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, Resources,
    catalog::{Overhead, Reservation},
    devices::Device,
    quantity::QuantityError,
    requirement::{Requirement, Requirements},
};
use serde::Deserialize;
use thiserror::Error;

use super::selector;
use crate::karpenter;
use crate::quantity::ResourceList;

#[derive(Debug, Error)]
pub enum CatalogError {
    #[error("the catalog is not a JSON list of instance types: at {path}")]
    Format {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("instance type \"{instance_type}\": {field}.{resource} is not an amount")]
    Amount {
        instance_type: String,
        field: &'static str,
        resource: String,
        #[source]
        source: QuantityError,
    },
    #[error("instance type \"{instance_type}\": {problem}")]
    Value {
        instance_type: String,
        problem: String,
    },
}

/// An instance type in the file's format.
#[derive(Clone, Debug, Deserialize)]
pub struct CatalogEntry {
    name: String,
    #[serde(default)]
    requirements: Vec<karpenter::Requirement>,
    capacity: ResourceList,
    #[serde(default)]
    overhead: OverheadEntry,
    offerings: Vec<OfferingEntry>,
    #[serde(default, rename = "ebsAttachLimit")]
    ebs_attach_limit: Option<u32>,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OverheadEntry {
    kube_reserved: ResourceList,
    system_reserved: ResourceList,
    eviction_threshold: ResourceList,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfferingEntry {
    capacity_type: String,
    zone: String,
    #[serde(default)]
    zone_id: Option<String>,
    price: f64,
    #[serde(default = "available")]
    available: bool,
    /// Whether only a missing price makes the offering unavailable.
    #[serde(default)]
    unpriced: bool,
    #[serde(default)]
    reservation_id: Option<String>,
    #[serde(default)]
    reservation_capacity: Option<u32>,
}

fn available() -> bool {
    true
}

/// Parses a whole file. A single invalid entry is an error, because omitting a type would silently change what is
/// launched.
pub fn read(json: &[u8]) -> Result<Vec<InstanceType>, CatalogError> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let entries: Vec<CatalogEntry> =
        serde_path_to_error::deserialize(&mut json).map_err(|error| CatalogError::Format {
            path: error.path().to_string(),
            source: error.into_inner(),
        })?;
    entries.into_iter().map(InstanceType::try_from).collect()
}

impl TryFrom<CatalogEntry> for InstanceType {
    type Error = CatalogError;

    fn try_from(entry: CatalogEntry) -> Result<Self, CatalogError> {
        let CatalogEntry {
            name,
            requirements,
            capacity,
            overhead,
            offerings,
            ebs_attach_limit,
            devices,
        } = entry;
        let bad_value = |problem: String| CatalogError::Value {
            instance_type: name.clone(),
            problem,
        };
        let amounts =
            |field: &'static str, list: ResourceList| -> Result<Resources, CatalogError> {
                let mut amounts = Resources::default();
                for (resource, quantity) in list {
                    amounts
                        .set_quantity(&resource, quantity.as_str())
                        .map_err(|source| CatalogError::Amount {
                            instance_type: name.clone(),
                            field,
                            resource,
                            source,
                        })?;
                }
                Ok(amounts)
            };

        let mut of_type = Requirements::default();
        for entry in requirements {
            let (key, operator) = (entry.key.clone(), entry.operator.clone());
            let entry = selector::requirement(entry).ok_or_else(|| {
                bad_value(format!(
                    "requirement {key}: \"{operator}\" is not an operator"
                ))
            })?;
            of_type.add(Requirement::from(&entry));
        }
        Ok(Self {
            ebs_attach_limit,
            devices,
            requirements: of_type,
            capacity: amounts("capacity", capacity)?,
            overhead: Overhead {
                kube_reserved: amounts("overhead.kubeReserved", overhead.kube_reserved)?,
                system_reserved: amounts("overhead.systemReserved", overhead.system_reserved)?,
                eviction_threshold: amounts(
                    "overhead.evictionThreshold",
                    overhead.eviction_threshold,
                )?,
            },
            offerings: offerings
                .into_iter()
                .map(|entry| offering(entry).map_err(&bad_value))
                .collect::<Result<_, _>>()?,
            name,
        })
    }
}

fn offering(entry: OfferingEntry) -> Result<Offering, String> {
    let capacity_type: CapacityType = entry
        .capacity_type
        .parse()
        .map_err(|error: model::catalog::UnknownCapacityType| error.to_string())?;
    Ok(Offering {
        capacity_type,
        price: nanos_per_hour(entry.price)
            .ok_or_else(|| format!("price {} is not an amount of dollars per hour", entry.price))?,
        zone: entry.zone,
        zone_id: entry.zone_id.unwrap_or_default(),
        available: entry.available,
        unpriced: entry.unpriced,
        reservation: entry.reservation_id.map(|id| Reservation {
            id,
            capacity: entry.reservation_capacity.unwrap_or(0),
            is_full: false,
        }),
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    })
}

/// Converts dollars to billionths, rounding to the nearest. Lossless, because prices have at most nine decimals.
fn nanos_per_hour(dollars: f64) -> Option<NanosPerHour> {
    const DEAREST: f64 = 1e9;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "bounded: 1e9 dollars are 1e18 nano-dollars, which i64 holds"
    )]
    (0.0..=DEAREST)
        .contains(&dollars)
        .then(|| NanosPerHour((dollars * 1e9).round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const M5_LARGE: &str = r#"[{"name": "m5.large",
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "capacity": {"cpu": "2", "memory": "7577Mi", "pods": "29"},
        "overhead": {"kubeReserved": {"cpu": "70m"}, "systemReserved": {}, "evictionThreshold": {"memory": "100Mi"}},
        "offerings": [{"capacityType": "spot", "zone": "us-east-1a", "zoneId": "use1-az1", "price": 0.031209,
                       "available": true, "reservationId": null, "reservationCapacity": null}]}]"#;

    #[test]
    fn instance_type_parses_exactly() {
        let types = read(M5_LARGE.as_bytes()).unwrap();
        let [m5_large] = types.as_slice() else {
            panic!("{types:?}")
        };
        assert_eq!(
            m5_large.allocatable(),
            Resources::from([
                ("cpu", 1_930),
                ("memory", 7_477 * 1024 * 1024),
                ("pods", 29)
            ])
        );
        let offering = &m5_large.offerings[0];
        assert_eq!(
            (offering.capacity_type, offering.price),
            (CapacityType::Spot, NanosPerHour(31_209_000))
        );
        assert_eq!(
            (offering.zone_id.as_str(), &offering.reservation),
            ("use1-az1", &None)
        );
        assert!(
            m5_large
                .requirements
                .get("kubernetes.io/arch")
                .is_some_and(|arch| arch.has("amd64"))
        );
    }

    #[test]
    fn invalid_entries_are_named() {
        for (from, to, expected) in [
            (
                r#""cpu": "2""#,
                r#""cpu": "two""#,
                "instance type \"m5.large\": capacity.cpu is not an amount",
            ),
            (
                "\"spot\"",
                "\"sport\"",
                "instance type \"m5.large\": \"sport\" is not a capacity type: expected reserved, spot or on-demand",
            ),
            (
                "0.031209",
                "-1",
                "instance type \"m5.large\": price -1 is not an amount of dollars per hour",
            ),
            (
                "\"In\"",
                "\"Is\"",
                "instance type \"m5.large\": requirement kubernetes.io/arch: \"Is\" is not an operator",
            ),
            (
                "0.031209",
                "\"cheap\"",
                "the catalog is not a JSON list of instance types: at [0].offerings[0].price",
            ),
        ] {
            let error = read(M5_LARGE.replace(from, to).as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
