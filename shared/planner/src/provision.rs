//! Provisioning: turns pods without a node into launches, nominations and reasons for unplaced pods
//! (docs/spec/scheduling.md#loop).

pub(crate) mod buffers;
pub(crate) mod caps;
pub(crate) mod default_spread;
pub(crate) mod drivers;
mod freed_instances;
pub(crate) mod intake;
pub(crate) mod launch;
pub(crate) mod movable;
mod named_node;
#[cfg(test)]
mod overlay_tests;
mod overlays;
mod pending;
pub(crate) mod planning_context;
mod previews;
mod share;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use model::{
    NodePoolName, Plan, PodKey, Snapshot, counted,
    ledger::PauseLevel,
    node_pool::NodePool,
    plan::{Nomination, PodRef, Refusal, Unplaced},
    pod::Pod,
    snapshot::Optimize,
};
use scheduling::{Effort, Input, SolveResult};

pub use self::{
    buffers::buffer_pods,
    caps::{Exceeded, exceeded, pool_spending, spending},
    intake::is_provisionable,
    overlays::{OverlayProblem, conflicting_overlays, ineffective_overlays, overlaid_types},
    pending::{EffectiveZone, PendingPods, pending_pods},
    previews::priced_previews,
};
use self::{
    launch::{Names, PoolLaunches},
    planning_context::{PlanningContext, SolveRequest},
};
use crate::{freed, inventory::Inventory, share::Share};

/// Most untried NodePools that a pod's event names.
const UNTRIED_NAMED_MAX: usize = 5;

/// Plans launches for pending pods, nominations to existing nodes, and the reasons for which pods have no place.
pub fn provision(snapshot: &Snapshot, share: Share) -> Plan {
    provision_with(snapshot, share, scheduling::solve)
}

/// Plans launches before the batch of pods is complete: only of nodes that the pods so far fill. All other pods are left to the
/// plan for the whole batch.
pub fn provision_full(snapshot: &Snapshot, share: Share) -> Plan {
    // Pods with a reserved instance kept for them are planned first, and must not be placed elsewhere.
    if !freed::kept(snapshot).is_empty() {
        return Plan::default();
    }
    let mut solve = |input: &Input<'_>| {
        let mut result = scheduling::solve(input);
        keep_full(input, &mut result);
        result
    };
    let plan = provision_with(snapshot, share, &mut solve);
    Plan {
        actions: plan.actions,
        ..Plan::default()
    }
}

/// Removes new nodes that are not full, or that hold virtual pods of CapacityBuffers.
fn keep_full(input: &Input<'_>, result: &mut SolveResult) {
    let is_virtual = |pod: &usize| {
        let pod = input.pods.get(*pod);
        pod.is_some_and(|pod| buffers::is_virtual(pod))
    };
    let mut full = scheduling::full_nodes(input, result).into_iter();
    result.new_nodes.retain(|node| {
        let is_full = full.next() == Some(true);
        is_full && !node.pods.iter().any(is_virtual)
    });
}

/// [`provision`] with the solver as a parameter, so that a caller with a clock can time it.
pub fn provision_with(
    snapshot: &Snapshot,
    share: Share,
    solve: impl FnMut(&Input<'_>) -> SolveResult,
) -> Plan {
    let mut plan = provision_uncapped(&caps::without_pools_over_limit(snapshot), share, solve);
    caps::hold_back(snapshot, &mut plan);
    plan
}

fn provision_uncapped(
    snapshot: &Snapshot,
    share: Share,
    mut solve: impl FnMut(&Input<'_>) -> SolveResult,
) -> Plan {
    let inventory = Inventory::new(snapshot);
    let mut plan = Plan::default();
    let intake = intake::intake(snapshot, &inventory, snapshot.now);
    plan.unplaced.extend(intake.refused);
    let pods: Vec<Cow<'_, Pod>> = intake
        .pods
        .into_iter()
        .map(|pod| default_spread::with_default(pod, snapshot))
        .map(|pod| named_node::by_hostname(pod, snapshot))
        .collect();
    let pods: Vec<Cow<'_, Pod>> = pods.into_iter().chain(buffers::pods(snapshot)).collect();
    let planning = PlanningContext::new(snapshot);
    if planning.pools.is_empty() && snapshot.settings.optimize == Optimize::Upstream {
        let text = no_pool(snapshot);
        let limited = !caps::capped(snapshot).is_empty();
        let real = pods.iter().filter(|pod| !buffers::is_virtual(pod));
        plan.unplaced
            .extend(real.map(|pod| unplaced(pod, &text, limited)));
        return plan;
    }
    if pods.is_empty() {
        return plan;
    }
    let search = Search {
        snapshot,
        inventory: &inventory,
        pods: pods.iter().map(Cow::as_ref).collect(),
        share,
    };
    let of_freed = freed_instances::of_freed_instance(&search, &planning, &plan, &mut solve);
    of_freed.unwrap_or_else(|| {
        let found = search.find(&planning, plan, None, &mut solve);
        found.plan(&search)
    })
}

/// Pods to place, and the cluster to place them in.
struct Search<'q> {
    snapshot: &'q Snapshot,
    inventory: &'q Inventory<'q>,
    pods: Vec<&'q Pod>,
    share: Share,
}

/// Solver result, with the plan so far.
struct Solution<'q> {
    planning: &'q PlanningContext<'q>,
    input: Input<'q>,
    result: SolveResult,
    /// CapacityBuffers with pods that are left to the next turn.
    left_out: BTreeSet<PodKey>,
    plan: Plan,
}

