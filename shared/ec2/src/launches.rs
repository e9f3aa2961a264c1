//! Launch requests, from facts gathered once a turn, and what their answers mean.

use std::collections::BTreeMap;

use api::EC2NodeClass;
use async_trait::async_trait;
use aws_rules::{
    Claim, ClusterFacts, LaunchInput, LaunchRefusal, ProviderSettings, fleet_request,
    launch::{FreeAddresses, call_refusal, reading},
};
use model::{
    ClusterName, InstanceType,
    launch::{FleetAnswer, FleetRequest, LaunchReading},
    plan::Launch,
};
use ports::{CloudError, LaunchBuilder, Launches};
use serde_json::Value;

use crate::Account;

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
}

struct Builder {
    cluster: ClusterFacts,
    settings: ProviderSettings,
}

impl LaunchBuilder for Builder {
    /// Subnets are taken in the order of the status, which is that of their free addresses.
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
    ) -> Result<FleetRequest, LaunchRefusal> {
        let input = LaunchInput {
            cluster: &self.cluster,
            settings: &self.settings,
            node_class,
            instance_types,
            free_addresses: &FreeAddresses::new(),
        };
        fleet_request(&input, Claim::from(launch))
    }

    fn read(
        &self,
        request: &FleetRequest,
        answer: &FleetAnswer,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> LaunchReading {
        reading(request, answer, |zone| {
            zone_ids.get(zone).copied().unwrap_or(zone).to_owned()
        })
    }

    fn refused(&self, error: &CloudError) -> LaunchRefusal {
        call_refusal(&error.to_string())
    }
}
