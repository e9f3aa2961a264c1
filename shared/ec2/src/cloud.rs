//! Instances: launching, describing, tagging and terminating them.

mod fleet;
mod hooks;
mod instance;
mod status;
pub(crate) mod templates;

use std::collections::BTreeMap;

use api::names::tag;
use async_trait::async_trait;
use aws_sdk_ec2::types::Filter;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Interruption,
    budget::Api,
    ids::LaunchToken,
    interruption::LifecycleHook,
    launch::{FleetRequest, FleetResponse, Instance},
};
use ports::{Cloud, CloudError, Terminations, terminate_each};

use crate::{
    Account,
    errors::refused,
    filters::{filter, tags},
};

/// Maximum number of values that EC2 accepts in a filter.
const IDS_PER_CALL: usize = 200;
const _: () = assert!(IDS_PER_CALL <= ports::limits::ec2::INSTANCE_IDS);
/// EC2's largest page size of instances.
const PAGE: i32 = 1000;
/// States of an instance that serves or has just stopped serving; terminated instances stay listed for an hour.
const NOT_TERMINATED: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];

#[async_trait]
impl Cloud for Account {
    async fn ready(&self, request: &FleetRequest) -> Result<(), CloudError> {
        let ec2 = self.ec2_of(&request.cluster).await;
        templates::ensure(&ec2, request).await?;
        self.hold(Api::CreateFleet, fleet::ACTION).await
    }

    async fn launch(
        &self,
        request: &FleetRequest,
        not_after: Timestamp,
    ) -> Result<FleetResponse, CloudError> {
        fleet::launch(self, request, not_after).await
    }

    async fn instances_of_launch(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Vec<Instance>, CloudError> {
        self.instances(vec![
            filter(&format!("tag:{}", tag::LAUNCH), [token.as_str()]),
            of_cluster(cluster),
        ])
        .await
    }

    async fn describe_instances(&self, ids: &[InstanceId]) -> Result<Vec<Instance>, CloudError> {
        let mut instances = Vec::new();
        for ids in ids.chunks(IDS_PER_CALL) {
            // As a filter, so that an unknown id is missing from the answer instead of failing the call.
            let by_id = filter("instance-id", ids.iter().map(InstanceId::as_str));
            instances.extend(self.instances(vec![by_id]).await?);
        }
        Ok(instances)
    }

    async fn instances_of_reservation(&self, id: &str) -> Result<Vec<Instance>, CloudError> {
        self.instances(vec![filter("capacity-reservation-id", [id])])
            .await
    }

    async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        self.instances(vec![
            filter("tag-key", [tag::NODE_POOL]),
            filter("tag-key", [tag::EC2_NODE_CLASS]),
            of_cluster(cluster),
            filter("instance-state-name", NOT_TERMINATED),
        ])
        .await
    }

    async fn troubles(&self, now: Timestamp) -> Result<Vec<Interruption>, CloudError> {
        status::troubles(&self.ec2, now).await
    }

    async fn terminate(&self, cluster: &ClusterName, ids: &[InstanceId]) -> Terminations {
        let ec2 = self.ec2_of(cluster).await;
        terminate_each(ids, |ids| terminate(&ec2, ids)).await
    }

    async fn reboot(&self, cluster: &ClusterName, id: &InstanceId) -> Result<(), CloudError> {
        let ec2 = self.ec2_of(cluster).await;
        let call = ec2.reboot_instances().instance_ids(id.as_str());
        call.send().await.map_err(refused("ec2:RebootInstances"))?;
        Ok(())
    }

    async fn knows_instance(&self, id: &InstanceId) -> Result<bool, CloudError> {
        let call = self.ec2.describe_instances().instance_ids(id.as_str());
        match call.send().await.map_err(refused("ec2:DescribeInstances")) {
            Ok(_) => Ok(true),
            Err(CloudError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn tag(
        &self,
        cluster: &ClusterName,
        id: &InstanceId,
        wanted: &BTreeMap<String, String>,
    ) -> Result<(), CloudError> {
        let ec2 = self.ec2_of(cluster).await;
        let call = ec2
            .create_tags()
            .resources(id.as_str())
            .set_tags(Some(tags(wanted)));
        call.send().await.map_err(refused("ec2:CreateTags"))?;
        Ok(())
    }

    async fn complete_hook(&self, id: &InstanceId, hook: &LifecycleHook) -> Result<(), CloudError> {
        hooks::complete(&self.autoscaling, id, hook).await
    }

    async fn extend_hook(&self, id: &InstanceId, hook: &LifecycleHook) -> Result<(), CloudError> {
        hooks::extend(&self.autoscaling, id, hook).await
    }
}

async fn terminate(ec2: &aws_sdk_ec2::Client, ids: Vec<InstanceId>) -> Result<(), CloudError> {
    let ids = ids.into_iter().map(|id| id.0).collect();
    let call = ec2.terminate_instances().set_instance_ids(Some(ids));
    call.send()
        .await
        .map_err(refused("ec2:TerminateInstances"))?;
    Ok(())
}

fn of_cluster(cluster: &ClusterName) -> Filter {
    filter(&format!("tag:{}", tag::EKS_CLUSTER), [cluster.as_str()])
}

impl Account {
    /// Reads every page, or fails. A description without an id or a type cannot be an instance of ours and is skipped.
    async fn instances(&self, filters: Vec<Filter>) -> Result<Vec<Instance>, CloudError> {
        let call = self.ec2.describe_instances().set_filters(Some(filters));
        let mut pages = call.max_results(PAGE).into_paginator().send();
        let mut instances = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(refused("ec2:DescribeInstances"))?;
            let described = page.reservations.unwrap_or_default().into_iter();
            let described =
                described.flat_map(|reservation| reservation.instances.unwrap_or_default());
            instances.extend(described.filter_map(instance::instance));
        }
        instances.sort_by(|a: &Instance, b| a.id.cmp(&b.id));
        Ok(instances)
    }
}
