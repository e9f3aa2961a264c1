//! The housekeeper's work in the account: publishing prices, and garbage collection of resources that were created for launches.

use std::collections::BTreeSet;

use api::names::tag;
use async_trait::async_trait;
use aws_rules::{
    collection::{ProfileFact, TemplateFact, expired_templates, unused_profiles},
    node_class::profiles_path,
};
use jiff::Timestamp;
use model::ClusterName;
use ports::{AccountHousekeeping, CloudError, Needs};

use crate::{
    Account,
    errors::refused,
    filters::{filter, timestamp},
};

/// EC2's largest page size of launch templates, and upper bound on the templates examined at a time; the rest is examined once these are
/// deleted.
const TEMPLATES_PER_PAGE: i32 = 200;
const PAGES_MAX: usize = 10;

#[async_trait]
impl AccountHousekeeping for Account {
    async fn renew_prices(&self, look_up: bool, now: Timestamp) -> Vec<String> {
        self.publish_prices(look_up, now).await
    }

    async fn collect(
        &self,
        cluster: &ClusterName,
        needs: &Needs<'_>,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, CloudError> {
        let mut collected = BTreeSet::new();
        let templates = self.templates_of(cluster).await?;
        for template in expired_templates(&templates, cluster.as_str(), needs.node_classes, now) {
            self.delete_template(cluster, &template.id).await?;
            collected.insert(template.name.clone());
        }
        let profiles = match self.profiles_of(cluster).await {
            // In a VPC without a way to IAM there are no profiles to collect; other collection continues.
            Err(CloudError::Unknown { .. }) => Vec::new(),
            profiles => profiles?,
        };
        let of = (cluster.as_str(), self.region.as_str());
        let Needs {
            node_classes,
            node_claims,
        } = *needs;
        for profile in unused_profiles(&profiles, of, node_classes, node_claims, now) {
            self.delete_profile(cluster, &profile.name, &profile.roles)
                .await?;
            collected.insert(profile.name.clone());
        }
        Ok(collected)
    }
}

impl Account {
    async fn templates_of(&self, cluster: &ClusterName) -> Result<Vec<TemplateFact>, CloudError> {
        let of_cluster = filter(&format!("tag:{}", tag::EKS_CLUSTER), [cluster.as_str()]);
        let call = self
            .ec2
            .describe_launch_templates()
            .filters(of_cluster)
            .max_results(TEMPLATES_PER_PAGE);
        let mut pages = call.into_paginator().send();
        let mut found = Vec::new();
        for _ in 0..PAGES_MAX {
            let Some(page) = pages.next().await else {
                break;
            };
            let page = page.map_err(refused("ec2:DescribeLaunchTemplates"))?;
            for template in page.launch_templates.unwrap_or_default() {
                let tags = template.tags.unwrap_or_default().into_iter();
                found.push(TemplateFact {
                    id: template.launch_template_id.unwrap_or_default(),
                    name: template.launch_template_name.unwrap_or_default(),
                    created_at: template.create_time.as_ref().and_then(timestamp),
                    tags: tags
                        .filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default())))
                        .collect(),
                });
            }
        }
        Ok(found)
    }

    async fn profiles_of(&self, cluster: &ClusterName) -> Result<Vec<ProfileFact>, CloudError> {
        let path = profiles_path(cluster.as_str(), &self.region);
        let call = self.iam.list_instance_profiles().path_prefix(path);
        let mut pages = call.into_paginator().send();
        let mut found = Vec::new();
        for _ in 0..PAGES_MAX {
            let Some(page) = pages.next().await else {
                break;
            };
            let page = page.map_err(refused("iam:ListInstanceProfiles"))?;
            found.extend(page.instance_profiles.into_iter().map(|profile| {
                ProfileFact {
                    name: profile.instance_profile_name,
                    path: profile.path,
                    created_at: timestamp(&profile.create_date),
                    roles: profile
                        .roles
                        .into_iter()
                        .map(|role| role.role_name)
                        .collect(),
                }
            }));
        }
        Ok(found)
    }
}
