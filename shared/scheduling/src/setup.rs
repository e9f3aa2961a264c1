//! Prepares the [`PlacementContext`] of a solve: interns, indexes and counts nodes, hosts and pods once.

mod places;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    PodKey, labels,
    pod::{Pod, PodPhase},
    snapshot::Optimize,
    taint::TaintEffect,
};

use self::places::PlaceInterner;
use crate::{
    algebra::{Algebra, Sym, Undefined},
    devices::Devices,
    input::{ExistingNode, Input},
    node::{AttachedVolumes, Node},
    offered_domains::OfferedDomains,
    placement_context::PlacementContext,
    precomputed_indexes::PrecomputedIndexes,
    reservations::Reservations,
    strategy::{LimitAccounting, TieBreak},
    template::Daemon,
    tolerance::{Tolerance, TolerationsId},
    topology::{
        GroupId, HostLabels, Place, Topology,
        classes::{ClassId, Classes},
        daemons::Daemons,
        group::GroupKind,
        universe::KnownDomains,
    },
    volumes::Volumes,
};

/// Prepared start of a solve.
#[derive(Clone)]
pub(crate) struct Setup<'a> {
    pub(crate) context: PlacementContext<'a>,
    /// Existing nodes in the order in which they are tried.
    pub(crate) nodes: Vec<Node<'a>>,
    /// First free host index for a new node.
    pub(crate) next_host: u32,
    /// Whether any pod has a topology constraint.
    pub(crate) has_topology: bool,
    /// Tolerating PreferNoSchedule is a relaxation step only if any taint has that effect
    /// (docs/spec/scheduling.md#preferences).
    pub(crate) may_tolerate: bool,
}

/// Counts that a bound pod contributes to topology.
pub(crate) struct PodContribution {
    pub(crate) class: ClassId,
    pub(crate) host: usize,
    /// Whether groups that select the pod count it; pods that are being deleted are not counted.
    pub(crate) is_counted: bool,
    /// Inverse anti-affinity groups that the pod is recorded in.
    pub(crate) repelling: Vec<GroupId>,
}

/// Counts of pods and nodes that a simulation may remove again.
#[derive(Default)]
pub(crate) struct Contributions<'a> {
    /// Contributions by index into the input's pods.
    pub(crate) pods: BTreeMap<usize, PodContribution>,
    /// Registered nodes, by index into the input's nodes.
    pub(crate) nodes: BTreeMap<usize, HostLabels<'a>>,
    /// Per anti-affinity group, its owners; the first owner's tolerations decide which domains are known.
    pub(crate) owners: BTreeMap<GroupId, Vec<AntiAffinityOwner>>,
}

/// Bound pod with required anti-affinity.
pub(crate) struct AntiAffinityOwner {
    /// Index into the input's pods, if it is among them.
    pub(crate) pod: Option<usize>,
    pub(crate) tolerations: TolerationsId,
}

pub(crate) fn set_up<'a>(precomputed: &PrecomputedIndexes<'a>, input: &Rc<Input<'a>>) -> Setup<'a> {
    set_up_baseline(precomputed, input, input.pods.len()).0
}

