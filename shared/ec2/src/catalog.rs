//! What EC2 sells in this Region, read from EC2 and kept while a warm function lives.

mod instance_type;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::EC2NodeClass;
use async_trait::async_trait;
use aws_rules::{
    ProviderSettings,
    instance_types::{InstanceTypeInfo, RegionCatalog, Through, Unavailable, instance_types},
    prices::{price, shipped_prices},
};
use aws_sdk_ec2::types::LocationType;
use aws_smithy_types::DateTime;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Experience, InstanceType, NanosPerHour, experience::ZonalShift};
use ports::{Catalog, CloudError};
use tokio::sync::Mutex;

use crate::{Account, errors::refused, filters::filter};

/// As upstream: types and prices change slowly (spec/aws §8, §9.8).
const MAX_AGE: SignedDuration = SignedDuration::from_hours(12);
/// EC2's largest pages.
const TYPES_PER_PAGE: i32 = 100;
const OFFERINGS_PER_PAGE: i32 = 1000;
const PRICES_PER_PAGE: i32 = 1000;
const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

#[derive(Default)]
pub(crate) struct CatalogCache(Mutex<Option<(Timestamp, Arc<RegionCatalog>)>>);

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
        let through = Through {
            placement_group: group.as_ref(),
            node_class,
            settings: &settings,
            measured_memory: &experience.memory,
        };
        let mut types = instance_types(&catalog, through).map_err(|error| {
            unusable(
                &format!("EC2NodeClass {}", node_class.metadata.name),
                error.to_string(),
            )
        })?;
        let left = reserved
            .into_iter()
            .map(|fact| (fact.capacity_reservation_id, fact.available_instance_count));
        let unavailable = Unavailable {
            reservations: left.collect(),
            ..Unavailable::new(experience)
        };
        unavailable.mark(&mut types, node_class);
        Ok(Arc::new(types))
    }

    async fn zonal_shifts(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        self.shifts_of(cluster, entry).await
    }
}

/// Of a hundred types that are offered so many may be missing from the list of types: it leaves out those for macOS.
const MISSING_PER_CENT: usize = 5;

/// A list that broke off would drift the nodes of every type that it lacks.
fn whole(
    types: &[InstanceTypeInfo],
    offered: &BTreeMap<String, BTreeSet<String>>,
) -> Result<(), CloudError> {
    let known: BTreeSet<&str> = types
        .iter()
        .map(|info| info.instance_type.as_str())
        .collect();
    let missing = offered.keys().filter(|name| !known.contains(name.as_str()));
    let missing = missing.count();
    if missing * 100 <= offered.len() * MISSING_PER_CENT {
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
    /// One reader at a time: a second one waits for the first one's answer instead of asking EC2 too.
    pub(crate) async fn catalog(&self) -> Result<Arc<RegionCatalog>, CloudError> {
        let now = self.clock.now();
        let mut cached = self.catalog.0.lock().await;
        if let Some((read_at, catalog)) = &*cached
            && now.duration_since(*read_at) < MAX_AGE
        {
            return Ok(Arc::clone(catalog));
        }
        let catalog = Arc::new(self.read_catalog(now).await?);
        *cached = Some((now, Arc::clone(&catalog)));
        Ok(catalog)
    }

    async fn read_catalog(&self, now: Timestamp) -> Result<RegionCatalog, CloudError> {
        let (types, zones, spot) = futures::try_join!(
            self.instance_type_infos(),
            self.offered_zones(),
            self.spot_prices(now)
        )?;
        whole(&types, &zones)?;
        Ok(RegionCatalog {
            region: self.region.clone(),
            instance_types: types,
            zones,
            on_demand: shipped_prices(&self.region),
            spot,
        })
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

    /// `None` when EC2 answered nothing: then on-demand prices stand in.
    async fn spot_prices(
        &self,
        now: Timestamp,
    ) -> Result<Option<BTreeMap<String, BTreeMap<String, NanosPerHour>>>, CloudError> {
        let call = self
            .ec2
            .describe_spot_price_history()
            .set_product_descriptions(Some(SPOT_PRODUCTS.map(str::to_owned).to_vec()))
            .start_time(DateTime::from_secs(now.as_second()))
            .max_results(PRICES_PER_PAGE);
        let mut pages = call.into_paginator().items().send();
        let mut prices: BTreeMap<String, BTreeMap<String, NanosPerHour>> = BTreeMap::new();
        while let Some(record) = pages.next().await {
            let record = record.map_err(refused("ec2:DescribeSpotPriceHistory"))?;
            let amount = record.spot_price.as_deref().and_then(price);
            if let (Some(name), Some(zone), Some(price)) =
                (record.instance_type, record.availability_zone, amount)
            {
                let of_type = prices.entry(name.as_str().to_owned()).or_default();
                of_type.insert(zone, price);
            }
        }
        Ok((!prices.is_empty()).then_some(prices))
    }
}
