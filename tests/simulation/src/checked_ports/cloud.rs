use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Interruption,
    ids::LaunchToken,
    interruption::LifecycleHook,
    launch::{FleetRequest, FleetResponse, Instance},
};
use ports::{Cloud, CloudError, Terminations};

use super::{CheckedPorts, delegate};
use crate::{act::Act, laws::Laws, planted::Bug};

delegate! {
    Cloud for CheckedPorts, CloudError {
        async fn launch(&self, request: &FleetRequest, not_after: Timestamp) -> Result<FleetResponse, CloudError> {
            let mut request = request.clone();
            if self.has(Bug::ForgetTag) {
                request.tags.remove(api::names::tag::LAUNCH);
            }
            if self.has(Bug::NewTokenEachTime) {
                let nonce = self.sim.look(|world| world.calls.len());
                request.token = LaunchToken(format!("{}-{nonce}", request.token));
            }
            self.check_before(&request.cluster, &Act::Launch(&request));
            let answer = self.sim.launch(&request, not_after).await;
            if let Ok(answer) = &answer {
                self.sim.look(|world| {
                    let learn = |laws: &mut Laws| laws.launched(world, &request, answer);
                    self.laws.with(&request.cluster, learn);
                });
            }
            answer
        }

        async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
            let listed = self.sim.list_instances(cluster).await?;
            Ok(if self.has(Bug::NeverCollect) { Vec::new() } else { listed })
        }

        async fn instances_of_launch(&self, cluster: &ClusterName, token: &LaunchToken) -> Result<Vec<Instance>, CloudError> {
            let found = self.sim.instances_of_launch(cluster, token).await?;
            Ok(if self.has(Bug::NewTokenEachTime) { Vec::new() } else { found })
        }

        async fn terminate(&self, cluster: &ClusterName, ids: &[InstanceId]) -> Terminations {
            let mut ids = ids.to_vec();
            if self.has(Bug::TerminateNeighbour) {
                let neighbour = self.sim.look(|world| {
                    let mut alive = world.account.alive();
                    alive.find(|instance| !ids.contains(&instance.id)).map(|instance| instance.id.clone())
                });
                ids.extend(neighbour);
            }
            self.check_before(cluster, &Act::Terminate(&ids));
            Cloud::terminate(&self.sim, cluster, &ids).await
        }
    }
    fn ready(request: &FleetRequest) -> ();
    fn knows_instance(id: &InstanceId) -> bool;
    fn reboot(cluster: &ClusterName, id: &InstanceId) -> ();
    fn describe_instances(ids: &[InstanceId]) -> Vec<Instance>;
    fn instances_of_reservation(id: &str) -> Vec<Instance>;
    fn troubles(now: Timestamp) -> Vec<Interruption>;
    fn tag(cluster: &ClusterName, id: &InstanceId, tags: &BTreeMap<String, String>) -> ();
    fn complete_hook(id: &InstanceId, hook: &LifecycleHook) -> ();
    fn extend_hook(id: &InstanceId, hook: &LifecycleHook) -> ();
}
