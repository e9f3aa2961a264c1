//! Raw EC2 facts that cases share, and a case's changes to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use api::EC2NodeClass;
use aws_rules::{
    ProviderSettings,
    instance_types::{InstanceTypeInfo, RegionCatalog, ResolveInput, Unavailable, instance_types},
    placement::PlacementGroupFact,
    prices::{SpotPrices, SpotRecord, price, shipped_prices, spot_prices},
};
use jiff::Timestamp;
use model::{InstanceType, experience::MeasuredMemory, ledger::OfferingKey};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::{Value, json};

use crate::catalogs;

/// Answers of EC2, in the format that the AWS CLI prints.
pub(super) struct RegionFacts {
    pub(super) types: BTreeMap<String, InstanceTypeInfo>,
    zones: BTreeMap<String, BTreeSet<String>>,
    spot: SpotPrices,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InstanceTypes {
    instance_types: Vec<InstanceTypeInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TypeOfferings {
    instance_type_offerings: Vec<TypeOffering>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TypeOffering {
    instance_type: String,
    location: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpotHistory {
    spot_price_history: Vec<SpotRecord>,
}

impl RegionFacts {
    pub(super) fn read(folders: &[PathBuf]) -> Result<Self> {
        let types: InstanceTypes = document(folders, "describe-instance-types.json.gz")?;
        let offerings: TypeOfferings = document(folders, "instance-type-offerings.json.gz")?;
        let prices: SpotHistory = document(folders, "spot-prices.json.gz")?;
        let mut facts = Self {
            types: types
                .instance_types
                .into_iter()
                .map(|info| (info.instance_type.clone(), info))
                .collect(),
            zones: BTreeMap::new(),
            spot: spot_prices(prices.spot_price_history),
        };
        for offering in offerings.instance_type_offerings {
            let zones = facts.zones.entry(offering.instance_type).or_default();
            zones.insert(offering.location);
        }
        Ok(facts)
    }
}

fn document<T: DeserializeOwned>(folders: &[PathBuf], name: &str) -> Result<T> {
    let file = folders.iter().map(|folder| folder.join(name));
    let Some(file) = file.into_iter().find(|file| file.exists()) else {
        bail!("{name} is not beside the cases; --data names another folder");
    };
    serde_json::from_reader(catalogs::open(&file)?).with_context(|| file.display().to_string())
}

/// Prices, unavailable offerings, instances and placement groups of a case's simulated account.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AccountState {
    /// No spot prices have been read yet.
    no_spot_prices: bool,
    ice: Vec<String>,
    available_instance_count: BTreeMap<String, u32>,
    zonal_shifts: Vec<ZonalShift>,
    registered_nodes: Vec<RegisteredNode>,
    extra_instance_type_offerings: Vec<TypeOffering>,
    /// `type/zone` → dollars per hour.
    spot_price_overrides: BTreeMap<String, String>,
    placement_groups: Vec<PlacementGroupFact>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ZonalShift {
    away_from: String,
    expires_in_seconds: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredNode {
    instance_type: String,
    #[serde(rename = "imageID")]
    image_id: String,
    memory: String,
}

impl AccountState {
    /// The instance types as resolved through the NodeClass, before any offering is marked unavailable.
    pub(super) fn resolve(
        &self,
        facts: &RegionFacts,
        types: &BTreeSet<String>,
        zones: Option<&[String]>,
        class: &EC2NodeClass,
        settings: &ProviderSettings,
        region: &str,
    ) -> Result<Vec<InstanceType>> {
        let mut offered = facts.zones.clone();
        for extra in &self.extra_instance_type_offerings {
            let zones = offered.entry(extra.instance_type.clone()).or_default();
            zones.insert(extra.location.clone());
        }
        if let Some(zones) = zones {
            for offered in offered.values_mut() {
                offered.retain(|zone| zones.contains(zone));
            }
        }
        let infos = types.iter().filter_map(|name| facts.types.get(name));
        let catalog = RegionCatalog {
            region: region.to_owned(),
            instance_types: infos.cloned().collect(),
            zones: offered,
            on_demand: shipped_prices(region),
            spot: (!self.no_spot_prices).then(|| self.spot(facts)),
        };
        let mut measured_memory: Vec<MeasuredMemory> = Vec::new();
        for node in &self.registered_nodes {
            let memory: model::quantity::Quantity = node.memory.parse()?;
            let (kind, image) = (&node.instance_type, &node.image_id);
            let measured = MeasuredMemory::after(None, kind, image, memory.ceil(), Timestamp::MIN);
            measured_memory.extend(measured);
        }
        let through = ResolveInput {
            node_class: class,
            settings,
            measured_memory: &measured_memory,
            placement_group: self.placement_group(class),
        };
        Ok(instance_types(&catalog, through)?)
    }

    /// The placement group that the NodeClass selects.
    pub(super) fn placement_group(&self, class: &EC2NodeClass) -> Option<&PlacementGroupFact> {
        let selector = class.spec.placement_group_selector.as_ref()?;
        let mut groups = self.placement_groups.iter();
        groups.find(|group| {
            selector.id.as_ref() == Some(&group.group_id)
                || selector.name.as_ref() == Some(&group.group_name)
        })
    }

    fn spot(&self, facts: &RegionFacts) -> SpotPrices {
        let mut spot = facts.spot.clone();
        for (offering, dollars) in &self.spot_price_overrides {
            let Some(price) = price(dollars) else {
                continue;
            };
            match offering.split_once('/') {
                Some((name, zone)) => {
                    let of_type = spot.entry(name.to_owned()).or_default();
                    of_type.insert(zone.to_owned(), price);
                }
                None => spot
                    .values_mut()
                    .flat_map(BTreeMap::values_mut)
                    .for_each(|known| *known = price),
            }
        }
        spot
    }

    /// Offerings that the case declares unavailable.
    pub(super) fn unavailable(&self, class: &EC2NodeClass) -> Unavailable {
        let mut unavailable = Unavailable {
            reservations: self.available_instance_count.clone(),
            ..Unavailable::default()
        };
        for key in &self.ice {
            let parts: Vec<_> = key.splitn(4, ':').collect();
            match (parts.as_slice(), key.parse()) {
                ([capacity_type, instance_type, zone, scope @ ..], _) => {
                    if let Ok(capacity_type) = capacity_type.parse() {
                        unavailable.offerings.insert(OfferingKey {
                            capacity_type,
                            instance_type: (*instance_type).to_owned(),
                            zone_id: zone_id(class, zone),
                            scope: scope.first().map(|scope| (*scope).to_owned()),
                        });
                    }
                }
                (_, Ok(capacity_type)) => {
                    unavailable.capacity_types.insert(capacity_type);
                }
                (_, Err(_)) => {
                    unavailable.subnets.insert(key.clone());
                }
            }
        }
        let shifts = self.zonal_shifts.iter();
        unavailable.zone_ids = shifts
            .filter(|shift| shift.expires_in_seconds > 0)
            .map(|shift| shift.away_from.clone())
            .collect();
        unavailable
    }
}

/// Metadata options of a launch whose spec has none: a stored spec without the API server's defaults turns everything off.
const WITHOUT_DEFAULTS: &str = r#"{"httpEndpoint": "disabled", "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2, "httpTokens": "required"}"#;

/// An EC2NodeClass in a case, without the CRD's defaults. One without metadata is named `default`.
pub(super) fn node_class<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<EC2NodeClass, D::Error> {
    let class = node_class_or_none(deserializer)?;
    class.ok_or_else(|| D::Error::custom("nodeClass is null"))
}

/// Deserializes a [`node_class`], or `None` for cases without one.
pub(super) fn node_class_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<EC2NodeClass>, D::Error> {
    let mut manifest = Value::deserialize(deserializer)?;
    if manifest.is_null() {
        return Ok(None);
    }
    if let Some(fields) = manifest.as_object_mut() {
        fields
            .entry("metadata")
            .or_insert_with(|| json!({"name": "default"}));
    }
    if let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) {
        let absent = serde_json::from_str(WITHOUT_DEFAULTS).map_err(D::Error::custom)?;
        spec.entry("metadataOptions").or_insert(absent);
    }
    serde_json::from_value(manifest)
        .map(Some)
        .map_err(D::Error::custom)
}

/// The id of a zone by the NodeClass's subnets; a zone without an id is its own id.
pub(super) fn zone_id(class: &EC2NodeClass, zone: &str) -> String {
    let subnets = class
        .status
        .iter()
        .flat_map(|status| status.subnets.iter().flatten());
    let mut of_zone = subnets.filter(|subnet| subnet.zone == zone);
    let id = of_zone.find_map(|subnet| subnet.zone_id.clone());
    id.unwrap_or_else(|| zone.to_owned())
}
