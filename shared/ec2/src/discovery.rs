//! Discovery of the resources that a NodeClass selects: subnets, security groups, images and its instance profile.

mod capacity;
mod dry_run;
mod images;
mod profile;

pub(crate) use dry_run::ValidationCache;
pub(crate) use profile::ProfileCache;

use std::collections::BTreeMap;

use api::{EC2NodeClass, karpenter::SecurityGroup};
use async_trait::async_trait;
use aws_rules::{
    ClusterFacts, ProviderSettings,
    node_class::{
        Discovered, Discovery, STATIC_HASH_VERSION, StatusInput, SubnetFact, Verdict, draft,
        drift_of_instance, reservations, security_group_queries, static_hash, subnet_queries,
    },
};
use jiff::Timestamp;
use model::{
    ClusterName, InstanceType, launch::Instance, node_claim::NodeClaim, node_pool::NodePool,
};
use ports::{CloudError, NodeClassResolver, Resolved, StaticHash};
use serde_json::Value;

use crate::{Account, errors::refused, filters::filters};
use dry_run::DryRunInput;

/// EC2's largest page size.
const PAGE: i32 = 500;

#[async_trait]
impl NodeClassResolver for Account {
    async fn resolve(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        node_pools: &[NodePool],
        now: Timestamp,
    ) -> Result<Resolved, CloudError> {
        let entry = self.registered(cluster).await?;
        let facts = self.facts(cluster, &entry).await?;
        let settings = ProviderSettings::read(entry.get("settings").unwrap_or(&Value::Null))
            .map_err(|error| CloudError::Invalid {
                action: format!("resolving EC2NodeClass {}", node_class.metadata.name),
                code: "InvalidConfiguration".to_owned(),
                message: error.to_string(),
            })?;
        let (catalog, subnets, security_groups, amis, instance_profile, reserved, group) = futures::join!(
            self.catalog(),
            self.subnets(node_class),
            self.security_groups(node_class),
            self.images(node_class, &facts, now),
            self.instance_profile(cluster, node_class),
            self.capacity_reservations(node_class),
            self.placement_group(node_class),
        );
        let placement_group = group.as_ref().ok().and_then(Clone::clone);
        let discovered = Discovered {
            subnets: discovery(subnets)?,
            security_groups: discovery(security_groups)?,
            amis: amis?,
            instance_profile: discovery(instance_profile)?,
            capacity_reservations: discovery(reserved.map(|facts| reservations(&facts, now)))?,
            placement_group: match group {
                Ok(group) => Discovery::Found(group),
                Err(postponed @ CloudError::Postponed { .. }) => return Err(postponed),
                Err(error) => Discovery::Refused {
                    reason: "PlacementGroupResolutionFailed",
                    message: error.to_string(),
                },
            },
        };
        let types = catalog
            .as_ref()
            .map(|catalog| catalog.instance_types.as_slice());
        let known = StatusInput {
            cluster: &facts,
            settings: &settings,
            instance_types: types.unwrap_or_default(),
        };
        let draft = draft(node_class, discovered, known, now);
        let verdict = match &catalog {
            Ok(catalog) if draft.may_launch() => {
                let trying = DryRunInput {
                    cluster: &facts,
                    settings: &settings,
                    catalog,
                    placement_group: placement_group.as_ref(),
                    node_pools,
                };
                self.verdict(&draft.class, trying, now).await?
            }
            Ok(_) => Verdict::Passed,
            Err(postponed @ CloudError::Postponed { .. }) => return Err(postponed.clone()),
            Err(error) => Verdict::Unanswered {
                message: error.to_string(),
            },
        };
        Ok(Resolved {
            warnings: draft.warnings.clone(),
            status: draft.judged(verdict),
            hash: hash(node_class, &facts),
        })
    }

    fn drift(
        &self,
        node_class: &EC2NodeClass,
        types: &[InstanceType],
        claim: &NodeClaim,
        instance: Option<&Instance>,
    ) -> Result<Option<String>, String> {
        drift_of_instance(node_class, types, claim, instance).map_err(|unknown| unknown.to_string())
    }

