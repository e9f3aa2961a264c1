use std::collections::BTreeMap;

use api::{EC2NodeClass, LaunchBuilder};
use model::{
    FreeAddresses, InstanceType,
    launch::{FleetAnswer, FleetRequest, LaunchReading, LaunchRefusal},
    plan::Launch,
};

use super::{Claim, LaunchInput, call_refusal, fleet_request, reading};
use crate::{ClusterFacts, ProviderSettings};

/// What all launches of one turn depend on.
#[derive(Clone, Debug)]
pub struct Builder {
    pub cluster: ClusterFacts,
    pub settings: ProviderSettings,
}

impl LaunchBuilder for Builder {
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
        free_addresses: &FreeAddresses,
    ) -> Result<FleetRequest, LaunchRefusal> {
        let input = LaunchInput {
            cluster: &self.cluster,
            settings: &self.settings,
            node_class,
            instance_types,
            free_addresses,
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

    fn refused(&self, error: &str) -> LaunchRefusal {
        call_refusal(error)
    }
}