/// Prepares the context of an input in which only the first `first` pods are placed now. The others stay bound.
pub(crate) fn set_up_baseline<'a>(
    precomputed: &PrecomputedIndexes<'a>,
    input: &Rc<Input<'a>>,
    first: usize,
) -> (Setup<'a>, Contributions<'a>) {
    let mut contributions = Contributions::default();
    let mut algebra = precomputed.algebra.clone();
    let mut tolerance = precomputed.tolerance.clone();
    let (sources, daemons) = (&precomputed.sources, &precomputed.daemons);
    let catalogs = precomputed.catalogs.clone();
    let volumes = Rc::new(Volumes::new(input.storage));
    let moving = pods_moving(input, first);
    let with_anti_affinity = daemons.iter().map(|daemon| daemon.pod);
    let with_anti_affinity =
        with_anti_affinity.filter(|daemon| counts_anti_affinity_of(input, daemon));
    let with_anti_affinity: Vec<&Pod> = repelling_pods(input).chain(with_anti_affinity).collect();
    let topology_keys: BTreeSet<&str> = topology_keys(input, &with_anti_affinity);
    let has_topology = !topology_keys.is_empty();
    let symbols: Vec<Sym> = topology_keys.iter().map(|k| algebra.symbol(k)).collect();
    let universe = KnownDomains::new(symbols, sources, &catalogs, &mut algebra);
    let keys = relevant_keys(input, &volumes, &topology_keys);
    let mut places = PlaceInterner::new(&keys, &mut algebra, &mut tolerance);
    let hosts: Vec<HostLabels<'a>> = input
        .hosts
        .iter()
        .map(|host| places.place(host.labels, host.hostname(), host.taints.iter().collect()))
        .collect();
    let mut order: Vec<(usize, &ExistingNode<'a>)> = input.nodes.iter().enumerate().collect();
    order.sort_by_key(|(_, node)| (!node.initialized, node.name));
    let mut labelled = Vec::new();
    let mut found = Vec::with_capacity(order.len());
    for (index, node) in order {
        let place = places.place(node.labels, node.hostname, node.taints.clone());
        found.push((index, node, place.place));
        if node.registered {
            labelled.push(place);
            contributions.nodes.insert(index, place);
        }
    }
    let next_host = places.next_host();
    let classes = if has_topology {
        Classes::of(input.pods.iter().chain(&with_anti_affinity).copied())
    } else {
        Classes::default()
    };
    let no_taints = tolerance.taints(Vec::new());
    let hostname = algebra.symbol(labels::HOSTNAME);
    let mut topology = Topology::new(classes, universe, input, hosts, labelled);
    if has_topology && input.options.optimize == Optimize::Cost {
        let daemons: Vec<&Pod> = daemons.iter().map(|daemon| daemon.pod).collect();
        topology.expect_daemons(&daemons, &mut algebra, &mut tolerance);
    }
    if has_topology {
        count_bound(
            input,
            &moving,
            &mut topology,
            &mut algebra,
            &mut tolerance,
            &mut contributions,
        );
    }
    let devices = Devices::new(input, &catalogs);
    let leaving = input.pods.iter().take(first).copied();
    let devices = devices.map(|devices| devices.without(leaving));
    let reserved = &precomputed.reserved;
    let mut context = PlacementContext {
        reservations: Reservations::new(input.options.reserved, reserved),
        input: Rc::clone(input),
        algebra,
        tolerance,
        dimensions: Rc::clone(&precomputed.dimensions),
        catalogs,
        templates: precomputed.node_templates(&input.pools),
        topology,
        volumes,
        devices,
        hostname,
        no_taints,
        prices: BTreeMap::new(),
        ties: TieBreak::default(),
        on_offer: OfferedDomains::of(input.options.optimize),
        counted_as: LimitAccounting::default(),
    };
    let nodes = found
        .into_iter()
        .map(|(index, node, place)| existing_node(index, node, &place, daemons, &mut context))
        .collect();
    let taints = input.pools.iter().flat_map(|pool| pool.taints);
    let mut taints = taints.chain(input.nodes.iter().flat_map(|n| n.taints.iter().copied()));
    let setup = Setup {
        context,
        nodes,
        next_host,
        has_topology,
        may_tolerate: taints.any(|taint| taint.effect == TaintEffect::PreferNoSchedule),
    };
    (setup, contributions)
}

/// Bound pods among the first pods. They are placed again, so they do not count on the nodes that they are bound to.
fn pods_moving<'a>(input: &Input<'a>, first: usize) -> BTreeSet<&'a PodKey> {
    let bound = input.pods.iter().take(first);
    let bound = bound.filter(|pod| pod.node_name.is_some());
    bound.map(|pod| &pod.key).collect()
}

/// Bound pods with required anti-affinity.
fn repelling_pods<'a>(input: &Input<'a>) -> impl Iterator<Item = &'a Pod> {
    let bound = input.hosts.iter().flat_map(|host| &host.pods).copied();
    bound.filter(|pod| !pod.pod_anti_affinity.required.is_empty() && !is_terminal(pod))
}

/// Whether the anti-affinity of a daemon counts before the daemon runs. Upstream counts running daemons only.
fn counts_anti_affinity_of(input: &Input<'_>, daemon: &Pod) -> bool {
    input.options.optimize == Optimize::Cost && !daemon.pod_anti_affinity.required.is_empty()
}

fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

fn topology_keys<'a>(input: &Input<'a>, with_anti_affinity: &[&'a Pod]) -> BTreeSet<&'a str> {
    let mut keys = BTreeSet::new();
    for pod in &input.pods {
        keys.extend(pod.topology_spread.iter().map(|c| c.topology_key.as_str()));
        for affinity in [&pod.pod_affinity, &pod.pod_anti_affinity] {
            let preferred = affinity.preferred.iter().map(|(_, term)| term);
            let terms = affinity.required.iter().chain(preferred);
            keys.extend(terms.map(|term| term.topology_key.as_str()));
        }
    }
    for pod in with_anti_affinity {
        let terms = pod.pod_anti_affinity.required.iter();
        keys.extend(terms.map(|term| term.topology_key.as_str()));
    }
    keys.into_iter()
        .map(|key| input.options.topology_key(key))
        .collect()
}

/// Label keys of nodes that any pod, daemon or volume refers to.
fn relevant_keys<'a>(
    input: &Input<'a>,
    volumes: &Volumes<'a>,
    topology_keys: &BTreeSet<&'a str>,
) -> BTreeSet<String> {
    let mut keys: BTreeSet<String> = topology_keys
        .iter()
        .filter(|key| **key != labels::HOSTNAME)
        .map(|key| (*key).to_owned())
        .collect();
    for pod in input.pods.iter().chain(&input.daemons) {
        let affinity = &pod.node_affinity;
        let preferred = affinity.preferred.iter().map(|(_, term)| term);
        let terms = affinity.required.iter().chain(preferred);
        let expressions = terms.flat_map(|term| &term.match_expressions);
        let named = expressions.map(|e| e.key.as_str());
        let named = named.chain(pod.node_selector.keys().map(String::as_str));
        keys.extend(named.map(|key| labels::normalized(key).to_owned()));
        if !pod.volumes.is_empty() {
            let alternatives = volumes.alternatives(pod).unwrap_or_default();
            keys.extend(alternatives.into_iter().flat_map(|all| all.0.into_keys()));
        }
    }
    keys
}

