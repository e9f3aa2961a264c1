//! Builds solver inputs: NodePools, nodes, DaemonSets, and remaining limits.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{
    InstanceType, NodeName, NodePoolName, Offering, Resources, Snapshot,
    devices::{Device, ResourceSlice, slices_by_node},
    labels::{INSTANCE_TYPE, NODE_POOL},
    node_pool::NodePool,
    pod::Pod,
    snapshot::{Optimize, ReservedOfferingMode},
};
use scheduling::{Effort, ExistingNode, Host, Input, Options, Pool};

use super::overlays;
use crate::{
    freed,
    inventory::{Inventory, StateNode, is_daemon},
};

/// Data about a cluster that all solves of a turn share.
pub(crate) struct PlanningContext<'a> {
    snapshot: &'a Snapshot,
    /// NodePools that may launch nodes for pods, in order of precedence.
    pub(crate) pools: Vec<&'a NodePool>,
    /// Instance types of every NodePool, with overlays applied.
    pub(crate) types: BTreeMap<&'a NodePoolName, Arc<Vec<InstanceType>>>,
    /// Number of free instances per reservation that are kept for pods of nodes terminated ahead of their replacement. They are
    /// left out of `types`.
    pub(crate) kept: BTreeMap<&'a str, u32>,
    daemons: Vec<Cow<'a, Pod>>,
    /// Attach limits as the EBS CSI driver will report them, by the number of EBS volumes of the instance type.
    attach_limits: BTreeMap<u32, BTreeMap<String, u32>>,
    /// ResourceSlices of complete pools, by node.
    slices: BTreeMap<&'a NodeName, Vec<&'a ResourceSlice>>,
}

/// Name of the EBS CSI driver.
const EBS: &str = "ebs.csi.aws.com";

/// Pods to place in one solve, and the nodes that are removed or may not take them.
pub(crate) struct SolveRequest<'q, 'p> {
    pub(crate) pods: Vec<&'q Pod>,
    /// Whether each pod is moved voluntarily.
    pub(crate) moved: Vec<bool>,
    /// Indexes of state nodes that the solve removes.
    pub(crate) gone: &'p BTreeSet<usize>,
    /// State nodes that take no pods that are moved voluntarily.
    pub(crate) cooling_down: &'p BTreeSet<usize>,
    /// State nodes that take no pods.
    pub(crate) unavailable: &'p BTreeSet<usize>,
    pub(crate) reserved: ReservedOfferingMode,
    pub(crate) effort: Effort,
}

