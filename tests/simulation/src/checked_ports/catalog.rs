use std::sync::Arc;

use api::EC2NodeClass;
use model::{ClusterName, Experience, InstanceType, experience::ZonalShift};
use ports::{Catalog, CloudError};

use super::CheckedPorts;
use crate::planted::Bug;

/// Free instances of a reservation that the planted bug reports: more than any reservation has.
const INSTANCES: u32 = 20;

#[async_trait::async_trait]
impl Catalog for CheckedPorts {
    async fn instance_types(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
        entry: &serde_json::Value,
        experience: &Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        let catalog: &dyn Catalog = &self.sim;
        let mut types = catalog
            .instance_types(cluster, class, entry, experience)
            .await?;
        if self.has(Bug::OvercommitReservations) {
            let instance_types = Arc::make_mut(&mut types).iter_mut();
            for offering in instance_types.flat_map(|instance_type| &mut instance_type.offerings) {
                if let Some(reservation) = &mut offering.reservation {
                    reservation.capacity = INSTANCES;
                    offering.available = true;
                }
            }
        }
        Ok(types)
    }

    async fn zonal_shifts(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        Catalog::zonal_shifts(&self.sim, cluster, entry).await
    }

    async fn price_warnings(&self) -> Vec<String> {
        Catalog::price_warnings(&self.sim).await
    }
}
