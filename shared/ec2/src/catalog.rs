//! Catalog of the instance types that EC2 sells in this Region, read from EC2 and cached while a function is warm.

mod instance_type;
mod resolved;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::EC2NodeClass;
use async_trait::async_trait;
use aws_rules::{
    ProviderSettings,
    instance_types::{InstanceTypeInfo, RegionCatalog, Unavailable},
    prices::Prices,
};
use aws_sdk_ec2::types::LocationType;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Experience, InstanceType, NanosPerHour, experience::ZonalShift};
use ports::{Catalog, CloudError};
use tokio::sync::Mutex;

use self::resolved::Inputs;
pub(crate) use self::resolved::ResolvedTypes;
use crate::{Account, errors::refused, filters::filter};

/// Age at which the catalog is read again, as upstream: types change slowly (docs/spec/aws.md#instance-type-catalog).
const MAX_AGE: SignedDuration = SignedDuration::from_hours(12);
/// EC2's largest page size.
const TYPES_PER_PAGE: i32 = 100;
const OFFERINGS_PER_PAGE: i32 = 1000;

#[derive(Default)]
pub(crate) struct CatalogCache(Mutex<Option<Cached>>);

struct Cached {
    /// Time at which types and zones were read.
    read_at: Timestamp,
    /// Prices in the catalog.
    prices: Arc<Prices>,
    catalog: Arc<RegionCatalog>,
}

#[async_trait]
impl Catalog for Account {
    async fn instance_types(
        &self,
        _cluster: &ClusterName,
        node_class: &EC2NodeClass,
        settings: &serde_json::Value,
        experience: &Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        let settings = ProviderSettings::read(settings)
            .map_err(|error| unusable("the registry entry", error.to_string()))?;
        let (catalog, group, reserved) = futures::try_join!(
            self.catalog(),
            self.placement_group(node_class),
            self.reservations_in_status(node_class),
        )?;
        let left = reserved
            .into_iter()
            .map(|fact| (fact.capacity_reservation_id, fact.available_instance_count));
        let unavailable = Unavailable {
            reservations: left.collect(),
            ..Unavailable::new(experience)
        };
        let inputs = Inputs {
            catalog,
            node_class: node_class.clone(),
            settings,
            measured_memory: experience.memory.clone(),
            placement_group: group,
            unavailable,
        };
        self.resolved.get(inputs).map_err(|error| {
            unusable(
                &format!("EC2NodeClass {}", node_class.metadata.name),
                error.to_string(),
            )
        })
    }

    fn volume_price(&self, node_class: &EC2NodeClass) -> NanosPerHour {
        aws_rules::prices::volume_price(&self.region, &node_class.spec)
    }

    async fn zonal_shifts(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        self.shifts_of(cluster, entry).await
    }

    async fn price_warnings(&self) -> Vec<String> {
        self.price_warnings_at(self.clock.now()).await
    }
}

/// Percentage of the offered types that may be missing in the list of types, which leaves out those for macOS.
const MISSING_PERCENT_MAX: usize = 5;

/// Checks that the list of types is complete. A truncated list would drift the nodes of every type that is missing in it.
fn check_complete(
    types: &[InstanceTypeInfo],
    offered: &BTreeMap<String, BTreeSet<String>>,
) -> Result<(), CloudError> {
    let known: BTreeSet<&str> = types
        .iter()
        .map(|info| info.instance_type.as_str())
        .collect();
    let missing = offered.keys().filter(|name| !known.contains(name.as_str()));
    let missing = missing.count();
    if missing * 100 <= offered.len() * MISSING_PERCENT_MAX {
        return Ok(());
    }
    Err(CloudError::Unknown {
        action: "ec2:DescribeInstanceTypes".to_owned(),
        message: format!(
            "{missing} of {} offered instance types are missing from its answer",
            offered.len()
        ),
    })
}

fn unusable(what: &str, message: String) -> CloudError {
    CloudError::Invalid {
        action: format!("resolving instance types through {what}"),
        code: "InvalidConfiguration".to_owned(),
        message,
    }
}

impl Account {
    /// Returns the catalog, with one reader at a time: a second reader waits for the first one's result instead of querying EC2 too.
    pub(crate) async fn catalog(&self) -> Result<Arc<RegionCatalog>, CloudError> {
        let now = self.clock.now();
        let mut cached = self.catalog.0.lock().await;
        let fresh = |cached: &&Cached| now.duration_since(cached.read_at) < MAX_AGE;
        let (read_at, types, zones, prices) = match cached.as_ref().filter(fresh) {
            Some(known) => {
                let prices = self.prices(now).await;
                if Arc::ptr_eq(&prices, &known.prices) {
                    return Ok(Arc::clone(&known.catalog));
                }
                let catalog = &known.catalog;
                let (types, zones) = (catalog.instance_types.clone(), catalog.zones.clone());
                (known.read_at, types, zones, prices)
            }
            None => {
                let prices = async { Ok(self.prices(now).await) };
                let read =
                    futures::try_join!(self.instance_type_infos(), self.offered_zones(), prices);
                let (types, zones, prices) = read?;
                check_complete(&types, &zones)?;
                (now, types, zones, prices)
            }
        };
        let catalog = Arc::new(RegionCatalog {
            region: self.region.clone(),
            instance_types: types,
            zones,
            on_demand: prices.on_demand.clone(),
            spot: prices.spot.clone(),
        });
        *cached = Some(Cached {
            read_at,
            prices,
            catalog: Arc::clone(&catalog),
        });
        Ok(catalog)
    }

    async fn instance_type_infos(&self) -> Result<Vec<InstanceTypeInfo>, CloudError> {
        let call = self
            .ec2
            .describe_instance_types()
            .max_results(TYPES_PER_PAGE)
            .filters(filter("supported-virtualization-type", ["hvm"]))
            .filters(filter(
                "processor-info.supported-architecture",
                ["x86_64", "arm64"],
            ));
        let mut pages = call.into_paginator().items().send();
        let mut infos = Vec::new();
        while let Some(info) = pages.next().await {
            let info = info.map_err(refused("ec2:DescribeInstanceTypes"))?;
            infos.push(instance_type::info(info));
        }
        infos.sort_by(|a, b| a.instance_type.cmp(&b.instance_type));
        Ok(infos)
    }

    async fn offered_zones(&self) -> Result<BTreeMap<String, BTreeSet<String>>, CloudError> {
        let call = self
            .ec2
            .describe_instance_type_offerings()
            .location_type(LocationType::AvailabilityZone)
            .max_results(OFFERINGS_PER_PAGE);
        let mut pages = call.into_paginator().items().send();
        let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        while let Some(offering) = pages.next().await {
            let offering = offering.map_err(refused("ec2:DescribeInstanceTypeOfferings"))?;
            if let (Some(name), Some(zone)) = (offering.instance_type, offering.location) {
                let of_type = zones.entry(name.as_str().to_owned()).or_default();
                of_type.insert(zone);
            }
        }
        Ok(zones)
    }
}