/// Counts the bound pods that are not moved, and records their anti-affinity.
fn count_bound<'a>(
    input: &Input<'a>,
    moving: &BTreeSet<&'a PodKey>,
    topology: &mut Topology<'a>,
    algebra: &mut Algebra,
    tolerance: &mut Tolerance<'a>,
    contributions: &mut Contributions<'a>,
) {
    let bound = input.pods.iter().enumerate();
    let bound = bound.filter(|(_, pod)| pod.node_name.is_some());
    let index_of: BTreeMap<&PodKey, usize> = bound.map(|(at, pod)| (&pod.key, at)).collect();
    for (at, host) in input.hosts.iter().enumerate() {
        for pod in &host.pods {
            if is_terminal(pod) || moving.contains(&pod.key) {
                continue;
            }
            let class = topology.class_of(pod);
            let is_counted = pod.deletion.is_none();
            let mut repelling = Vec::new();
            if is_counted {
                topology.add_bound(class, at);
            }
            for term in &pod.pod_anti_affinity.required {
                let tolerations = tolerance.tolerations(&pod.tolerations, false);
                let namespace = pod.key.namespace.as_str();
                let kind = GroupKind::AntiAffinity;
                let group = topology.affinity(
                    (kind, true),
                    term,
                    namespace,
                    tolerations,
                    algebra,
                    tolerance,
                );
                topology.record_bound(group, at, algebra);
                repelling.push(group);
                let pod = index_of.get(&pod.key).copied();
                let owners = contributions.owners.entry(group).or_default();
                owners.push(AntiAffinityOwner { pod, tolerations });
            }
            if let Some(pod) = index_of.get(&pod.key) {
                let host = at;
                let contribution = PodContribution {
                    class,
                    host,
                    is_counted,
                    repelling,
                };
                contributions.pods.insert(*pod, contribution);
            }
        }
    }
}

fn existing_node<'a>(
    index: usize,
    node: &ExistingNode<'a>,
    place: &Place,
    daemons: &[Daemon<'a>],
    context: &mut PlacementContext<'a>,
) -> Node<'a> {
    let mut expected = vec![0; context.dimensions.len()];
    let mut to_come = Daemons::default();
    for (at, daemon) in daemons.iter().enumerate() {
        let tolerated = context
            .tolerance
            .tolerated_by_daemon(&daemon.pod.tolerations, place.taints);
        let suits = daemon.alternatives.iter().any(|alternative| {
            let algebra = &mut context.algebra;
            algebra
                .narrow(place.set, *alternative, Undefined::Refused)
                .is_some()
        });
        if tolerated && suits {
            crate::amounts::add(&mut expected, &daemon.requests);
            if !node.initialized {
                to_come = to_come.with(Daemons::only(at));
            }
        }
    }
    let names = context.dimensions.names().iter();
    let remaining: Box<[i64]> = names
        .zip(expected)
        .map(|(name, expected)| {
            let to_come = (expected - node.daemon_requests.get(name)).max(0);
            // A resource that the node does not have counts as zero, not as a negative amount.
            let available = node.available.0.get(name);
            available.map_or(0, |available| available.saturating_sub(to_come))
        })
        .collect();
    let mut left = node.available.0.values().chain(&remaining);
    let overcommitted = left.any(|left| *left < 0);
    let attached = node.attach_limits.map(|limits| {
        Rc::new(AttachedVolumes {
            limits,
            volumes: node
                .pods
                .iter()
                .flat_map(|pod| context.volumes.attachments(pod))
                .collect(),
        })
    });
    Node {
        index,
        set: place.set,
        taints: place.taints,
        cooling_down: node.cooling_down,
        host: place.host,
        remaining: (!overcommitted).then_some(remaining),
        ports: node
            .pods
            .iter()
            .flat_map(|pod| pod.host_ports.iter().cloned())
            .collect(),
        attached,
        devices: context.devices.as_ref().map(|known| known.taken(index)),
        daemons: to_come,
        pods: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
