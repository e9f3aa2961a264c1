//! Deletions and changes of objects: the object must be unchanged since the decision, and the user must not have
//! forbidden the action.

mod pods;
mod repair;
mod replicas;
mod terminate_first;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{
    Action, Plan, PodKey, labels,
    node::ConditionStatus,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, ConsolidationPolicy, NodePool},
    plan::{NodeClaimUpdate, NodeUpdate, Target},
};

use self::{pods::has_disruption_cost, repair::UnhealthyCounts};
use crate::{
    Findings, Subject,
    budget::{DisruptionAllowance, Reason},
    place::{Place, Placements},
    world::{Machine, World, is_reschedulable},
};

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

pub(crate) fn check<'a>(
    world: &World<'a>,
    plan: &Plan,
    placements: &Placements<'a>,
    findings: &mut Findings,
) {
    let mut check = Check {
        world,
        claims: world
            .snapshot
            .node_claims
            .iter()
            .map(|claim| (claim.name.as_str(), claim))
            .collect(),
        destinations: placements
            .placed
            .iter()
            .filter_map(|placed| match placements.places.get(placed.place)? {
                Place::Machine(index) => Some((*index, &placed.pod.key)),
                Place::Open(_) => None,
            })
            .collect(),
        deleted: BTreeSet::new(),
        placed: placements
            .placed
            .iter()
            .map(|placed| &placed.pod.key)
            .collect(),
        launches: launches(plan),
        remaining: DisruptionAllowance::new(world),
        unhealthy: UnhealthyCounts::of(world),
    };
    for (index, planned) in plan.actions.iter().enumerate() {
        let problem = match &planned.action {
            Action::Launch(_) => None,
            Action::DeleteNodeClaim(target) => check.delete(target),
            Action::Reboot(target) => check.reboot(target),
            Action::UpdateNode(update) => check.update_node(update),
            Action::UpdateNodeClaim(update) => check.update_node_claim(update),
            Action::Evict { pod, uid, .. } => check.evict(pod, uid),
            Action::DeletePod { pod, uid, .. } => check.delete_pod(pod, uid),
            Action::Terminate { claim, instance } => {
                check.terminate(claim.as_str(), instance.as_str())
            }
        };
        if let Some(problem) = problem {
            findings.add(Subject::Action(index), problem);
        }
    }
}

struct Check<'c, 'a> {
    world: &'c World<'a>,
    claims: BTreeMap<&'a str, &'a NodeClaim>,
    /// Machines that the plan places a pod on.
    destinations: BTreeMap<usize, &'c PodKey>,
    deleted: BTreeSet<&'c str>,
    /// Pods that the plan places.
    placed: BTreeSet<&'c PodKey>,
    /// Number of nodes that the plan launches, by NodePool.
    launches: BTreeMap<&'c str, usize>,
    remaining: DisruptionAllowance<'a>,
    unhealthy: UnhealthyCounts<'a>,
}

fn launches(plan: &Plan) -> BTreeMap<&str, usize> {
    let mut launches: BTreeMap<&str, usize> = BTreeMap::new();
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            *launches.entry(launch.node_pool.as_str()).or_default() += 1;
        }
    }
    launches
}

impl<'c, 'a> Check<'c, 'a> {
    fn machine(&self, claim: &str) -> Option<&'c Machine<'a>> {
        self.world
            .machine_of_claim
            .get(claim)
            .and_then(|index| self.world.machines.get(*index))
    }

