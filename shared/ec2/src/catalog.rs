//! What EC2 sells in this Region, read from EC2 and kept while a warm function lives.

mod instance_type;
mod prices;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::EC2NodeClass;
use async_trait::async_trait;
use aws_rules::{
    ProviderSettings,
    instance_types::{RegionCatalog, Through, Unavailable, instance_types},
    prices::Prices,
};
use aws_sdk_ec2::types::LocationType;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, InstanceType, ledger::UnavailableOffering};
use ports::{Catalog, CloudError};
use tokio::sync::Mutex;

use crate::{Account, errors::refused, filters::filter};

/// As upstream: types and prices change slowly (spec/aws §8, §9.8).
const MAX_AGE: SignedDuration = SignedDuration::from_hours(12);
/// EC2's largest pages.
const TYPES_PER_PAGE: i32 = 100;
const OFFERINGS_PER_PAGE: i32 = 1000;

#[derive(Default)]
pub(crate) struct CatalogCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    /// With the time when its types were read.
    catalog: Option<(Timestamp, Arc<RegionCatalog>)>,
    prices: Option<Prices>,
}

#[async_trait]
impl Catalog for Account {
    async fn instance_types(
        &self,
        _cluster: &ClusterName,
        node_class: &EC2NodeClass,
        settings: &serde_json::Value,
        unavailable: &[UnavailableOffering],
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        let settings = ProviderSettings::read(settings)
            .map_err(|error| unusable("the registry entry", error.to_string()))?;
        let (catalog, group, reserved) = futures::try_join!(
            self.catalog(settings.isolated_vpc),
            self.placement_group(node_class),
            self.reservations_in_status(node_class),
        )?;
        let through = Through {
            placement_group: group.as_ref(),
            node_class,
            settings: &settings,
            measured_memory: &BTreeMap::new(),
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
            ..Unavailable::new(unavailable)
        };
        unavailable.mark(&mut types, node_class);
        Ok(Arc::new(types))
    }

    async fn complaints(&self) -> Vec<String> {
        let cached = self.catalog.0.lock().await;
        let prices = cached.prices.as_ref();
        prices.map_or_else(Vec::new, |prices| prices.complaints(self.clock.now()))
    }
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
    pub(crate) async fn catalog(&self, isolated: bool) -> Result<Arc<RegionCatalog>, CloudError> {
        let now = self.clock.now();
        let mut cached = self.catalog.0.lock().await;
        let cached = &mut *cached;
        let prices = cached
            .prices
            .get_or_insert_with(|| Prices::shipped(&self.region));
        let kept = cached.catalog.as_ref();
        let kept = kept.filter(|(read_at, _)| now.duration_since(*read_at) < MAX_AGE);
        if let Some((_, catalog)) = kept
            && !prices.is_due(isolated, now)
        {
            return Ok(Arc::clone(catalog));
        }
        let types = async {
            match kept {
                Some((read_at, catalog)) => Ok((
                    *read_at,
                    catalog.instance_types.clone(),
                    catalog.zones.clone(),
                )),
                None => futures::try_join!(self.instance_type_infos(), self.offered_zones())
                    .map(|(types, zones)| (now, types, zones)),
            }
        };
        let (types, ()) = futures::join!(types, self.renew(prices, isolated, now));
        let (read_at, types, zones) = types?;
        let catalog = Arc::new(RegionCatalog {
            region: self.region.clone(),
            instance_types: types,
            zones,
            on_demand: prices.on_demand.clone(),
            spot: prices.spot.clone(),
        });
        cached.catalog = Some((read_at, Arc::clone(&catalog)));
        Ok(catalog)
    }

    async fn instance_type_infos(
        &self,
    ) -> Result<Vec<aws_rules::instance_types::InstanceTypeInfo>, CloudError> {
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
