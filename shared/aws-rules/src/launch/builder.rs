use std::collections::BTreeMap;

use api::{EC2NodeClass, LaunchBuilder, names::label};
use model::{
    FreeAddresses, InstanceType,
    launch::{FleetOutcome, FleetRequest, FleetResponse, LaunchRefusal, Launched, LaunchedClaim},
    plan::Launch,
};

use super::{Claim, LaunchInput, call_refusal, fleet_request, launched_claim, reading};
use crate::{ClusterFacts, ProviderSettings};

/// Inputs that all launches of one turn share.
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
        answer: &FleetResponse,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> FleetOutcome {
        reading(request, answer, |zone| {
            zone_ids.get(zone).copied().unwrap_or(zone).to_owned()
        })
    }

    /// The launched NodeClaim, without a partition that EC2 chose: only EC2 knows which.
    fn launched(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_type: &InstanceType,
        launched: &Launched,
        reservation: Option<&str>,
    ) -> LaunchedClaim {
        let claim = Claim::from(launch);
        let mut shown = match reservation {
            None => launched_claim(node_class, claim, instance_type, launched),
            Some(id) => {
                let mut known = instance_type.clone();
                let is_of = |own: &model::catalog::Reservation| own.id == id;
                known
                    .offerings
                    .retain(|offering| offering.reservation.as_ref().is_none_or(is_of));
                launched_claim(node_class, claim, &known, launched)
            }
        };
        let is_unknown = |key: &String, value: &String| {
            key == label::PLACEMENT_GROUP_PARTITION && value.is_empty()
        };
        shown.labels.retain(|key, value| !is_unknown(key, value));
        shown
    }

    fn refused(&self, error: &str) -> LaunchRefusal {
        call_refusal(error)
    }
}
