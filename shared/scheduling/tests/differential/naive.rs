//! Naive reference: compares every pod with every node, type and offering, and keeps no state but the placements.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{
    InstanceType, NanosPerHour, Offering, Resources, labels,
    pod::Pod,
    requirement::Requirements,
    resources::{CPU, MEMORY, NODES},
    selector::{NodeSelectorRequirement, Operator},
    taint::Taint,
};
use scheduling::{ExistingNode, Input, Pool};

/// Decisions by name, without order.
#[derive(Debug, PartialEq)]
pub(crate) struct Decision {
    /// NodePool, pods and instance types of each new node.
    pub(crate) new: BTreeSet<(String, BTreeSet<String>, BTreeSet<String>)>,
    pub(crate) existing: BTreeMap<String, BTreeSet<String>>,
    pub(crate) unplaced: BTreeSet<String>,
}

/// Choice among zones with equally few pods.
#[derive(Clone, Copy, PartialEq)]
enum Ties {
    Cheapest,
    FirstByName,
}

pub(crate) fn decide(input: &Input<'_>) -> Decision {
    let first = Search::run(input, Ties::Cheapest);
    if first.unplaced.is_empty() {
        return first;
    }
    let second = Search::run(input, Ties::FirstByName);
    if second.unplaced.len() < first.unplaced.len() {
        second
    } else {
        first
    }
}

/// Values that each label may still have. Missing keys are unrestricted.
type Allowed = BTreeMap<String, BTreeSet<String>>;

struct Claim<'a> {
    pool: &'a Pool<'a>,
    allowed: Allowed,
    types: Vec<&'a InstanceType>,
    pods: Vec<&'a Pod>,
}

struct TestNode<'a> {
    node: &'a ExistingNode<'a>,
    left: Resources,
    pods: Vec<&'a Pod>,
    new: Vec<&'a Pod>,
}

struct Search<'a> {
    input: &'a Input<'a>,
    ties: Ties,
    machines: Vec<TestNode<'a>>,
    claims: Vec<Claim<'a>>,
    limits: Vec<Resources>,
    /// Placed pods, with the zone if it was known when the pod was placed.
    placed: Vec<(&'a Pod, Option<String>)>,
}

impl<'a> Search<'a> {
    fn run(input: &'a Input<'a>, ties: Ties) -> Decision {
        let mut machines: Vec<TestNode<'a>> = input.nodes.iter().map(TestNode::new).collect();
        machines.sort_by_key(|machine| (!machine.node.initialized, machine.node.name));
        let bound = input.hosts.iter().flat_map(|host| {
            let zone = host.labels.get(labels::ZONE);
            host.pods.iter().map(move |pod| (*pod, zone.cloned()))
        });
        let mut search = Self {
            input,
            ties,
            machines,
            claims: Vec::new(),
            limits: input
                .pools
                .iter()
                .map(|pool| pool.remaining.clone())
                .collect(),
            placed: bound.collect(),
        };
        let mut pods: Vec<&Pod> = input.pods.clone();
        pods.sort_by_key(|pod| {
            let (cpu, memory) = (pod.requests.get(CPU), pod.requests.get(MEMORY));
            (-cpu, -memory, pod.created_at, pod.uid.clone())
        });
        let mut queue = VecDeque::from(pods);
        let mut failures = 0;
        // Unplaced pods are tried again after others have been placed; a full round without a placement ends the loop.
        while let Some(pod) = queue.pop_front() {
            if search.place(pod) {
                failures = 0;
            } else {
                queue.push_back(pod);
                failures += 1;
            }
            if failures > 0 && failures >= queue.len() {
                break;
            }
        }
        search.decision(queue)
    }

    fn place(&mut self, pod: &'a Pod) -> bool {
        for at in 0..self.machines.len() {
            if self.fits_machine(pod, &self.machines[at]) {
                self.machines[at].take(pod);
                let zone = self.machines[at].node.labels.get(labels::ZONE).cloned();
                self.placed.push((pod, zone));
                return true;
            }
        }
        self.claims.sort_by_key(|claim| claim.pods.len());
        for at in 0..self.claims.len() {
            if let Some((allowed, types)) = self.with(pod, &self.claims[at]) {
                self.commit(at, pod, allowed, types);
                return true;
            }
        }
        for (at, pool) in self.input.pools.iter().enumerate() {
            if self.limits[at].0.get(NODES).is_some_and(|left| *left <= 0) {
                continue;
            }
            let empty = Claim {
                pool,
                allowed: of_pool(pool),
                types: pool
                    .types
                    .iter()
                    .filter(|instance_type| within(&instance_type.capacity, &self.limits[at]))
                    .collect(),
                pods: Vec::new(),
            };
            if let Some((allowed, types)) = self.with(pod, &empty) {
                for (name, left) in &mut self.limits[at].0 {
                    let amounts = types
                        .iter()
                        .map(|instance_type| instance_type.capacity.get(name));
                    *left -= if name == NODES {
                        1
                    } else {
                        amounts.max().unwrap_or(0)
                    };
                }
                self.claims.push(empty);
                self.commit(self.claims.len() - 1, pod, allowed, types);
                return true;
            }
        }
        false
    }