impl<'a> PlanningContext<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let all: Vec<&NodePool> = snapshot.node_pools.iter().collect();
        let mut types = overlays::applied(snapshot, &all);
        let kept = leave_out(&mut types, freed::by_reservation(snapshot));
        let instance_types = types.values().flat_map(|types| types.iter());
        let limits = instance_types.filter_map(|instance_type| instance_type.ebs_attach_limit);
        let limits = limits.filter(|_| snapshot.settings.optimize == Optimize::Cost);
        let attach_limits = limits.map(|limit| (limit, [(EBS.to_owned(), limit)].into()));
        Self {
            snapshot,
            pools: usable_pools(snapshot),
            attach_limits: attach_limits.collect(),
            types,
            kept,
            slices: slices_by_node(&snapshot.devices.slices),
            daemons: daemons(snapshot),
        }
    }

    /// Planning context of another snapshot with the same NodePools, instance types and DaemonSets.
    pub(crate) fn of_another<'s>(&self, snapshot: &'s Snapshot) -> PlanningContext<'s>
    where
        'a: 's,
    {
        PlanningContext {
            snapshot,
            pools: self.pools.clone(),
            types: self.types.clone(),
            kept: self.kept.clone(),
            daemons: self.daemons.clone(),
            attach_limits: self.attach_limits.clone(),
            slices: self.slices.clone(),
        }
    }

    /// Returns the planning context with one more available instance in the reservation.
    pub(crate) fn crediting(&self, reservation: &str) -> Self {
        let mut planning = self.of_another(self.snapshot);
        let is_of = |offering: &Offering| {
            let own = offering.reservation.as_ref();
            own.is_some_and(|own| own.id == reservation)
        };
        let offers = |instance_type: &InstanceType| instance_type.offerings.iter().any(is_of);
        for types in planning.types.values_mut() {
            if !types.iter().any(offers) {
                continue;
            }
            let offerings = Arc::make_mut(types)
                .iter_mut()
                .flat_map(|instance_type| &mut instance_type.offerings);
            for offering in offerings {
                if let Some(own) = &mut offering.reservation
                    && own.id == reservation
                {
                    own.capacity = own.capacity.saturating_add(1);
                    offering.available |= own.is_full;
                }
            }
        }
        planning
    }

    fn options(&self, reserved: ReservedOfferingMode, effort: Effort) -> Options<'a> {
        let settings = &self.snapshot.settings;
        let counts_reservations = settings.feature_gates.get("ReservedCapacity") != Some(&false);
        Options {
            preference_policy: settings.preference_policy,
            min_values_policy: settings.min_values_policy,
            reserved: counts_reservations.then_some(reserved),
            optimize: settings.optimize,
            effort,
            preference_worth: settings.preference_worth,
            well_known_labels: &settings.well_known_labels,
            reservation_id_label: &settings.reservation_id_label,
        }
    }

    pub(crate) fn solver_input<'q>(
        &'q self,
        inventory: &'q Inventory<'a>,
        request: SolveRequest<'q, '_>,
    ) -> Input<'q> {
        Input {
            options: self.options(request.reserved, request.effort),
            pods: request.pods,
            moved: request.moved,
            pools: self.pools(inventory, request.gone),
            nodes: self
                .destinations(inventory, request.gone, request.unavailable)
                .map(|(at, state_node)| ExistingNode {
                    cooling_down: request.cooling_down.contains(&at),
                    ..self.existing_node(state_node)
                })
                .collect(),
            hosts: hosts(self.snapshot, inventory),
            daemons: self.daemons.iter().map(Cow::as_ref).collect(),
            namespaces: &self.snapshot.namespaces,
            storage: &self.snapshot.storage,
            devices: self.counts_claims().then_some(&self.snapshot.devices),
        }
    }

    /// State nodes that a solver input lists as nodes, in its order, with their index in the inventory.
    pub(crate) fn destinations<'q>(
        &'q self,
        inventory: &'q Inventory<'a>,
        gone: &BTreeSet<usize>,
        unavailable: &BTreeSet<usize>,
    ) -> impl Iterator<Item = (usize, &'q StateNode<'a>)> {
        let state_nodes = inventory.state_nodes.iter().enumerate();
        state_nodes.filter(|(at, state_node)| {
            !state_node.deleting && !gone.contains(at) && !unavailable.contains(at)
        })
    }

    /// NodePools of a solver input with their instance types, in its order.
    pub(crate) fn offering(&self) -> impl Iterator<Item = (&'a NodePool, &Arc<Vec<InstanceType>>)> {
        let pools = self.pools.iter().copied();
        pools.filter_map(|pool| {
            let types = self.types.get(&pool.name)?;
            (!types.is_empty()).then_some((pool, types))
        })
    }

    /// Remaining limits of each NodePool in the order of a solver input, not counting the state nodes in `gone`.
    pub(crate) fn remaining(
        &self,
        inventory: &Inventory<'_>,
        gone: &BTreeSet<usize>,
    ) -> Vec<Resources> {
        let pools = self.offering();
        let remaining = pools.map(|(pool, _)| remaining(pool, inventory, gone));
        remaining.collect()
    }

    fn pools<'q>(&'q self, inventory: &'q Inventory<'a>, gone: &BTreeSet<usize>) -> Vec<Pool<'q>> {
        let pools = self.offering().map(|(pool, types)| Pool {
            name: &pool.name,
            labels: labels(pool),
            requirements: &pool.template.requirements,
            taints: &pool.template.taints,
            types,
            surcharge: self.snapshot.surcharge(pool).total(),
            weight: pool.weight,
            remaining: remaining(pool, inventory, gone),
        });
        pools.collect()
    }

    /// Attach limits by instance type, used until the CSI driver reports those of the node.
    fn attach_limits_of_type(&self, state_node: &StateNode<'a>) -> Option<&BTreeMap<String, u32>> {
        let limit = self.type_of(state_node)?.ebs_attach_limit?;
        self.attach_limits.get(&limit)
    }

    fn existing_node<'q>(&'q self, state_node: &'q StateNode<'a>) -> ExistingNode<'q> {
        let mut available = state_node.allocatable.clone();
        let mut daemon_requests = Resources::default();
        let mut holding = Vec::new();
        for pod in &state_node.pods {
            available.subtract(&pod.requests);
            if is_daemon(pod) {
                daemon_requests.add(&pod.requests);
            }
            if !pod.host_ports.is_empty() || !pod.volumes.is_empty() {
                holding.push(*pod);
            }
        }
        let limits = &self.snapshot.storage.attach_limits;
        let of_node = state_node.node.and_then(|node| limits.get(&node.name));
        let of_node = of_node.filter(|limits| !limits.is_empty());
        ExistingNode {
            name: state_node.name,
            hostname: state_node.hostname(),
            labels: &state_node.labels,
            taints: state_node.taints.clone(),
            initialized: state_node.initialized,
            cooling_down: false,
            registered: state_node.node.is_some(),
            available,
            daemon_requests,
            pods: holding,
            attach_limits: of_node.or_else(|| self.attach_limits_of_type(state_node)),
            devices: self.devices_of(state_node),
        }
    }

    fn counts_claims(&self) -> bool {
        self.snapshot.settings.device_claims
    }

    /// Devices that are published for the node, or those of its instance type until the node is initialized
    /// (docs/spec/v1.15.md#dra-planning).
    fn devices_of<'q>(&'q self, state_node: &'q StateNode<'a>) -> Vec<&'q Device> {
        if !self.counts_claims() {
            return Vec::new();
        }
        match state_node.node.filter(|_| state_node.initialized) {
            Some(node) => {
                let slices = self.slices.get(&node.name).into_iter().flatten();
                slices.flat_map(|slice| &slice.devices).collect()
            }
            None => {
                let known = self.type_of(state_node).into_iter();
                known
                    .flat_map(|instance_type| &instance_type.devices)
                    .collect()
            }
        }
    }

    fn type_of(&self, state_node: &StateNode<'a>) -> Option<&InstanceType> {
        let pool = NodePoolName::from(state_node.labels.get(NODE_POOL)?.as_str());
        let name = state_node.labels.get(INSTANCE_TYPE)?;
        let mut types = self.types.get(&pool)?.iter();
        types.find(|instance_type| instance_type.name == *name)
    }
}

