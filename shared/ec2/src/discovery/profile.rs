//! Instance profiles: the user's own, or one made and kept for a role (spec/aws §17.3).

use api::{EC2NodeClass, names::tag};
use aws_sdk_iam::types::{InstanceProfile, Tag};
use model::ClusterName;
use ports::CloudError;
use sha2::{Digest, Sha256};

use crate::{Account, errors::refused};

impl Account {
    /// The name of the profile to launch with.
    pub(super) async fn instance_profile(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<String, CloudError> {
        let spec = &class.spec;
        if let Some(own) = &spec.instance_profile {
            return Ok(own.clone());
        }
        // IAM knows roles by their last segment only.
        let role = spec.role.as_deref().unwrap_or_default();
        let role = role.rsplit('/').next().unwrap_or_default();
        let has_role = |profile: &InstanceProfile| {
            let mut roles = profile.roles.iter();
            roles.any(|attached| attached.role_name == role)
        };
        let profiles = self.profiles(cluster, class).await?;
        let current = class.status.as_ref();
        let current = current.and_then(|status| status.instance_profile.as_deref());
        let with_role = || profiles.iter().filter(|profile| has_role(profile));
        let chosen = with_role()
            .find(|profile| Some(profile.instance_profile_name.as_str()) == current)
            .or_else(|| with_role().next());
        match chosen {
            Some(profile) => Ok(profile.instance_profile_name.clone()),
            None => self.make_profile(cluster, class, role).await,
        }
    }

    pub(super) async fn release_profiles(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<(), CloudError> {
        let iam = self.sessions.iam(cluster).await;
        for profile in self.profiles(cluster, class).await? {
            let name = &profile.instance_profile_name;
            for role in &profile.roles {
                let call = iam
                    .remove_role_from_instance_profile()
                    .instance_profile_name(name)
                    .role_name(&role.role_name);
                let removed = call.send().await;
                gone(removed.map_err(refused("iam:RemoveRoleFromInstanceProfile")))?;
            }
            let call = iam.delete_instance_profile().instance_profile_name(name);
            let deleted = call.send().await;
            gone(deleted.map_err(refused("iam:DeleteInstanceProfile")))?;
        }
        Ok(())
    }

    /// Every profile that was made for this NodeClass.
    async fn profiles(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<Vec<InstanceProfile>, CloudError> {
        let path = self.profile_path(cluster, class);
        let call = self.iam.list_instance_profiles().path_prefix(&path);
        let mut pages = call.into_paginator().items().send();
        let mut profiles = Vec::new();
        while let Some(profile) = pages.next().await {
            profiles.push(profile.map_err(refused("iam:ListInstanceProfiles"))?);
        }
        // What is deleted with the NodeClass must be ours, however the prefix was understood.
        profiles.retain(|profile| profile.path == path);
        Ok(profiles)
    }

    fn profile_path(&self, cluster: &ClusterName, class: &EC2NodeClass) -> String {
        let uid = &class.metadata.uid;
        format!("/karpenter/{}/{cluster}/{uid}/", self.region)
    }

    /// Its name follows from what it is for, so that a second try finds what the first one made. A changed role gets a new
    /// profile: nodes that run keep the old one.
    async fn make_profile(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
        role: &str,
    ) -> Result<String, CloudError> {
        let name = profile_name(cluster, &self.region, &class.metadata.uid, role);
        let iam = self.sessions.iam(cluster).await;
        let call = iam
            .create_instance_profile()
            .instance_profile_name(&name)
            .path(self.profile_path(cluster, class))
            .set_tags(Some(self.profile_tags(cluster, class)?));
        existing(
            call.send()
                .await
                .map_err(refused("iam:CreateInstanceProfile")),
        )?;
        let call = iam
            .add_role_to_instance_profile()
            .instance_profile_name(&name)
            .role_name(role);
        let added = call.send().await;
        match added.map_err(refused("iam:AddRoleToInstanceProfile")) {
            // A profile holds one role: another try has attached it already.
            Err(CloudError::Invalid { code, .. }) if code == "LimitExceeded" => {}
            Err(CloudError::NotFound { .. }) => {
                return Err(CloudError::NotFound {
                    what: format!("the role \"{role}\" of spec.role"),
                });
            }
            added => {
                added?;
            }
        }
        Ok(name)
    }

    fn profile_tags(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<Vec<Tag>, CloudError> {
        let mut tags = class.spec.tags.clone().unwrap_or_default();
        tags.extend([
            (
                format!("{}{cluster}", tag::CLUSTER_PREFIX),
                "owned".to_owned(),
            ),
            (tag::EKS_CLUSTER.to_owned(), cluster.to_string()),
            (tag::EC2_NODE_CLASS.to_owned(), class.metadata.name.clone()),
            (api::names::label::REGION.to_owned(), self.region.clone()),
        ]);
        let tag = |(key, value): (&String, &String)| {
            let built = Tag::builder().key(key).value(value).build();
            built.map_err(|error| CloudError::Invalid {
                action: "tagging the instance profile".to_owned(),
                code: "InvalidTag".to_owned(),
                message: error.to_string(),
            })
        };
        tags.iter().map(tag).collect()
    }
}

fn existing<T>(made: Result<T, CloudError>) -> Result<(), CloudError> {
    match made {
        Err(CloudError::Invalid { code, .. }) if code == "EntityAlreadyExists" => Ok(()),
        made => made.map(|_| ()),
    }
}

fn gone<T>(removed: Result<T, CloudError>) -> Result<(), CloudError> {
    match removed {
        Err(CloudError::NotFound { .. }) => Ok(()),
        removed => removed.map(|_| ()),
    }
}

/// `<cluster>_<64-bit digest, decimal>`.
fn profile_name(cluster: &ClusterName, region: &str, uid: &str, role: &str) -> String {
    let digest = Sha256::digest(format!("{region}/{uid}/{role}"));
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or(0));
    format!("{cluster}_{}", u64::from_be_bytes(first))
}