impl<'q> Search<'q> {
    /// Solves for a turn's share of the pods, or of those marked in `taken`.
    fn find(
        &'q self,
        planning: &'q PlanningContext<'q>,
        mut plan: Plan,
        taken: Option<&[bool]>,
        solve: &mut impl FnMut(&Input<'_>) -> SolveResult,
    ) -> Solution<'q> {
        static NONE: BTreeSet<usize> = BTreeSet::new();
        let now = self.snapshot.now;
        let request = SolveRequest {
            pods: self.pods.clone(),
            moved: Vec::new(),
            gone: &NONE,
            cooling_down: &NONE,
            unavailable: &NONE,
            reserved: self.snapshot.settings.reserved_offering_mode,
            effort: Effort::Best,
        };
        let mut input = planning.solver_input(self.inventory, request);
        let mut left_out = BTreeSet::new();
        if let Some(taken) = taken {
            postpone(taken, &mut input, &mut plan, &mut left_out);
        }
        let of_share = share::pods(&input.pods, self.share, now);
        postpone(&of_share, &mut input, &mut plan, &mut left_out);
        let mut result = solve(&input);
        for _ in 1..share::SEARCHES_MAX {
            if result.new_nodes.len() <= self.share.launches {
                break;
            }
            let of_share = share::pods_of_launches(&result, &input, self.share, now);
            postpone(&of_share, &mut input, &mut plan, &mut left_out);
            result = solve(&input);
        }
        Solution {
            planning,
            input,
            result,
            left_out,
            plan,
        }
    }
}

impl Solution<'_> {
    fn plan(self, search: &Search<'_>) -> Plan {
        let Self {
            planning,
            input,
            result,
            left_out,
            mut plan,
        } = self;
        plan.postponed.sort();
        plan.buffers = buffers::rooms(&input, &result, &left_out);
        plan.pools_without_types = pools_without_types(&input, &result);
        let (snapshot, inventory) = (search.snapshot, search.inventory);
        fill_plan(
            &mut plan,
            snapshot,
            inventory,
            &input,
            &planning.pools,
            result,
        );
        plan
    }
}

/// Leaves the pods not marked in `taken` to the next turn. For virtual pods only their CapacityBuffer is recorded.
fn postpone(
    taken: &[bool],
    input: &mut Input<'_>,
    plan: &mut Plan,
    left_out: &mut BTreeSet<PodKey>,
) {
    let mut taken = taken.iter();
    input.pods.retain(|pod| {
        let stays = taken.next() == Some(&true);
        if !stays && buffers::is_virtual(pod) {
            left_out.extend(buffers::buffer_of(pod));
        } else if !stays {
            plan.postponed.push(reference(pod));
        }
        stays
    });
}

fn pools_without_types(input: &Input<'_>, result: &SolveResult) -> BTreeMap<NodePoolName, String> {
    let pools = result.pools_without_types.iter().filter_map(|without| {
        let pool = input.pools.get(without.pool)?;
        let why = if without.min_values {
            "NodePool requirements leave fewer instance types than their minValues require"
        } else {
            "NodePool requirements leave no instance type"
        };
        Some((pool.name.clone(), why.to_owned()))
    });
    pools.collect()
}

fn no_pool(snapshot: &Snapshot) -> String {
    let unready: Vec<String> = snapshot
        .node_pools
        .iter()
        .filter_map(|pool| Some(format!("{}: {}", pool.name, pool.not_ready.as_ref()?)))
        .collect();
    if !unready.is_empty() {
        return format!("no NodePool is ready ({})", unready.join("; "));
    }
    let pools = snapshot.node_pools.iter();
    let fixed = pools.filter_map(|pool| Some((&pool.name, pool.replicas?)));
    let keeps_replicas = snapshot.settings.feature_gates.get("StaticCapacity") == Some(&true);
    let fixed: Vec<String> = fixed
        .map(|(name, replicas)| match keeps_replicas {
            true => format!("{name} is static and keeps {}", counted(replicas, "node")),
            false => format!("{name} is static, and feature gate StaticCapacity is off"),
        })
        .collect();
    match fixed.is_empty() {
        true => "there is no NodePool that launches nodes for pods".to_owned(),
        false => format!("no NodePool launches nodes for pods ({})", fixed.join("; ")),
    }
}

