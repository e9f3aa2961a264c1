//! Instance profiles: their names, and the IAM calls that lead to the profile a NodeClass launches with
//! (docs/spec/aws.md#instance-profiles).

use std::collections::BTreeMap;

use api::{
    karpenter::EC2NodeClass,
    names::{label, tag},
};
use sha2::{Digest, Sha256};

/// The next call to IAM, or the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileAct {
    Get {
        profile: String,
    },
    Create {
        profile: String,
    },
    RemoveRole {
        profile: String,
        role: String,
    },
    AddRole {
        profile: String,
        role: String,
    },
    Delete {
        profile: String,
    },
    /// The profile to launch with is ready.
    Ready {
        profile: String,
    },
    /// The NodeClass's role does not exist.
    NoSuchRole {
        role: String,
    },
}

/// IAM's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileAnswer {
    /// The profile, with its role if it has one.
    Found {
        role: Option<String>,
    },
    NotFound,
    Done,
    /// The role to add does not exist.
    NoSuchRole,
}

/// Answers of earlier searches. The owner drops the memory after a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileMemory {
    /// Profile → its role.
    roles: BTreeMap<String, String>,
    /// NodeClass UID and role → the profile that was made for them.
    made: BTreeMap<(String, String), String>,
    /// Role that does not exist → number of times that IAM said so.
    missing: BTreeMap<String, u32>,
}

/// The search for the profile of a NodeClass with a role, one call at a time. A changed role gets a new profile, because running nodes keep
/// the old one.
#[derive(Debug)]
pub struct ProfileSearch<'a> {
    memory: &'a mut ProfileMemory,
    uid: String,
    /// The last segment of the role's path, by which IAM knows it.
    role: String,
    /// The profile in the status.
    current: Option<String>,
    /// The profile that is made for the role.
    own: String,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    LookedAtCurrent,
    LookedAtOwn,
    Created,
    RoleRemoved,
    RoleAdded,
    LookedAtFailed,
    FailedRoleRemoved,
    Deleted,
}

impl<'a> ProfileSearch<'a> {
    pub fn new(
        class: &EC2NodeClass,
        cluster: &str,
        region: &str,
        memory: &'a mut ProfileMemory,
    ) -> Self {
        let role = class.spec.role.as_deref().unwrap_or_default();
        let role = role.rsplit('/').next().unwrap_or_default().to_owned();
        let uid = class.metadata.uid.clone();
        let tries = memory.missing.get(&role).copied().unwrap_or(0);
        let status = class.status.as_ref();
        let current = status.and_then(|status| status.instance_profile.clone());
        Self {
            own: profile_name(cluster, region, &uid, &role, tries),
            memory,
            uid,
            role,
            current: current.filter(|current| !current.is_empty()),
            state: State::Start,
        }
    }

    /// The next call, given the answer to the previous one.
    pub fn next(&mut self, answer: ProfileAnswer) -> ProfileAct {
        match (self.state, answer) {
            (State::Start, _) => self.start(),
            (State::LookedAtCurrent, ProfileAnswer::Found { role: Some(role) })
                if role == self.role =>
            {
                let profile = self.current.clone().unwrap_or_default();
                self.ready(profile)
            }
            (State::LookedAtCurrent, _) => self.look_at_own(),
            (State::LookedAtOwn, ProfileAnswer::Found { role: Some(role) }) => {
                if role == self.role {
                    return self.ready(self.own.clone());
                }
                self.state = State::RoleRemoved;
                let profile = self.own.clone();
                ProfileAct::RemoveRole { profile, role }
            }
            (State::LookedAtOwn, ProfileAnswer::Found { role: None })
            | (State::Created | State::RoleRemoved, _) => {
                self.state = State::RoleAdded;
                ProfileAct::AddRole {
                    profile: self.own.clone(),
                    role: self.role.clone(),
                }
            }
            (State::LookedAtOwn, _) if self.memory.missing.contains_key(&self.role) => {
                self.no_such_role()
            }
            (State::LookedAtOwn, _) => {
                self.state = State::Created;
                let profile = self.own.clone();
                ProfileAct::Create { profile }
            }
            (State::RoleAdded, ProfileAnswer::NoSuchRole) => {
                *self.memory.missing.entry(self.role.clone()).or_default() += 1;
                self.state = State::LookedAtFailed;
                let profile = self.own.clone();
                ProfileAct::Get { profile }
            }
            (State::RoleAdded, _) => self.ready(self.own.clone()),
            (State::LookedAtFailed, ProfileAnswer::Found { role: Some(role) }) => {
                self.state = State::FailedRoleRemoved;
                let profile = self.own.clone();
                ProfileAct::RemoveRole { profile, role }
            }
            (State::LookedAtFailed, ProfileAnswer::Found { role: None })
            | (State::FailedRoleRemoved, _) => {
                self.state = State::Deleted;
                let profile = self.own.clone();
                ProfileAct::Delete { profile }
            }
            (State::LookedAtFailed | State::Deleted, _) => self.no_such_role(),
        }
    }