/// Removes kept instances from reservations, and returns how many of them are free.
fn leave_out<'a>(
    types: &mut BTreeMap<&NodePoolName, Arc<Vec<InstanceType>>>,
    mut kept: BTreeMap<&'a str, u32>,
) -> BTreeMap<&'a str, u32> {
    let is_kept = |offering: &Offering| {
        let own = offering.reservation.as_ref();
        own.is_some_and(|own| own.capacity > 0 && kept.contains_key(own.id.as_str()))
    };
    let mut free: BTreeMap<&str, u32> = BTreeMap::new();
    for types in types.values_mut() {
        // Only the lists that change are copied; each has hundreds of instance types.
        let mut offerings = types
            .iter()
            .flat_map(|instance_type| &instance_type.offerings);
        if !offerings.any(is_kept) {
            continue;
        }
        let instance_types = Arc::make_mut(types).iter_mut();
        for offering in instance_types.flat_map(|instance_type| &mut instance_type.offerings) {
            let Some(own) = &mut offering.reservation else {
                continue;
            };
            let Some((id, number)) = kept.get_key_value(own.id.as_str()) else {
                continue;
            };
            let taken = own.capacity.min(*number);
            own.capacity -= taken;
            if own.capacity == 0 && taken > 0 {
                own.is_full |= offering.available;
                offering.available = false;
            }
            let most = free.entry(id).or_default();
            *most = taken.max(*most);
        }
    }
    kept.retain(|id, number| {
        *number = free.get(id).copied().unwrap_or(0);
        *number > 0
    });
    kept
}

fn remaining(pool: &NodePool, inventory: &Inventory<'_>, gone: &BTreeSet<usize>) -> Resources {
    let mut remaining = pool.limits.clone();
    if !remaining.0.is_empty() {
        remaining.subtract(&inventory.usage_without(&pool.name, gone));
    }
    remaining
}

/// Dynamic NodePools that are ready and offer any instance type, in order of precedence
/// (docs/spec/scheduling.md#simulation-setup: by weight, then by name from the end).
fn usable_pools(snapshot: &Snapshot) -> Vec<&NodePool> {
    let mut pools: Vec<&NodePool> = snapshot
        .node_pools
        .iter()
        .filter(|pool| pool.replicas.is_none())
        .filter(|pool| pool.not_ready.is_none() && pool.deleted_at.is_none())
        .collect();
    pools.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
    pools
}

/// Labels that all nodes of a NodePool have.
pub(crate) fn labels(pool: &NodePool) -> BTreeMap<String, String> {
    let class = &pool.template.node_class;
    let mut labels = pool.template.labels.clone();
    labels.insert(NODE_POOL.to_owned(), pool.name.0.clone());
    let class_label = format!("{}/{}", class.group, class.kind.to_lowercase());
    labels.insert(class_label, class.name.0.clone());
    labels
}

fn hosts<'a>(snapshot: &'a Snapshot, inventory: &Inventory<'a>) -> Vec<Host<'a>> {
    let hosts = snapshot.nodes.iter().map(|node| Host {
        name: node.name.as_str(),
        labels: &node.labels,
        taints: &node.taints,
        pods: inventory.pods_on(&node.name).to_vec(),
    });
    hosts.collect()
}

/// One pod per DaemonSet: its newest existing pod, which shows changes by admission webhooks, or else its template.
fn daemons(snapshot: &Snapshot) -> Vec<Cow<'_, Pod>> {
    let mut newest: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| is_daemon(pod)) {
        if let Some(owner) = &pod.owner {
            let key = (pod.key.namespace.as_str(), owner.name.as_str());
            let known = newest.entry(key).or_insert(pod);
            if (known.created_at, &known.key) < (pod.created_at, &pod.key) {
                *known = pod;
            }
        }
    }
    let chosen = snapshot.daemon_sets.iter().map(|set| {
        let template = &set.pod;
        let key = (set.key.namespace.as_str(), set.key.name.as_str());
        match newest.get(&key) {
            // Existing pods are pinned to their node by required affinity.
            Some(real) if !template.node_affinity.required.is_empty() => {
                let mut pod = (*real).clone();
                pod.node_affinity.required = template.node_affinity.required.clone();
                Cow::Owned(pod)
            }
            Some(real) => Cow::Borrowed(*real),
            None => Cow::Borrowed(template),
        }
    });
    let counts_claims = snapshot.settings.device_claims;
    chosen
        .filter(|pod| counts_claims || !pod.resource_claims)
        .collect()
}

#[cfg(test)]
mod tests;