    fn commit(&mut self, at: usize, pod: &'a Pod, allowed: Allowed, types: Vec<&'a InstanceType>) {
        let zones = allowed.get(labels::ZONE).filter(|zones| zones.len() == 1);
        let zone = zones.and_then(|zones| zones.first()).cloned();
        self.placed.push((pod, zone));
        let claim = &mut self.claims[at];
        (claim.allowed, claim.types) = (allowed, types);
        claim.pods.push(pod);
    }

    fn fits_machine(&self, pod: &Pod, machine: &TestNode<'_>) -> bool {
        let label = |key: &str| machine.node.labels.get(key);
        let selected = wanted(pod).iter().all(|entry| {
            let value = label(&entry.key);
            match entry.operator {
                Operator::In => value.is_some_and(|value| entry.values.contains(value)),
                Operator::NotIn => value.is_none_or(|value| !entry.values.contains(value)),
                Operator::Exists => value.is_some(),
                other @ (Operator::DoesNotExist
                | Operator::Gt
                | Operator::Lt
                | Operator::Gte
                | Operator::Lte) => {
                    panic!("{other:?} is not made here")
                }
            }
        });
        let zones = self.zones(pod, &label(labels::ZONE).into_iter().cloned().collect());
        selected
            && tolerates(pod, machine.node.taints.iter().copied())
            && pod.requests.fits(&machine.left)
            && !repels(pod, machine.pods.iter().chain(&machine.new).copied())
            && (pod.topology_spread.is_empty() || !zones.is_empty())
    }

    /// Claim with one more pod.
    fn with(&self, pod: &Pod, claim: &Claim<'a>) -> Option<(Allowed, Vec<&'a InstanceType>)> {
        if !tolerates(pod, claim.pool.taints) || repels(pod, claim.pods.iter().copied()) {
            return None;
        }
        let mut allowed = claim.allowed.clone();
        for entry in wanted(pod) {
            if !allowed.contains_key(&entry.key) && !is_well_known(&entry.key) {
                return None;
            }
            let values = allowed
                .entry(entry.key.clone())
                .or_insert_with(|| every_value(&entry.key, claim.pool.types));
            values.retain(|value| match entry.operator {
                Operator::In => entry.values.contains(value),
                Operator::NotIn => !entry.values.contains(value),
                Operator::Exists => true,
                other @ (Operator::DoesNotExist
                | Operator::Gt
                | Operator::Lt
                | Operator::Gte
                | Operator::Lte) => {
                    panic!("{other:?} is not made here")
                }
            });
            if values.is_empty() {
                return None;
            }
        }
        let mut total = pod.requests.clone();
        claim
            .pods
            .iter()
            .for_each(|other| total.add(&other.requests));
        let possible = |allowed: Allowed| {
            let types = claim.types.iter().copied();
            let types: Vec<_> = types
                .filter(|instance_type| {
                    total.fits(&instance_type.allocatable())
                        && price(instance_type, &allowed).is_some()
                })
                .collect();
            (!types.is_empty()).then_some((allowed, types))
        };
        if pod.topology_spread.is_empty() {
            return possible(allowed);
        }
        let open = every_value(labels::ZONE, claim.pool.types);
        let zones = self.zones(pod, allowed.get(labels::ZONE).unwrap_or(&open));
        let fitting = zones.into_iter().filter_map(|zone| {
            let mut allowed = allowed.clone();
            allowed.insert(labels::ZONE.to_owned(), BTreeSet::from([zone]));
            possible(allowed)
        });
        let mut fitting: Vec<_> = fitting.collect();
        if self.ties == Ties::Cheapest {
            fitting.sort_by_key(|(allowed, types)| {
                types
                    .iter()
                    .filter_map(|instance_type| price(instance_type, allowed))
                    .min()
            });
        }
        fitting.into_iter().next()
    }