    fn start(&mut self) -> ProfileAct {
        if let Some(current) = &self.current {
            match self.memory.roles.get(current) {
                Some(role) if *role == self.role => return self.ready(current.clone()),
                Some(_) => {}
                None => {
                    self.state = State::LookedAtCurrent;
                    let profile = current.clone();
                    return ProfileAct::Get { profile };
                }
            }
        }
        let key = (self.uid.clone(), self.role.clone());
        match self.memory.made.get(&key).cloned() {
            Some(profile) => self.ready(profile),
            None => self.look_at_own(),
        }
    }

    fn look_at_own(&mut self) -> ProfileAct {
        self.state = State::LookedAtOwn;
        let profile = self.own.clone();
        ProfileAct::Get { profile }
    }

    fn ready(&mut self, profile: String) -> ProfileAct {
        let key = (self.uid.clone(), self.role.clone());
        self.memory.missing.remove(&self.role);
        self.memory.roles.insert(profile.clone(), self.role.clone());
        self.memory.made.insert(key, profile.clone());
        ProfileAct::Ready { profile }
    }

    fn no_such_role(&self) -> ProfileAct {
        let role = self.role.clone();
        ProfileAct::NoSuchRole { role }
    }
}

/// The path of all profiles that are made for a cluster.
pub fn profiles_path(cluster: &str, region: &str) -> String {
    format!("/karpenter/{region}/{cluster}/")
}

/// The path of every profile made for a NodeClass.
pub fn profile_path(cluster: &str, region: &str, uid: &str) -> String {
    format!("{}{uid}/", profiles_path(cluster, region))
}

/// The tags of a profile made for a NodeClass: the user's tags, overridden by the tags that mark ownership.
pub fn profile_tags(class: &EC2NodeClass, cluster: &str, region: &str) -> BTreeMap<String, String> {
    let mut tags = class.spec.tags.clone().unwrap_or_default();
    tags.extend([
        (
            format!("{}{cluster}", tag::CLUSTER_PREFIX),
            "owned".to_owned(),
        ),
        (tag::EKS_CLUSTER.to_owned(), cluster.to_owned()),
        (tag::EC2_NODE_CLASS.to_owned(), class.metadata.name.clone()),
        (label::REGION.to_owned(), region.to_owned()),
    ]);
    tags
}

/// The name of a profile. Derived from the profile's inputs, so that a later search finds the profile of an earlier one. `tries`
/// counts attempts that failed because the role did not exist; each gets another name.
fn profile_name(cluster: &str, region: &str, uid: &str, role: &str, tries: u32) -> String {
    let mut text = format!("{region}/{uid}/{role}");
    if tries > 0 {
        text.push_str(&format!("/{tries}"));
    }
    let digest = Sha256::digest(text);
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or(0));
    format!("{cluster}_{}", u64::from_be_bytes(first))
}

/// The name that earlier releases of Karpenter gave a NodeClass's profile. Such profiles are deleted with the NodeClass.
pub fn legacy_profile_name(cluster: &str, region: &str, node_class: &str) -> String {
    let text = region.bytes().chain(node_class.bytes());
    let digest = text.fold(FNV_OFFSET, |digest, byte| {
        digest.wrapping_mul(FNV_PRIME) ^ u64::from(byte)
    });
    format!("{cluster}_{digest}")
}

/// Constants of the 64-bit FNV-1 hash.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_profile_names_match_earlier_releases() {
        let name = legacy_profile_name("test-cluster", "us-east-1", "default");
        assert_eq!(name, "test-cluster_15843455441266977890");
    }
}
