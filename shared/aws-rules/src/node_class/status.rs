//! Status of an EC2NodeClass, computed from what discovery found (docs/spec/aws.md#ec2-node-class).

mod kubelet_fields;
mod validation;
mod warnings;

use api::{
    ConditionStatus,
    conditions::{
        ConditionSet,
        types::{
            AMIS_READY, CAPACITY_RESERVATIONS_READY, INSTANCE_PROFILE_READY, PLACEMENT_GROUP_READY,
            ReservedCapacity, SECURITY_GROUPS_READY, SUBNETS_READY, VALIDATION_SUCCEEDED,
            ec2_node_class,
        },
    },
    karpenter::{
        Ami, CapacityReservation, EC2NodeClass, EC2NodeClassStatus, SecurityGroup, Subnet,
    },
};
use jiff::Timestamp;
use model::Warning;

use super::dry_run::Verdict;
use crate::{
    ClusterFacts, ProviderSettings, instance_types::InstanceTypeInfo, placement::PlacementGroupFact,
};
use validation::Problem;

/// A discovered resource, or the reason why none is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery<T> {
    Found(T),
    /// The resource does not exist. The message is more specific than the general one.
    Nothing {
        message: String,
    },
    /// Another discovery cannot help before something is changed. Resources found earlier stay in the status.
    Refused {
        reason: &'static str,
        message: String,
    },
    /// AWS did not answer: everything stays as it was.
    Unanswered {
        message: String,
    },
}

/// Resources discovered for a NodeClass.
#[derive(Clone, Debug)]
pub struct Discovered {
    pub subnets: Discovery<Vec<SubnetFact>>,
    pub security_groups: Discovery<Vec<SecurityGroup>>,
    pub amis: Discovery<Vec<Ami>>,
    /// Name of the instance profile.
    pub instance_profile: Discovery<String>,
    pub capacity_reservations: Discovery<Vec<CapacityReservation>>,
    /// The placement group; `None` if the group does not exist.
    pub placement_group: Discovery<Option<PlacementGroupFact>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetFact {
    pub id: String,
    pub zone: String,
    pub zone_id: Option<String>,
    pub free_addresses: i64,
}

/// Inputs of a status besides the discovered resources.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    pub cluster: &'a ClusterFacts,
    pub settings: &'a ProviderSettings,
    /// Every instance type of the Region: expressions must give a number for each.
    pub instance_types: &'a [InstanceTypeInfo],
}

/// A NodeClass with its new status, except for the verdict of dry runs.
#[derive(Clone, Debug)]
pub struct StatusDraft {
    /// The NodeClass. Its conditions other than ValidationSucceeded and Ready are final.
    pub class: EC2NodeClass,
    /// Warnings that no condition reports.
    pub warnings: Vec<Warning>,
    checked: Result<(), Problem>,
    gate: ReservedCapacity,
    now: Timestamp,
}

impl StatusDraft {
    /// Whether nothing rules out launches yet, so that dry runs make sense.
    pub fn may_launch(&self) -> bool {
        self.checked.is_ok()
    }

    /// The status, given the verdict of dry runs.
    pub fn judged(self, verdict: Verdict) -> EC2NodeClassStatus {
        let mut status = self.class.status.unwrap_or_default();
        let mut conditions = status.conditions.take().unwrap_or_default();
        let types = ec2_node_class(self.gate);
        let mut set = ConditionSet::new(&types, &mut conditions, &self.class.metadata, self.now);
        match (self.checked, verdict) {
            (Err(problem), _) => set.set(
                VALIDATION_SUCCEEDED,
                problem.status,
                problem.reason,
                &problem.message,
            ),
            (Ok(()), Verdict::Passed) => set.set_true(VALIDATION_SUCCEEDED),
            (
                Ok(()),
                Verdict::Refused {
                    reason, message, ..
                },
            ) => {
                set.set_false(VALIDATION_SUCCEEDED, reason, &message);
            }
            (Ok(()), Verdict::Unanswered { message } | Verdict::Failed { message }) => {
                unanswered(&mut set, VALIDATION_SUCCEEDED, &message);
            }
        }
        status.conditions = Some(conditions);
        status
    }
}

/// The complete status of a NodeClass through which EC2 allows launches.
pub fn status(
    class: &EC2NodeClass,
    discovered: Discovered,
    cluster: &ClusterFacts,
    settings: &ProviderSettings,
    now: Timestamp,
) -> EC2NodeClassStatus {
    let known = StatusInput {
        cluster,
        settings,
        instance_types: &[],
    };
    draft(class, discovered, known, now).judged(Verdict::Passed)
}