    /// Zones with the fewest pods among those that the spread constraint allows.
    fn zones(&self, pod: &Pod, open: &BTreeSet<String>) -> Vec<String> {
        let Some(constraint) = pod.topology_spread.first() else {
            return Vec::new();
        };
        let selector = constraint.selector.as_ref().unwrap();
        let mut counts: BTreeMap<String, i32> = BTreeMap::new();
        for pool in &self.input.pools {
            let zones = of_pool(pool).remove(labels::ZONE);
            let zones = zones.unwrap_or_else(|| every_value(labels::ZONE, pool.types));
            counts.extend(zones.into_iter().map(|zone| (zone, 0)));
        }
        for node in self.input.nodes.iter().filter(|node| node.registered) {
            counts.extend(node.labels.get(labels::ZONE).map(|zone| (zone.clone(), 0)));
        }
        for (other, zone) in &self.placed {
            if let Some(zone) = zone
                && selector.matches(&other.labels)
            {
                *counts.entry(zone.clone()).or_default() += 1;
            }
        }
        let itself = i32::from(selector.matches(&pod.labels));
        let least = counts.values().min().copied().unwrap_or(0);
        counts.retain(|zone, count| {
            open.contains(zone) && *count + itself - least <= constraint.max_skew
        });
        let emptiest = counts.values().min().copied();
        counts.retain(|_, count| Some(*count) == emptiest);
        counts.into_keys().collect()
    }

    fn decision(self, left: VecDeque<&Pod>) -> Decision {
        let names = |pods: &[&Pod]| pods.iter().map(|pod| pod.key.name.clone()).collect();
        let new = self.claims.iter().map(|claim| {
            let types = claim
                .types
                .iter()
                .map(|instance_type| instance_type.name.clone())
                .collect();
            (claim.pool.name.0.clone(), names(&claim.pods), types)
        });
        let used = self
            .machines
            .iter()
            .filter(|machine| !machine.new.is_empty());
        Decision {
            new: new.collect(),
            existing: used
                .map(|machine| (machine.node.name.to_owned(), names(&machine.new)))
                .collect(),
            unplaced: left.iter().map(|pod| pod.key.name.clone()).collect(),
        }
    }
}

impl<'a> TestNode<'a> {
    fn new(node: &'a ExistingNode<'a>) -> Self {
        Self {
            node,
            left: node.available.clone(),
            pods: node.pods.clone(),
            new: Vec::new(),
        }
    }

    fn take(&mut self, pod: &'a Pod) {
        self.left.subtract(&pod.requests);
        self.new.push(pod);
    }
}

fn wanted(pod: &Pod) -> Vec<NodeSelectorRequirement> {
    let selected = pod
        .node_selector
        .iter()
        .map(|(key, value)| NodeSelectorRequirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
            min_values: None,
        });
    let required = pod.node_affinity.required.first();
    let required = required
        .into_iter()
        .flat_map(|term| term.match_expressions.clone());
    selected.chain(required).collect()
}

fn of_pool(pool: &Pool<'_>) -> Allowed {
    let mut all = Requirements::from_selector(pool.requirements);
    for label in Requirements::from_labels(&pool.labels).0.into_values() {
        all.add(label);
    }
    let listed = all.0.into_values();
    listed
        .map(|requirement| (requirement.key, requirement.values))
        .collect()
}

fn is_well_known(key: &str) -> bool {
    labels::WELL_KNOWN.contains(&key)
}

fn every_value(key: &str, types: &[InstanceType]) -> BTreeSet<String> {
    let listed = types
        .iter()
        .filter_map(|instance_type| instance_type.requirements.get(key));
    listed
        .flat_map(|requirement| requirement.values.clone())
        .collect()
}

/// Lowest price of the type, if any offering may be used.
fn price(instance_type: &InstanceType, allowed: &Allowed) -> Option<NanosPerHour> {
    let admits = |key: &str, value: &str| allowed.get(key).is_none_or(|all| all.contains(value));
    let agrees = instance_type
        .requirements
        .0
        .values()
        .all(|own| own.values.iter().any(|value| admits(&own.key, value)));
    let usable = |offering: &&Offering| {
        offering.available
            && admits(labels::ZONE, &offering.zone)
            && admits(labels::CAPACITY_TYPE, offering.capacity_type.as_str())
    };
    let prices = instance_type
        .offerings
        .iter()
        .filter(usable)
        .map(|offering| offering.price);
    prices.min().filter(|_| agrees)
}

fn within(requests: &Resources, left: &Resources) -> bool {
    left.iter()
        .all(|(name, left)| name == NODES || requests.get(name) <= left)
}

fn tolerates<'t>(pod: &Pod, taints: impl IntoIterator<Item = &'t Taint>) -> bool {
    let tolerated = |taint: &Taint| {
        pod.tolerations
            .iter()
            .any(|toleration| toleration.tolerates(taint))
    };
    taints.into_iter().all(tolerated)
}

/// Whether anti-affinity of either side excludes a shared host.
fn repels<'p>(pod: &Pod, others: impl IntoIterator<Item = &'p Pod>) -> bool {
    let keeps_off = |one: &Pod, other: &Pod| {
        let mut terms = one.pod_anti_affinity.required.iter();
        terms.any(|term| {
            term.selector
                .as_ref()
                .is_some_and(|s| s.matches(&other.labels))
        })
    };
    others
        .into_iter()
        .any(|other| keeps_off(pod, other) || keeps_off(other, pod))
}
