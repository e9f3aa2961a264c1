use std::collections::BTreeMap;

use model::{
    FreeAddresses, InstanceType,
    launch::{FleetAnswer, FleetRequest, LaunchReading, LaunchRefusal, Launched, LaunchedClaim},
    plan::Launch,
};

use crate::EC2NodeClass;

/// Makes launch requests from facts that were gathered before, and says what their answers mean; pure.
pub trait LaunchBuilder: Send + Sync {
    /// The request for one instance of this launch, without a token. Launches with equal requests may share a call.
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
        free_addresses: &FreeAddresses,
    ) -> Result<FleetRequest, LaunchRefusal>;

    /// What CreateFleet's answer means. `zone_ids` knows zones by name.
    fn read(
        &self,
        request: &FleetRequest,
        answer: &FleetAnswer,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> LaunchReading;

    /// Labels, capacity and status of the launch's NodeClaim. `instance_type` is the type that EC2 chose, `reservation` the capacity
    /// reservation that the instance runs in, where EC2 was asked for that.
    fn launched(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_type: &InstanceType,
        launched: &Launched,
        reservation: Option<&str>,
    ) -> LaunchedClaim;

    /// Why a call that EC2 refused as a whole, with this error, gave its NodeClaims nothing.
    fn refused(&self, error: &str) -> LaunchRefusal;
}