    /// The NodeClaim that an action deletes or reboots, if it is unchanged since the decision.
    fn target(&mut self, target: &'c Target) -> Result<&'a NodeClaim, String> {
        let name = target.name.as_str();
        let Some(claim) = self.claims.get(name).copied() else {
            return Err(format!("NodeClaim {name} does not exist"));
        };
        if claim.uid != target.uid || claim.resource_version != target.resource_version {
            return Err(format!(
                "NodeClaim {name} is not the one that the plan was based on"
            ));
        }
        match self.deleted.insert(name) {
            true => Ok(claim),
            false => Err(format!("NodeClaim {name} is deleted or rebooted twice")),
        }
    }

    fn delete(&mut self, target: &'c Target) -> Option<String> {
        let name = target.name.as_str();
        let claim = match self.target(target) {
            Ok(claim) => claim,
            Err(problem) => return Some(problem),
        };
        if let Some(pod) = self
            .world
            .machine_of_claim
            .get(name)
            .and_then(|index| self.destinations.get(index))
        {
            return Some(format!(
                "NodeClaim {name} is deleted while pod {pod} is expected there"
            ));
        }
        if claim.deleted_at.is_some() || self.is_forced(claim) {
            return None;
        }
        let node = self.machine(name).and_then(|machine| machine.node);
        let now = self.world.snapshot.now;
        let problem = match node.filter(|node| self.unhealthy.is_due(claim, node, now)) {
            None => self.voluntary(claim)?,
            // A node that may not be repaired may still be disrupted for another reason.
            Some(node) => {
                let of_repair = self.repair(claim, node)?;
                match self.is_static(claim) && !claim.is_true("Drifted") {
                    true => of_repair,
                    false => self.voluntary(claim).map(|_| of_repair)?,
                }
            }
        };
        Some(format!("NodeClaim {name} {problem}"))
    }

    fn is_static(&self, claim: &NodeClaim) -> bool {
        let pool = claim.node_pool();
        let pool = pool.and_then(|name| self.world.pools.get(name.as_str()));
        pool.is_some_and(|pool| pool.replicas.is_some())
    }

    /// Whether the deletion is not voluntary, or was decided earlier, so that budgets and annotations do not apply.
    fn is_forced(&self, claim: &NodeClaim) -> bool {
        let snapshot = self.world.snapshot;
        let has_joined = claim.is_true("Registered");
        let machine = self.machine(claim.name.as_str());
        let node = machine.and_then(|machine| machine.node);
        let is_alive = node.is_some_and(|node| {
            node.ready.status == ConditionStatus::True || self.unhealthy.is_voluntary()
        });
        let is_noticed = snapshot.notices.iter().any(|notice| {
            !notice.done && claim.status.provider_id.ends_with(notice.instance.as_str())
        });
        let is_commanded = snapshot.commands.iter().any(|command| {
            command.state.is_open() && command.delete.iter().any(|target| target.uid == claim.uid)
        });
        !has_joined || !is_alive || is_noticed || is_commanded || is_expired(claim, snapshot.now)
    }

    /// Reason why a node may not be disrupted voluntarily (docs/spec/lifecycle.md#eligibility,
    /// docs/spec/lifecycle.md#budgets, docs/spec/lifecycle.md#emptiness).
    fn voluntary(&mut self, claim: &NodeClaim) -> Option<String> {
        let now = self.world.snapshot.now;
        let pool = claim
            .node_pool()
            .and_then(|name| self.world.pools.get(name.as_str()).copied());
        let (Some(pool), Some(machine)) = (pool, self.machine(claim.name.as_str())) else {
            // The nodes of a deleted NodePool are deleted, too.
            return None;
        };
        if pool.replicas.is_some() {
            return self.missing_replicas(machine, pool, &[Reason::Drifted, Reason::Unhealthy]);
        }
        if machine.node.is_some_and(|node| {
            node.annotations.get(DO_NOT_DISRUPT).map(String::as_str) == Some("true")
        }) {
            return Some(format!("carries the annotation {DO_NOT_DISRUPT}"));
        }
        let drifted = claim.is_true("Drifted");
        let occupied = machine
            .bound_pods
            .iter()
            .any(|pod| is_reschedulable(pod) && has_disruption_cost(pod));
        // Pods do not block the disruption of a drifted node with a termination grace period
        // (docs/spec/lifecycle.md#candidates).
        let ignores_pods = drifted && claim.spec.termination_grace_period.is_some();
        if let Some(problem) = self.blocked_by_pod(machine, ignores_pods) {
            return Some(problem);
        }
        let pod_without_place = self.pod_without_place(machine).filter(|_| occupied);
        let terminates_first = pod_without_place.is_some();
        if let Some(problem) = pod_without_place
            && !(drifted && self.may_terminate_first(machine, "TerminateFirstDrift"))
        {
            return Some(problem);
        }
        if occupied && !drifted && pool.disruption.policy == ConsolidationPolicy::WhenEmpty {
            return Some(format!(
                "is not empty, but NodePool {} consolidates empty nodes only",
                pool.name
            ));
        }
        let nominated = machine
            .node
            .and_then(|node| self.world.snapshot.nominated.get(&node.name));
        if nominated.is_some_and(|until| *until > now) {
            return Some("is nominated for a pending pod".to_owned());
        }
        if !drifted && let Some(problem) = not_yet_consolidatable(claim, pool, now) {
            return Some(problem);
        }
        let reasons: &[Reason] = match (occupied, drifted) {
            (false, false) => &[Reason::Empty],
            (false, true) => &[Reason::Empty, Reason::Drifted],
            (true, false) => &[Reason::Underutilized],
            (true, true) => &[Reason::Drifted, Reason::Underutilized],
        };
        // Consolidation never terminates a node before its replacement, so the budgets for it do not apply.
        if terminates_first
            && let Some(problem) =
                self.exceeds_budget_before_replacement(machine, pool, Reason::Drifted)
        {
            return Some(problem);
        }
        if self.remaining.take(pool, reasons, now) {
            None
        } else {
            Some(format!(
                "is one more than the budgets of NodePool {} allow",
                pool.name
            ))
        }
    }

    fn update_node(&self, update: &NodeUpdate) -> Option<String> {
        let name = &update.name;
        let Some(node) = self
            .world
            .snapshot
            .nodes
            .iter()
            .find(|node| node.name == *name)
        else {
            return Some(format!("node {name} does not exist"));
        };
        if node.uid != update.uid {
            return Some(format!(
                "node {name} is not the one that the plan was based on"
            ));
        }
        let is_ours = node.labels.contains_key(labels::NODE_POOL)
            || self
                .world
                .machine_named(name.as_str())
                .is_some_and(|machine| machine.claim.is_some());
        if !is_ours {
            return Some(format!("node {name} is not managed"));
        }
        let is_released = update
            .remove_finalizers
            .iter()
            .any(|finalizer| finalizer == TERMINATION_FINALIZER);
        if is_released && node.deleted_at.is_none() {
            return Some(format!(
                "node {name} loses its finalizer but is not being deleted"
            ));
        }
        None
    }

    fn update_node_claim(&self, update: &NodeClaimUpdate) -> Option<String> {
        let name = &update.name;
        let Some(claim) = self.claims.get(name.as_str()) else {
            return Some(format!("NodeClaim {name} does not exist"));
        };
        if claim.uid != update.uid {
            return Some(format!(
                "NodeClaim {name} is not the one that the plan was based on"
            ));
        }
        let is_released = update
            .remove_finalizers
            .iter()
            .any(|finalizer| finalizer == TERMINATION_FINALIZER);
        if !is_released {
            return None;
        }
        if claim.deleted_at.is_none() {
            return Some(format!(
                "NodeClaim {name} loses its finalizer but is not being deleted"
            ));
        }
        // Otherwise no NodeClaim would own the instance that may still be launched (docs/protocol.md#a5).
        let open = self
            .world
            .snapshot
            .intents
            .iter()
            .any(|intent| intent.name() == name && intent.is_in_flight());
        open.then(|| format!("NodeClaim {name} loses its finalizer while it may still be launched"))
    }

    fn terminate(&self, claim: &str, instance: &str) -> Option<String> {
        let Some(known) = self.claims.get(claim) else {
            // Instances without a NodeClaim are known to the ledger only.
            return None;
        };
        if known.deleted_at.is_none() {
            return Some(format!(
                "instance {instance} is terminated, but NodeClaim {claim} is not being deleted"
            ));
        }
        let own = known
            .status
            .provider_id
            .rsplit('/')
            .next()
            .unwrap_or_default();
        (!own.is_empty() && own != instance).then(|| {
            format!("instance {instance} is terminated, but that of NodeClaim {claim} is {own}")
        })
    }
}

fn is_expired(claim: &NodeClaim, now: Timestamp) -> bool {
    let lifetime = claim
        .spec
        .expire_after
        .as_deref()
        .and_then(|text| text.parse::<SignedDuration>().ok());
    claim
        .created_at
        .zip(lifetime)
        .and_then(|(created, lifetime)| created.checked_add(lifetime).ok())
        .is_some_and(|end| end <= now)
}

/// The rule docs/spec/lifecycle.md#consolidatable, derived from the objects.
fn not_yet_consolidatable(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Option<String> {
    let Some(initialized) = claim
        .condition("Initialized")
        .filter(|condition| condition.status == ConditionStatus::True)
    else {
        return Some("is not initialized".to_owned());
    };
    let wait = match pool.disruption.consolidate_after {
        ConsolidateAfter::Never => {
            return Some(format!(
                "may never be consolidated, by consolidateAfter of NodePool {}",
                pool.name
            ));
        }
        ConsolidateAfter::Seconds(seconds) => SignedDuration::from_secs(seconds),
    };
    let since = claim
        .status
        .last_pod_event
        .unwrap_or(initialized.last_transition);
    (now.duration_since(since) < wait).then(|| "may not be consolidated yet".to_owned())
}
