//! Facts that launches are prepared from.

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_rules::{ProviderSettings, launch::Builder};
use model::{ClusterName, FreeAddresses};
use ports::{CloudError, LaunchBuilder, Launches};
use serde_json::Value;

use crate::{Account, errors::refused, filters::filter};

/// Maximum number of values that EC2 accepts in a filter.
const SUBNETS_PER_CALL: usize = 200;

#[async_trait]
impl Launches for Account {
    async fn prepare(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<Box<dyn LaunchBuilder>, CloudError> {
        let settings = entry.get("settings").unwrap_or(&Value::Null);
        let settings = ProviderSettings::read(settings).map_err(|error| CloudError::Invalid {
            action: format!("preparing launches for cluster {cluster}"),
            code: "InvalidConfiguration".to_owned(),
            message: error.to_string(),
        })?;
        Ok(Box::new(Builder {
            cluster: self.facts(cluster, entry).await?,
            settings,
        }))
    }

    async fn free_addresses(
        &self,
        subnets: &BTreeSet<String>,
    ) -> Result<FreeAddresses, CloudError> {
        let mut free = FreeAddresses::default();
        let subnets: Vec<&str> = subnets.iter().map(String::as_str).collect();
        for ids in subnets.chunks(SUBNETS_PER_CALL) {
            // As a filter, so that a deleted subnet is missing from the answer instead of failing the call.
            let call = self.ec2.describe_subnets();
            let call = call.filters(filter("subnet-id", ids.iter().copied()));
            let mut pages = call.into_paginator().items().send();
            while let Some(subnet) = pages.next().await {
                let subnet = subnet.map_err(refused("ec2:DescribeSubnets"))?;
                if let (Some(id), Some(count)) =
                    (subnet.subnet_id, subnet.available_ip_address_count)
                {
                    free.0.insert(id, i64::from(count));
                }
            }
        }
        Ok(free)
    }
}
