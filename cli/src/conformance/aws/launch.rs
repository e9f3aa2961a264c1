//! Launches of NodeClaims one after another or together: requests to EC2, and their outcome.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api::{EC2NodeClass, karpenter};
use aws_rules::{
    Claim, ClusterFacts, LaunchInput, LaunchRefusal, ProviderSettings,
    errors::TEMPLATE_NOT_FOUND,
    fleet_request,
    instance_types::Unavailable,
    launch::{NO_SPOT_ROLE, call_refusal, launched_claim, observations, refusal},
};
use model::{
    FreeAddresses, InstanceType,
    launch::{FleetRequest, FleetResponse, LaunchWarning, LaunchedClaim},
    node_claim::NodeClaim,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    account::{AccountState, RegionFacts, node_class_or_none, zone_id},
    fleet::Ec2,
    instance_types::resources,
    requests::{create_fleet, create_launch_template},
    settings::CaseSettings,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    settings: CaseSettings,
    /// `None` when the NodeClass does not exist.
    #[serde(deserialize_with = "node_class_or_none")]
    node_class: Option<EC2NodeClass>,
    node_claims: Vec<karpenter::NodeClaim>,
    ec2: Offered,
    #[serde(default)]
    state: State,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offered {
    instance_types: Selection,
    zones: Vec<String>,
}

/// `"all"`, or names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Selection {
    Named(BTreeSet<String>),
    All(serde::de::IgnoredAny),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct State {
    #[serde(rename = "subnetFreeIPs")]
    subnet_free_ips: FreeAddresses,
    parallel: bool,
    #[serde(flatten)]
    account: AccountState,
    #[serde(flatten)]
    ec2: Ec2,
}

pub(super) fn decide(case: Case, facts: &RegionFacts) -> Result<Value> {
    let types = match case.ec2.instance_types {
        Selection::Named(names) => names,
        Selection::All(_) => facts.types.keys().cloned().collect(),
    };
    let settings = case.settings.provider()?;
    let cluster = case.settings.cluster()?;
    let State {
        subnet_free_ips,
        parallel,
        account,
        ec2,
    } = case.state;
    let Some(class) = &case.node_class else {
        let message = "the EC2NodeClass does not exist".to_owned();
        let problem = LaunchRefusal::InsufficientCapacity { message };
        let steps = case
            .node_claims
            .iter()
            .map(|_| json!({"error": error(&problem)}));
        return Ok(json!({
            "steps": steps.collect::<Vec<_>>(),
            "after": {"ice": [], "eventCounts": {NO_NODE_CLASS: 1}},
        }));
    };
    let zones = Some(case.ec2.zones.as_slice());
    let mut launching = Launching {
        cluster: &cluster,
        settings: &settings,
        class,
        types: account.resolve(facts, &types, zones, class, &settings, &cluster.region)?,
        unavailable: account.unavailable(class),
        free: subnet_free_ips,
        templates: BTreeSet::new(),
        ec2,
        lacks_spot_role: false,
    };
    let claims: Vec<NodeClaim> = case.node_claims.into_iter().map(Into::into).collect();
    let mut steps = Vec::new();
    if parallel {
        steps = launching.at_once(&claims);
    } else {
        for claim in &claims {
            steps.extend(launching.at_once(std::slice::from_ref(claim)));
        }
    }
    let mut after = after(&launching.unavailable, class);
    if class.metadata.is_deleting() {
        after.insert("eventCounts".to_owned(), json!({NO_NODE_CLASS: 1}));
    }
    if launching.lacks_spot_role {
        after.insert("eventCounts".to_owned(), warned(&NO_SPOT_ROLE));
    }
    Ok(json!({"steps": steps, "after": after}))
}

/// State that one launch leaves for the next.
struct Launching<'a> {
    cluster: &'a ClusterFacts,
    settings: &'a ProviderSettings,
    class: &'a EC2NodeClass,
    types: Vec<InstanceType>,
    unavailable: Unavailable,
    free: FreeAddresses,
    /// Names of existing launch templates.
    templates: BTreeSet<String>,
    ec2: Ec2,
    lacks_spot_role: bool,
}

/// An event that is emitted once: type, reason, text.
pub(super) fn warned(warning: &LaunchWarning) -> Value {
    let event = format!("Warning {}: {}", warning.reason, warning.message);
    json!({event: 1})
}

const NO_NODE_CLASS: &str =
    "Warning FailedResolvingNodeClass: it does not exist, or is being deleted";

type Step = Map<String, Value>;

