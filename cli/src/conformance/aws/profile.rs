//! Instance profiles: the calls to IAM that lead to one, and the status.

use std::collections::BTreeMap;

use anyhow::Result;
use api::{EC2NodeClass, conditions::types::INSTANCE_PROFILE_READY, karpenter::EC2NodeClassStatus};
use aws_rules::node_class::{
    Discovery, ProfileAct, ProfileAnswer, ProfileMemory, ProfileSearch, profile_path, profile_tags,
    status,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{account::node_class, object, selectors::nothing, settings::CaseSettings};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    #[serde(deserialize_with = "node_class")]
    node_class: EC2NodeClass,
    state: Iam,
    /// Changes of the spec, each followed by another reconciliation.
    then: Option<Vec<Change>>,
    #[serde(default)]
    settings: CaseSettings,
}

#[derive(Deserialize)]
struct Change {
    role: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Iam {
    /// Profile → role.
    instance_profiles: Option<BTreeMap<String, String>>,
    /// Whether IAM requires the role to exist when it is added.
    role_validation: bool,
    roles: Option<Vec<String>>,
    #[serde(skip)]
    without_role: Vec<String>,
    #[serde(skip)]
    calls: Vec<Value>,
}

pub(super) fn decide(case: Case) -> Result<Value> {
    let Case {
        node_class: mut class,
        state: mut iam,
        then,
        settings,
    } = case;
    let (cluster, provider) = (settings.cluster()?, settings.provider()?);
    let given: Vec<_> = iam
        .instance_profiles
        .iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    let given = given
        .into_iter()
        .chain(class.spec.instance_profile.clone())
        .collect();
    let mut names = Names {
        given,
        made: Vec::new(),
    };
    let mut memory = ProfileMemory::default();
    let mut steps = Vec::new();
    let changes = then.unwrap_or_default().into_iter().map(Some);
    for change in [None].into_iter().chain(changes) {
        if let Some(Change { role: Some(role) }) = change {
            class.spec.role = Some(role);
        }
        let found = match class.spec.instance_profile.clone() {
            Some(own) => Ok(own),
            None => search(
                &class,
                cluster.name.as_str(),
                &cluster.region,
                &mut memory,
                &mut iam,
            ),
        };
        let mut discovered = nothing();
        let failed = found.is_err();
        discovered.instance_profile = match found {
            Ok(profile) => Discovery::Found(profile),
            Err(message) => Discovery::Unanswered { message },
        };
        let judged = status(
            &class,
            discovered,
            &cluster,
            &provider,
            Timestamp::UNIX_EPOCH,
        );
        let mut calls = std::mem::take(&mut iam.calls);
        names.number_all(&mut calls);
        steps.push(step(&judged, calls, failed, &mut names));
        class.status = Some(judged);
    }
    Ok(json!({"steps": steps}))
}

fn step(
    status: &EC2NodeClassStatus,
    calls: Vec<Value>,
    failed: bool,
    names: &mut Names,
) -> Map<String, Value> {
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.r#type == INSTANCE_PROFILE_READY);
    let profile = status
        .instance_profile
        .as_deref()
        .filter(|name| !name.is_empty());
    object([
        ("calls", Value::Array(calls)),
        (
            "condition",
            json!(condition.map(|c| json!({"status": c.status, "reason": c.reason}))),
        ),
        (
            "statusInstanceProfile",
            json!(profile.map(|name| names.number(name))),
        ),
        ("error", json!(failed)),
    ])
}

fn search(
    class: &EC2NodeClass,
    cluster: &str,
    region: &str,
    memory: &mut ProfileMemory,
    iam: &mut Iam,
) -> Result<String, String> {
    let mut search = ProfileSearch::new(class, cluster, region, memory);
    let mut answer = ProfileAnswer::Done;
    loop {
        let act = search.next(answer);
        answer = match act {
            ProfileAct::Ready { profile } => return Ok(profile),
            ProfileAct::NoSuchRole { role } => {
                return Err(format!("the role \"{role}\" of spec.role does not exist"));
            }
            ProfileAct::Create { profile } => {
                let tags = profile_tags(class, cluster, region);
                let tags = tags
                    .iter()
                    .map(|(key, value)| json!({"Key": key, "Value": value}));
                let path = profile_path(cluster, region, &class.metadata.uid);
                let more = [("Path", json!(path)), ("Tags", tags.collect())];
                iam.asked("CreateInstanceProfile", &profile, object(more));
                iam.without_role.push(profile);
                ProfileAnswer::Done
            }
            act @ (ProfileAct::Get { .. }
            | ProfileAct::RemoveRole { .. }
            | ProfileAct::AddRole { .. }
            | ProfileAct::Delete { .. }) => iam.answer(act),
        };
    }
}

impl Iam {
    fn asked(&mut self, api: &str, profile: &str, more: Map<String, Value>) {
        let mut input = object([("InstanceProfileName", json!(profile))]);
        input.extend(more);
        self.calls.push(json!({"api": api, "input": input}));
    }

    fn answer(&mut self, act: ProfileAct) -> ProfileAnswer {
        let profiles = self.instance_profiles.get_or_insert_default();
        match act {
            ProfileAct::Get { profile } => {
                let role = profiles.get(&profile).cloned();
                let is_empty = self.without_role.contains(&profile);
                self.asked("GetInstanceProfile", &profile, Map::new());
                match role {
                    None if !is_empty => ProfileAnswer::NotFound,
                    role => ProfileAnswer::Found { role },
                }
            }
            ProfileAct::RemoveRole { profile, role } => {
                profiles.remove(&profile);
                let role = object([("RoleName", json!(role))]);
                self.asked("RemoveRoleFromInstanceProfile", &profile, role);
                self.without_role.push(profile);
                ProfileAnswer::Done
            }
            ProfileAct::AddRole { profile, role } => {
                let known = self.roles.iter().flatten().any(|known| *known == role);
                let exists = !self.role_validation || known;
                if exists {
                    profiles.insert(profile.clone(), role.clone());
                }
                let role = object([("RoleName", json!(role))]);
                self.asked("AddRoleToInstanceProfile", &profile, role);
                match exists {
                    true => ProfileAnswer::Done,
                    false => ProfileAnswer::NoSuchRole,
                }
            }
            ProfileAct::Delete { profile } => {
                profiles.remove(&profile);
                self.asked("DeleteInstanceProfile", &profile, Map::new());
                self.without_role.retain(|name| *name != profile);
                ProfileAnswer::Done
            }
            ProfileAct::Create { .. }
            | ProfileAct::Ready { .. }
            | ProfileAct::NoSuchRole { .. } => ProfileAnswer::Done,
        }
    }
}

/// Replaces names that the account did not have by PROFILE-1, PROFILE-2 and so on, in the order of their appearance.
struct Names {
    given: Vec<String>,
    made: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> String {
        if self.given.iter().any(|given| given == name) {
            return name.to_owned();
        }
        let known = self.made.iter().position(|made| made == name);
        let at = known.unwrap_or_else(|| {
            self.made.push(name.to_owned());
            self.made.len() - 1
        });
        format!("PROFILE-{}", at + 1)
    }

    fn number_all(&mut self, calls: &mut [Value]) {
        for call in calls {
            let name = call.pointer_mut("/input/InstanceProfileName");
            if let Some(Value::String(name)) = name {
                *name = self.number(name);
            }
        }
    }
}
