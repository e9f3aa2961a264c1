use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Interruption,
    budget::{Api, Priority, TokenBucket},
    ids::LaunchToken,
    interruption::LifecycleHook,
    launch::{FleetRequest, FleetResponse, Instance, InstanceState},
};
use ports::{Cloud, CloudError, Terminations, terminate_each};

use crate::sim::{Sim, World};

#[async_trait]
impl Cloud for Sim {
    async fn ready(&self, _: &FleetRequest) -> Result<(), CloudError> {
        self.neutral_call("ready", |world| {
            world.spend(Api::CreateFleet, "CreateFleet")
        })
        .await
    }

    async fn launch(
        &self,
        request: &FleetRequest,
        not_after: Timestamp,
    ) -> Result<FleetResponse, CloudError> {
        self.changing_call("launch", |world| {
            if world.now > not_after {
                return Err(CloudError::NotSent {
                    action: "CreateFleet".into(),
                    not_after,
                });
            }
            world.account.launch(request, world.now)
        })
        .await
    }

    async fn instances_of_launch(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Vec<Instance>, CloudError> {
        self.neutral_call("instances_of_launch", |world| {
            world.spend(Api::Describe, "DescribeInstances")?;
            let of_launch = |instance: &&Instance| {
                instance.tags.get(api::names::tag::LAUNCH) == Some(&token.0)
                    && is_of(instance, cluster)
            };
            Ok(world
                .account
                .described(world.now)
                .filter(of_launch)
                .cloned()
                .collect())
        })
        .await
    }

    async fn describe_instances(&self, ids: &[InstanceId]) -> Result<Vec<Instance>, CloudError> {
        self.neutral_call("describe_instances", |world| {
            world.spend(Api::Describe, "DescribeInstances")?;
            Ok(world
                .account
                .described(world.now)
                .filter(|instance| ids.contains(&instance.id))
                .cloned()
                .collect())
        })
        .await
    }

    async fn instances_of_reservation(&self, id: &str) -> Result<Vec<Instance>, CloudError> {
        self.neutral_call("instances_of_reservation", |world| {
            world.spend(Api::Describe, "DescribeInstances")?;
            Ok(world
                .account
                .described(world.now)
                .filter(|instance| instance.reservation.as_deref() == Some(id))
                .cloned()
                .collect())
        })
        .await
    }

    async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        self.neutral_call("list_instances", |world| {
            world.spend(Api::Describe, "DescribeInstances")?;
            let listed = |instance: &&Instance| {
                instance.state != InstanceState::Terminated
                    && is_of(instance, cluster)
                    && !world.account.unlisted.contains(&instance.id)
            };
            Ok(world
                .account
                .described(world.now)
                .filter(listed)
                .cloned()
                .collect())
        })
        .await
    }

    async fn troubles(&self, now: Timestamp) -> Result<Vec<Interruption>, CloudError> {
        self.neutral_call("troubles", |world| {
            world.spend(Api::Describe, "DescribeInstanceStatus")?;
            let troubles = world.account.troubles.iter();
            let troubles = troubles.map(|(instance, kind)| Interruption {
                instance: instance.clone(),
                kind: *kind,
                at: Some(now),
                deadline: None,
                hook: None,
                event: String::new(),
                reboots: false,
            });
            Ok(troubles.collect())
        })
        .await
    }

    async fn terminate(&self, cluster: &ClusterName, ids: &[InstanceId]) -> Terminations {
        let call = |ids: Vec<InstanceId>| {
            self.changing_call("terminate", move |world| {
                world.spend(Api::TerminateInstances, "TerminateInstances")?;
                world
                    .account
                    .terminate_instances(cluster, &ids, world.now)
                    .map_err(|refusal| refusal.into_error("TerminateInstances"))
            })
        };
        terminate_each(ids, call).await
    }

    async fn reboot(&self, cluster: &ClusterName, id: &InstanceId) -> Result<(), CloudError> {
        self.changing_call("reboot", |world| {
            world.spend(Api::Mutating, "RebootInstances")?;
            let rebooted = world.account.reboot_instance(cluster, id, world.now);
            rebooted.map_err(|refusal| refusal.into_error("RebootInstances"))
        })
        .await
    }

    async fn knows_instance(&self, id: &InstanceId) -> Result<bool, CloudError> {
        self.neutral_call("knows_instance", |world| {
            world.spend(Api::Describe, "DescribeInstances")?;
            Ok(world.account.instances.contains_key(id))
        })
        .await
    }

    async fn tag(
        &self,
        cluster: &ClusterName,
        id: &InstanceId,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), CloudError> {
        self.changing_call("tag", |world| {
            world.spend(Api::CreateTags, "CreateTags")?;
            let tagged = world.account.tag_instance(cluster, id, tags);
            tagged.map_err(|refusal| refusal.into_error("CreateTags"))
        })
        .await
    }

    async fn complete_hook(&self, id: &InstanceId, _: &LifecycleHook) -> Result<(), CloudError> {
        self.changing_call("complete_hook", |world| {
            world.account.check_hook(id, "CompleteLifecycleAction")?;
            world.account.terminate(id, world.now);
            Ok(())
        })
        .await
    }

    async fn extend_hook(&self, id: &InstanceId, _: &LifecycleHook) -> Result<(), CloudError> {
        self.changing_call("extend_hook", |world| {
            world
                .account
                .check_hook(id, "RecordLifecycleActionHeartbeat")
        })
        .await
    }
}

pub(crate) fn is_of(instance: &Instance, cluster: &ClusterName) -> bool {
    instance.tags.get(api::names::tag::EKS_CLUSTER) == Some(&cluster.0)
}

impl World {
    /// Takes a call out of the account's budget, if calls are budgeted.
    fn spend(&mut self, api: Api, action: &str) -> Result<(), CloudError> {
        if !self.budgeted {
            return Ok(());
        }
        let now = self.now;
        self.ledger.refresh();
        let bucket = self.ledger.buckets.get(&api).cloned();
        let bucket = bucket.unwrap_or_else(|| TokenBucket::full(api, now));
        let (after, draw) = bucket.draw(api, 1, Priority::Provisioning, now);
        self.ledger.buckets.insert(api, after);
        self.ledger.settle();
        match draw.again {
            None => Ok(()),
            Some(until) => Err(CloudError::Postponed {
                action: action.to_owned(),
                until,
            }),
        }
    }
}
