use std::collections::BTreeMap;

use model::{
    FreeAddresses, InstanceType,
    launch::{FleetOutcome, FleetRequest, FleetResponse, LaunchRefusal, Launched, LaunchedClaim},
    plan::Launch,
};

use crate::EC2NodeClass;

/// Builds launch requests from prefetched facts, and interprets the responses; pure.
pub trait LaunchBuilder: Send + Sync {
    /// The request for one instance of this launch, without a token. Launches with equal requests may share a call.
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
        free_addresses: &FreeAddresses,
    ) -> Result<FleetRequest, LaunchRefusal>;

    /// Interprets CreateFleet's response. `zone_ids` maps zone names to ids.
    fn read(
        &self,
        request: &FleetRequest,
        answer: &FleetResponse,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> FleetOutcome;

    /// Labels, capacity and status of the launch's NodeClaim. `instance_type` is the type that EC2 chose; `reservation`
    /// is the capacity reservation of the instance, if the request targeted one.
    fn launched(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_type: &InstanceType,
        launched: &Launched,
        reservation: Option<&str>,
    ) -> LaunchedClaim;

    /// The refusal for the NodeClaims of a call that EC2 refused as a whole with this error.
    fn refused(&self, error: &str) -> LaunchRefusal;
}