impl Launching<'_> {
    /// Launches claims together: claims with equal requests share a call. Returns a step for each claim.
    fn at_once(&mut self, claims: &[NodeClaim]) -> Vec<Step> {
        let mut types = self.types.clone();
        self.unavailable.mark_unavailable(&mut types, self.class);
        let mut steps = vec![Step::new(); claims.len()];
        let mut calls: Vec<(FleetRequest, Vec<usize>)> = Vec::new();
        for ((at, claim), step) in claims.iter().enumerate().zip(&mut steps) {
            let input = LaunchInput {
                cluster: self.cluster,
                settings: self.settings,
                node_class: self.class,
                instance_types: &types,
                free_addresses: &self.free,
            };
            match fleet_request(&input, Claim::from(claim)) {
                Err(problem) => {
                    step.insert("error".to_owned(), error(&problem));
                }
                Ok(request) => match calls.iter_mut().find(|(same, _)| *same == request) {
                    Some((_, sharing)) => sharing.push(at),
                    None => calls.push((request, vec![at])),
                },
            }
        }
        for (mut request, sharing) in calls {
            request.target_capacity = u32::try_from(sharing.len()).unwrap_or(u32::MAX);
            let (mut asked, answer) = self.call(&request, &types);
            let mut instances = answer.iter().flat_map(|answer| &answer.instances);
            for at in sharing {
                let (Some(step), Some(claim)) = (steps.get_mut(at), claims.get(at)) else {
                    continue;
                };
                step.append(&mut asked);
                let outcome = match (&answer, instances.next()) {
                    (Err(problem), _) => Some(("error", error(problem))),
                    (Ok(_), Some(launched)) => {
                        let chosen = types.iter().find(|t| t.name == launched.instance_type);
                        chosen.map(|instance_type| {
                            let claim = launched_claim(
                                self.class,
                                Claim::from(claim),
                                instance_type,
                                launched,
                            );
                            ("nodeClaim", node_claim(claim))
                        })
                    }
                    (Ok(answer), None) => Some(("error", error(&refusal(&answer.failures)))),
                };
                step.extend(outcome.map(|(field, value)| (field.to_owned(), value)));
            }
        }
        steps
    }

    /// One call with its templates: the requests to EC2, and the answer.
    fn call(
        &mut self,
        request: &FleetRequest,
        types: &[InstanceType],
    ) -> (Step, Result<FleetResponse, LaunchRefusal>) {
        let mut templates = Vec::new();
        if let Err(problem) = self.create_templates(request, &mut templates) {
            let asked = Step::from_iter([("createLaunchTemplate".to_owned(), json!(templates))]);
            return (asked, Err(problem));
        }
        let needed = FreeAddresses::needed(request, types);
        self.free.take(&needed);
        let mut fleets = vec![create_fleet(request)];
        let mut created = Ok(());
        let mut error = self.ec2.create_fleet_call_errors.pop_front();
        if error
            .as_ref()
            .is_some_and(|error| error.code == TEMPLATE_NOT_FOUND)
        {
            self.templates.clear();
            created = self.create_templates(request, &mut templates);
            fleets.push(create_fleet(request));
            error = self.ec2.create_fleet_call_errors.pop_front();
        }
        let answer = created.and_then(|()| match error {
            Some(error) => Err(call_refusal(&error.text())),
            None => Ok(self.ec2.answer(request)),
        });
        let launched = answer.iter().flat_map(|answer| &answer.instances);
        let used: Vec<&str> = launched
            .filter_map(|launched| launched.subnet.as_deref())
            .collect();
        self.free.give_back(&needed, &used);
        if let Ok(answer) = &answer {
            let class = self.class;
            let observations = observations(request, answer, |zone| zone_id(class, zone));
            self.lacks_spot_role |= observations.no_spot_role;
            for subnet in &observations.full_subnets {
                self.free.exhaust(subnet);
            }
            self.unavailable.add_observations(observations);
        }
        let asked = [("createLaunchTemplate", templates), ("createFleet", fleets)]
            .map(|(name, calls)| (name.to_owned(), json!(calls)));
        (asked.into_iter().collect(), answer)
    }

    /// Creates missing templates, up to the first failure.
    fn create_templates(
        &mut self,
        request: &FleetRequest,
        created: &mut Vec<Value>,
    ) -> Result<(), LaunchRefusal> {
        for config in &request.templates {
            let template = &config.template;
            if !self.templates.insert(template.name.clone()) {
                continue;
            }
            if let Some(error) = self.ec2.create_launch_template_errors.pop_front() {
                return Err(call_refusal(&error.text()));
            }
            created.push(create_launch_template(template, request.capacity_type));
        }
        Ok(())
    }
}

pub(super) fn error(problem: &LaunchRefusal) -> Value {
    match problem {
        LaunchRefusal::InsufficientCapacity { message } => {
            json!({"class": "InsufficientCapacity", "message": message})
        }
        LaunchRefusal::NodeClassNotReady { message } => {
            json!({"class": "NodeClassNotReady", "message": message})
        }
        LaunchRefusal::Create { reason, message } => {
            json!({"class": "CreateError", "reason": reason, "conditionMessage": message})
        }
    }
}

fn node_claim(claim: LaunchedClaim) -> Value {
    json!({
        "labels": claim.labels,
        "annotations": claim.annotations,
        "providerID": claim.provider_id,
        "imageID": claim.image_id,
        "capacity": resources(&claim.capacity),
        "allocatable": resources(&claim.allocatable),
    })
}

/// Unavailable offerings after a launch, with zones by name.
pub(super) fn after(unavailable: &Unavailable, class: &EC2NodeClass) -> Map<String, Value> {
    let subnets = class
        .status
        .iter()
        .flat_map(|status| status.subnets.iter().flatten());
    let zones: BTreeMap<_, _> = subnets
        .map(|subnet| {
            (
                subnet.zone_id.as_deref().unwrap_or(&subnet.zone),
                subnet.zone.as_str(),
            )
        })
        .collect();
    let offerings = unavailable.offerings.iter().map(|key| {
        let zone = zones
            .get(key.zone_id.as_str())
            .copied()
            .unwrap_or(&key.zone_id);
        let scope = key
            .scope
            .iter()
            .map(|scope| format!(":{scope}"))
            .collect::<String>();
        format!(
            "{}:{}:{zone}{scope}",
            key.capacity_type.as_str(),
            key.instance_type
        )
    });
    let capacity_types = unavailable
        .capacity_types
        .iter()
        .map(|kind| kind.as_str().to_owned());
    let keys: Vec<_> = offerings
        .chain(capacity_types)
        .chain(unavailable.subnets.iter().cloned())
        .collect();
    Map::from_iter([
        ("ice".to_owned(), json!(keys)),
        (
            "availableInstanceCount".to_owned(),
            json!(unavailable.reservations),
        ),
    ])
}