fn fill_plan(
    plan: &mut Plan,
    snapshot: &Snapshot,
    inventory: &Inventory<'_>,
    input: &Input<'_>,
    pools: &[&NodePool],
    result: SolveResult,
) {
    let pod = |at: &usize| {
        input
            .pods
            .get(*at)
            .copied()
            .filter(|pod| !buffers::is_virtual(pod))
    };
    for (node, pods) in &result.existing {
        let mut staying = inventory
            .state_nodes
            .iter()
            .filter(|state_node| !state_node.deleting);
        if let Some(state_node) = staying.nth(*node) {
            plan.nominations
                .extend(pods.iter().filter_map(pod).map(|pod| Nomination {
                    pod: reference(pod),
                    node: state_node.expected(),
                }));
        }
    }
    let pool_of = |at: usize| {
        let name = input.pools.get(at)?.name;
        pools.iter().find(|pool| pool.name == *name).copied()
    };
    let mut drivers = drivers::Drivers::new(input);
    let mut names = Names::new(snapshot);
    let mut launches: BTreeMap<usize, PoolLaunches<'_>> = BTreeMap::new();
    // Consumes the nodes one by one: nodes and launches each list hundreds of instance types.
    for node in result.new_nodes {
        if let (Some(pool), Some(mould)) = (pool_of(node.pool), input.pools.get(node.pool)) {
            let launches = launches
                .entry(node.pool)
                .or_insert_with(|| PoolLaunches::new(pool, mould));
            let planned = launches.launch(&node, input, &mut drivers, &mut names);
            plan.actions.push(planned);
        }
    }
    let held_back = held_back(snapshot);
    let mut not_ready = not_ready(snapshot);
    not_ready.retain(|refusal| {
        !held_back
            .iter()
            .any(|other| other.node_pool == refusal.node_pool)
    });
    for left in &result.unplaced {
        let Some(pod) = pod(&left.pod) else { continue };
        if input.pools.is_empty() && left.reasons.is_empty() {
            let limited = !caps::capped(snapshot).is_empty();
            plan.unplaced
                .push(unplaced(pod, &no_pool(snapshot), limited));
            continue;
        }
        let refusals = left.reasons.iter().map(|(at, reason)| Refusal {
            node_pool: at.and_then(pool_of).map(|pool| pool.name.clone()),
            text: reason.to_string(),
            limited: reason.is_limit(),
        });
        plan.unplaced.push(Unplaced {
            pod: reference(pod),
            reasons: not_ready
                .iter()
                .cloned()
                .chain(refusals)
                .chain(held_back.clone())
                .collect(),
        });
    }
}

/// NodePools that were not tried because they are not ready.
fn not_ready(snapshot: &Snapshot) -> Vec<Refusal> {
    let pools = snapshot.node_pools.iter();
    let pools = pools.filter(|pool| pool.replicas.is_none() && pool.deleted_at.is_none());
    let refusals = pools.filter_map(|pool| {
        Some(Refusal {
            node_pool: Some(pool.name.clone()),
            text: format!("is not ready: {}", pool.not_ready.as_ref()?),
            limited: false,
        })
    });
    refusals.take(UNTRIED_NAMED_MAX).collect()
}

/// NodePools that were not tried because of a pause or a cap.
fn held_back(snapshot: &Snapshot) -> Vec<Refusal> {
    let refusal = |pool: &NodePool, text, limited| Refusal {
        node_pool: Some(pool.name.clone()),
        text,
        limited,
    };
    let pools = snapshot.node_pools.iter();
    let paused = pools.filter_map(|pool| {
        let paused = snapshot.paused(Some(&pool.name), PauseLevel::All, snapshot.now)?;
        Some(refusal(pool, paused.to_string(), false))
    });
    let capped = caps::capped(snapshot)
        .into_iter()
        .filter_map(|(name, why)| {
            let mut pools = snapshot.node_pools.iter();
            let pool = pools.find(|pool| pool.name == name)?;
            Some(refusal(pool, why, true))
        });
    paused.chain(capped).take(UNTRIED_NAMED_MAX).collect()
}

pub(crate) fn reference(pod: &Pod) -> PodRef {
    PodRef {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
    }
}

fn unplaced(pod: &Pod, text: &str, limited: bool) -> Unplaced {
    Unplaced {
        pod: reference(pod),
        reasons: vec![Refusal {
            node_pool: None,
            text: text.to_owned(),
            limited,
        }],
    }
}

#[cfg(test)]
mod tests;