    async fn release(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
    ) -> Result<(), CloudError> {
        self.release_profiles(cluster, node_class).await?;
        self.release_templates(cluster, node_class).await
    }
}

/// The static hash. A NodeClass without a valid family has none, and its conditions report that.
fn hash(class: &EC2NodeClass, cluster: &ClusterFacts) -> Option<StaticHash> {
    let hash = static_hash(class, &cluster.certificate_authority).ok()?;
    Some(StaticHash {
        hash,
        version: STATIC_HASH_VERSION,
    })
}

/// Converts a failed query: resources found earlier stay valid, and the condition reports the failure.
fn discovery<T>(answer: Result<T, CloudError>) -> Result<Discovery<T>, CloudError> {
    match answer {
        Ok(found) => Ok(Discovery::Found(found)),
        // AWS was not queried, so there is no failure to report.
        Err(postponed @ CloudError::Postponed { .. }) => Err(postponed),
        Err(error) => Ok(Discovery::Unanswered {
            message: error.to_string(),
        }),
    }
}

impl Account {
    pub(crate) async fn subnets(
        &self,
        class: &EC2NodeClass,
    ) -> Result<Vec<SubnetFact>, CloudError> {
        let mut found = BTreeMap::new();
        for query in subnet_queries(&class.spec.subnet_selector_terms) {
            let call = self
                .ec2
                .describe_subnets()
                .set_filters(Some(filters(&query)))
                .max_results(PAGE);
            let mut pages = call.into_paginator().items().send();
            while let Some(subnet) = pages.next().await {
                let subnet = subnet.map_err(refused("ec2:DescribeSubnets"))?;
                if let (Some(id), Some(zone)) = (subnet.subnet_id, subnet.availability_zone) {
                    let fact = SubnetFact {
                        id: id.clone(),
                        zone,
                        zone_id: subnet.availability_zone_id,
                        free_addresses: i64::from(subnet.available_ip_address_count.unwrap_or(0)),
                    };
                    found.insert(id, fact);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    pub(crate) async fn security_groups(
        &self,
        class: &EC2NodeClass,
    ) -> Result<Vec<SecurityGroup>, CloudError> {
        let mut found = BTreeMap::new();
        for query in security_group_queries(&class.spec.security_group_selector_terms) {
            let call = self
                .ec2
                .describe_security_groups()
                .set_filters(Some(filters(&query)))
                .max_results(PAGE);
            let mut pages = call.into_paginator().items().send();
            while let Some(group) = pages.next().await {
                let group = group.map_err(refused("ec2:DescribeSecurityGroups"))?;
                if let Some(id) = group.group_id {
                    let name = group.group_name;
                    found.insert(id.clone(), SecurityGroup { id, name });
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Deletes the launch templates of a NodeClass that is being deleted; its name is in their tags.
    async fn release_templates(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<(), CloudError> {
        use api::names::tag;
        let tagged =
            |key: &str, value: &str| crate::filters::filter(&format!("tag:{key}"), [value]);
        let call = self
            .ec2
            .describe_launch_templates()
            .filters(tagged(tag::EKS_CLUSTER, cluster.as_str()))
            .filters(tagged(tag::EC2_NODE_CLASS, &class.metadata.name));
        let mut pages = call.into_paginator().items().send();
        while let Some(template) = pages.next().await {
            let template = template.map_err(refused("ec2:DescribeLaunchTemplates"))?;
            let id = template.launch_template_id.unwrap_or_default();
            self.delete_template(cluster, &id).await?;
        }
        Ok(())
    }

    pub(crate) async fn delete_template(
        &self,
        cluster: &ClusterName,
        id: &str,
    ) -> Result<(), CloudError> {
        let ec2 = self.ec2_of(cluster).await;
        let call = ec2.delete_launch_template().launch_template_id(id);
        let deleted = call.send().await;
        match deleted.map_err(refused("ec2:DeleteLaunchTemplate")) {
            Ok(_) | Err(CloudError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