/// The status from the discovered resources: lists in order of preference, and a condition for each resource that must resolve.
pub fn draft(
    class: &EC2NodeClass,
    discovered: Discovered,
    known: StatusInput<'_>,
    now: Timestamp,
) -> StatusDraft {
    let mut status = class.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let gate = match known.settings.reserved_capacity {
        true => ReservedCapacity::On,
        false => ReservedCapacity::Off,
    };
    let types = ec2_node_class(gate);
    let mut set = ConditionSet::new(&types, &mut conditions, &class.metadata, now);

    let warnings = warnings::of(&discovered, &set);
    let amis = discovered.amis;
    if let Some(found) = list(
        &mut set,
        AMIS_READY,
        amis,
        "AMINotFound",
        "AMISelector did not match any AMIs",
    ) {
        status.amis = Some(found);
    }
    if let Some(mut found) = list(
        &mut set,
        SUBNETS_READY,
        discovered.subnets,
        "SubnetsNotFound",
        "SubnetSelector did not match any Subnets",
    ) {
        found.sort_by(|a, b| (b.free_addresses, &a.id).cmp(&(a.free_addresses, &b.id)));
        status.subnets = Some(found.into_iter().map(Into::into).collect());
    }
    if let Some(mut found) = list(
        &mut set,
        SECURITY_GROUPS_READY,
        discovered.security_groups,
        "SecurityGroupsNotFound",
        "SecurityGroupSelector did not match any SecurityGroups",
    ) {
        found.sort_by(|a, b| a.id.cmp(&b.id));
        status.security_groups = Some(found);
    }
    if let Some(profile) = found(
        &mut set,
        INSTANCE_PROFILE_READY,
        discovered.instance_profile,
    ) {
        set.set_true(INSTANCE_PROFILE_READY);
        status.instance_profile = Some(profile);
    }
    placement_group(&mut set, class, discovered.placement_group);
    if gate == ReservedCapacity::On
        && let Some(found) = found(
            &mut set,
            CAPACITY_RESERVATIONS_READY,
            discovered.capacity_reservations,
        )
    {
        // An empty list is fine: launches then use other capacity.
        set.set_true(CAPACITY_RESERVATIONS_READY);
        status.capacity_reservations = Some(found);
    }
    let checked = validation::check(class, known, &set);
    status.conditions = Some(conditions);
    let mut class = class.clone();
    class.status = Some(status);
    StatusDraft {
        class,
        warnings,
        checked,
        gate,
        now,
    }
}

impl From<SubnetFact> for Subnet {
    fn from(fact: SubnetFact) -> Self {
        Self {
            id: fact.id,
            zone: fact.zone,
            zone_id: fact.zone_id,
        }
    }
}

/// The list for the status, if there is one; an empty list sets the condition to False.
fn list<T>(
    set: &mut ConditionSet<'_>,
    kind: &str,
    discovery: Discovery<Vec<T>>,
    reason: &str,
    message: &str,
) -> Option<Vec<T>> {
    if let Discovery::Nothing { message } = discovery {
        set.set_false(kind, reason, &message);
        return Some(Vec::new());
    }
    let items = found(set, kind, discovery)?;
    if items.is_empty() {
        set.set_false(kind, reason, message);
    } else {
        set.set_true(kind);
    }
    Some(items)
}

/// The discovered resource; otherwise the condition gets the reason why there is none.
fn found<T>(set: &mut ConditionSet<'_>, kind: &str, discovery: Discovery<T>) -> Option<T> {
    match discovery {
        Discovery::Found(found) => Some(found),
        Discovery::Refused { reason, message } => {
            set.set_false(kind, reason, &message);
            None
        }
        Discovery::Nothing { message } | Discovery::Unanswered { message } => {
            unanswered(set, kind, &message);
            None
        }
    }
}

/// Keeps a condition that is known. An unknown condition gets the message of the failed discovery.
fn unanswered(set: &mut ConditionSet<'_>, kind: &str, message: &str) {
    if set.status(kind) == ConditionStatus::Unknown {
        set.set_unknown(kind, "AwaitingReconciliation", message);
    }
}

/// Resolves the placement group. The condition is True if the NodeClass requires none.
fn placement_group(
    set: &mut ConditionSet<'_>,
    class: &EC2NodeClass,
    discovery: Discovery<Option<PlacementGroupFact>>,
) {
    let Some(selector) = &class.spec.placement_group_selector else {
        set.set_true(PLACEMENT_GROUP_READY);
        return;
    };
    match found(set, PLACEMENT_GROUP_READY, discovery) {
        Some(Some(_)) => set.set_true(PLACEMENT_GROUP_READY),
        Some(None) => {
            let wanted = selector.id.as_ref().or(selector.name.as_ref());
            let wanted = wanted.map_or("", String::as_str);
            let message = format!("Placement group \"{wanted}\" not found");
            set.set_false(PLACEMENT_GROUP_READY, "PlacementGroupNotFound", &message);
        }
        None => {}
    }
}
