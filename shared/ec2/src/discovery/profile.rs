//! Instance profiles: the user's own, or one that is created and kept for a role (docs/spec/aws.md#instance-profiles).

use api::EC2NodeClass;
use aws_rules::node_class::{
    ProfileAct, ProfileAnswer, ProfileMemory, ProfileSearch, profile_path, profile_tags,
};
use aws_sdk_iam::types::{InstanceProfile, Tag};
use jiff::{SignedDuration, Timestamp};
use model::ClusterName;
use ports::CloudError;
use tokio::sync::Mutex;

use crate::{Account, errors::refused};

/// Time for which IAM's answers are cached, as upstream: long enough to spare IAM, short enough to notice manual changes.
const CACHE_LIFETIME: SignedDuration = SignedDuration::from_mins(15);

/// Cached profiles, and the time of caching.
#[derive(Default)]
pub(crate) struct ProfileCache(Mutex<(Timestamp, ProfileMemory)>);

impl Account {
    /// Returns the name of the profile to launch with.
    pub(super) async fn instance_profile(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<String, CloudError> {
        if let Some(own) = &class.spec.instance_profile {
            return Ok(own.clone());
        }
        let now = self.clock.now();
        let mut cached = self.profiles.0.lock().await;
        if now.duration_since(cached.0) > CACHE_LIFETIME {
            *cached = (now, ProfileMemory::default());
        }
        let mut search = ProfileSearch::new(class, cluster.as_str(), &self.region, &mut cached.1);
        let mut answer = ProfileAnswer::Done;
        loop {
            answer = match search.next(answer) {
                ProfileAct::Ready { profile } => return Ok(profile),
                ProfileAct::NoSuchRole { role } => {
                    return Err(CloudError::NotFound {
                        what: format!("the role \"{role}\" of spec.role"),
                    });
                }
                act @ (ProfileAct::Get { .. }
                | ProfileAct::Create { .. }
                | ProfileAct::RemoveRole { .. }
                | ProfileAct::AddRole { .. }
                | ProfileAct::Delete { .. }) => self.ask(cluster, class, act).await?,
            };
        }
    }

    async fn ask(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
        act: ProfileAct,
    ) -> Result<ProfileAnswer, CloudError> {
        let iam = self.sessions.iam(cluster).await;
        match act {
            ProfileAct::Get { profile } => {
                let call = self
                    .iam
                    .get_instance_profile()
                    .instance_profile_name(profile);
                match call.send().await.map_err(refused("iam:GetInstanceProfile")) {
                    Ok(answer) => {
                        let roles = answer.instance_profile.map(|found| found.roles);
                        let role = roles.unwrap_or_default().into_iter().next();
                        let role = role.map(|role| role.role_name);
                        Ok(ProfileAnswer::Found { role })
                    }
                    Err(CloudError::NotFound { .. }) => Ok(ProfileAnswer::NotFound),
                    Err(error) => Err(error),
                }
            }
            ProfileAct::Create { profile } => {
                let tags = profile_tags(class, cluster.as_str(), &self.region);
                let tags = tags.iter().map(tag).collect::<Result<_, _>>()?;
                let call = iam
                    .create_instance_profile()
                    .instance_profile_name(profile)
                    .path(self.profile_path(cluster, class))
                    .set_tags(Some(tags));
                let created = call.send().await;
                existing(created.map_err(refused("iam:CreateInstanceProfile")))?;
                Ok(ProfileAnswer::Done)
            }
            ProfileAct::RemoveRole { profile, role } => {
                let call = iam
                    .remove_role_from_instance_profile()
                    .instance_profile_name(profile)
                    .role_name(role);
                let removed = call.send().await;
                gone(removed.map_err(refused("iam:RemoveRoleFromInstanceProfile")))?;
                Ok(ProfileAnswer::Done)
            }
            ProfileAct::AddRole { profile, role } => {
                let call = iam
                    .add_role_to_instance_profile()
                    .instance_profile_name(profile)
                    .role_name(role);
                let added = call.send().await;
                match added.map_err(refused("iam:AddRoleToInstanceProfile")) {
                    Ok(_) => Ok(ProfileAnswer::Done),
                    // A profile has one role: another attempt has already attached it.
                    Err(CloudError::Invalid { code, .. }) if code == "LimitExceeded" => {
                        Ok(ProfileAnswer::Done)
                    }
                    // IAM may not know a profile yet that was just created.
                    Err(CloudError::NotFound { what }) if is_about_a_role(&what) => {
                        Ok(ProfileAnswer::NoSuchRole)
                    }
                    Err(error) => Err(error),
                }
            }
            ProfileAct::Delete { profile } => {
                let call = iam.delete_instance_profile().instance_profile_name(profile);
                gone(
                    call.send()
                        .await
                        .map_err(refused("iam:DeleteInstanceProfile")),
                )?;
                Ok(ProfileAnswer::Done)
            }
            ProfileAct::Ready { .. } | ProfileAct::NoSuchRole { .. } => Ok(ProfileAnswer::Done),
        }
    }

    /// Deletes the profiles that were made for this NodeClass. A NodeClass that no profile was made for is released even if IAM cannot
    /// be reached; a profile of an earlier `spec.role` is left to the housekeeper's garbage collection.
    pub(super) async fn release_profiles(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
    ) -> Result<(), CloudError> {
        let profiles = match self.profiles(cluster, class).await {
            Err(CloudError::Unknown { .. }) if !has_made_profile(class) => return Ok(()),
            profiles => profiles?,
        };
        for profile in profiles {
            let roles = profile.roles.into_iter().map(|role| role.role_name);
            let roles: Vec<String> = roles.collect();
            self.delete_profile(cluster, &profile.instance_profile_name, &roles)
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn delete_profile(
        &self,
        cluster: &ClusterName,
        name: &str,
        roles: &[String],
    ) -> Result<(), CloudError> {
        let iam = self.sessions.iam(cluster).await;
        for role in roles {
            let call = iam
                .remove_role_from_instance_profile()
                .instance_profile_name(name)
                .role_name(role);
            let removed = call.send().await;
            gone(removed.map_err(refused("iam:RemoveRoleFromInstanceProfile")))?;
        }
        let call = iam.delete_instance_profile().instance_profile_name(name);
        let deleted = call.send().await;
        gone(deleted.map_err(refused("iam:DeleteInstanceProfile")))
    }

    /// Lists the profiles that were made for this NodeClass.
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
        // Deletes nothing but profiles with exactly this path, even if IAM interprets the prefix differently.
        profiles.retain(|profile| profile.path == path);
        Ok(profiles)
    }

    fn profile_path(&self, cluster: &ClusterName, class: &EC2NodeClass) -> String {
        profile_path(cluster.as_str(), &self.region, &class.metadata.uid)
    }
}

/// Whether the profile in the status was made for `spec.role`.
fn has_made_profile(class: &EC2NodeClass) -> bool {
    let status = class.status.as_ref();
    let found = status.and_then(|status| status.instance_profile.as_ref());
    class.spec.instance_profile.is_none() && found.is_some()
}

fn tag((key, value): (&String, &String)) -> Result<Tag, CloudError> {
    let built = Tag::builder().key(key).value(value).build();
    built.map_err(|error| CloudError::Invalid {
        action: "tagging the instance profile".to_owned(),
        code: "InvalidTag".to_owned(),
        message: error.to_string(),
    })
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

/// Whether an error is about the role. IAM uses the same code for both: "The role with name … cannot be found", "Instance Profile … cannot
/// be found".
fn is_about_a_role(what: &str) -> bool {
    let message = what.split_once(": ").map_or(what, |(_, message)| message);
    let message = message.to_ascii_lowercase();
    message.starts_with("role") || message.starts_with("the role")
}
