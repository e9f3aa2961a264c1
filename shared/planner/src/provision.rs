//! Provisioning: pods without a place become launches, nominations and reasons (spec/scheduling §1).

mod buffers;
mod default_spread;
mod drivers;
mod intake;
mod launch;
pub(crate) mod movable;
mod overlays;
mod share;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use model::{
    InstanceType, NodePoolName, Plan, Resources, Snapshot,
    labels::NODE_POOL,
    node_pool::NodePool,
    plan::{Nomination, PodRef, Refusal, Unplaced},
    pod::Pod,
};
use scheduling::{Answer, ExistingNode, Host, Input, Options, Pool};

use self::launch::{Names, PoolLaunches};
pub use self::share::Share;
use crate::inventory::{Inventory, is_daemon};

/// What to launch for the pods that wait, which of them existing nodes can take, and why the others have no place.
pub fn provision(snapshot: &Snapshot, share: Share) -> Plan {
    provision_with(snapshot, share, scheduling::solve)
}

/// The same with the search handed in, so that a caller with a clock can time it.
pub fn provision_with(
    snapshot: &Snapshot,
    share: Share,
    mut solve: impl FnMut(&Input<'_>) -> Answer,
) -> Plan {
    let inventory = Inventory::new(snapshot);
    let mut plan = Plan::default();
    let intake = intake::intake(snapshot, &inventory);
    plan.unplaced.extend(intake.refused);
    let pods: Vec<Cow<'_, Pod>> = intake
        .pods
        .into_iter()
        .map(|pod| default_spread::with_default(pod, snapshot))
        .collect();
    let pods: Vec<Cow<'_, Pod>> = pods.into_iter().chain(buffers::pods(snapshot)).collect();
    let pools = usable_pools(snapshot);
    if pools.is_empty() {
        let text = no_pool(snapshot);
        plan.unplaced
            .extend(pods.iter().map(|pod| unplaced(pod, None, &text)));
        return plan;
    }
    if pods.is_empty() {
        return plan;
    }
    let types = overlays::applied(snapshot, &pools);
    let daemons = daemons(snapshot);
    let mut question = question(snapshot, &inventory, &pools, &types, &pods, &daemons);
    let taken = share::pods(&question.pods, share, snapshot.now);
    postpone(&taken, &mut question, &mut plan);
    let mut answer = solve(&question);
    for _ in 1..share::SEARCHES_MAX {
        if answer.new_nodes.len() <= share.launches {
            break;
        }
        let taken = share::pods_of_launches(&answer, &question, share, snapshot.now);
        postpone(&taken, &mut question, &mut plan);
        answer = solve(&question);
    }
    plan.postponed.sort();
    report(&mut plan, snapshot, &inventory, &question, &pools, answer);
    plan
}

/// Leaves all pods but those taken to the next turn.
fn postpone(taken: &[bool], question: &mut Input<'_>, plan: &mut Plan) {
    let mut taken = taken.iter();
    question.pods.retain(|pod| {
        let stays = taken.next() == Some(&true);
        if !stays && !buffers::is_virtual(pod) {
            plan.postponed.push(reference(pod));
        }
        stays
    });
}

/// Dynamic NodePools that are ready and offer any instance type, in the order in which they are tried
/// (spec/scheduling §12: by weight, then by name from the end).
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

fn no_pool(snapshot: &Snapshot) -> String {
    let unready: Vec<String> = snapshot
        .node_pools
        .iter()
        .filter_map(|pool| Some(format!("{}: {}", pool.name, pool.not_ready.as_ref()?)))
        .collect();
    if unready.is_empty() {
        "there is no NodePool that launches nodes for pods".to_owned()
    } else {
        format!("no NodePool is ready ({})", unready.join("; "))
    }
}

fn question<'a>(
    snapshot: &'a Snapshot,
    inventory: &'a Inventory<'a>,
    pools: &[&'a NodePool],
    types: &'a BTreeMap<&'a NodePoolName, Arc<Vec<InstanceType>>>,
    pods: &'a [Cow<'a, Pod>],
    daemons: &'a [Cow<'a, Pod>],
) -> Input<'a> {
    let settings = &snapshot.settings;
    let counts_reservations = settings.feature_gates.get("ReservedCapacity") != Some(&false);
    Input {
        options: Options {
            preference_policy: settings.preference_policy,
            min_values_policy: settings.min_values_policy,
            reserved: counts_reservations.then_some(settings.reserved_offering_mode),
            optimize: settings.optimize,
            well_known_labels: &settings.well_known_labels,
            reservation_id_label: &settings.reservation_id_label,
        },
        pods: pods.iter().map(Cow::as_ref).collect(),
        pools: pools
            .iter()
            .filter_map(|pool| {
                let types = types.get(&pool.name).filter(|types| !types.is_empty())?;
                Some(Pool {
                    name: &pool.name,
                    labels: labels(pool),
                    requirements: &pool.template.requirements,
                    taints: &pool.template.taints,
                    types,
                    remaining: remaining(pool, inventory),
                })
            })
            .collect(),
        nodes: existing_nodes(snapshot, inventory),
        hosts: hosts(snapshot, inventory),
        daemons: daemons.iter().map(Cow::as_ref).collect(),
        namespaces: &snapshot.namespaces,
        storage: &snapshot.storage,
    }
}

/// What nodes of a NodePool are labelled with, whatever they become.
fn labels(pool: &NodePool) -> BTreeMap<String, String> {
    let class = &pool.template.node_class;
    let mut labels = pool.template.labels.clone();
    labels.insert(NODE_POOL.to_owned(), pool.name.0.clone());
    let class_label = format!("{}/{}", class.group, class.kind.to_lowercase());
    labels.insert(class_label, class.name.0.clone());
    labels
}

fn remaining(pool: &NodePool, inventory: &Inventory<'_>) -> Resources {
    let mut remaining = pool.limits.clone();
    if !remaining.0.is_empty() {
        remaining.subtract(&inventory.usage(&pool.name));
    }
    remaining
}

fn existing_nodes<'a>(
    snapshot: &'a Snapshot,
    inventory: &'a Inventory<'a>,
) -> Vec<ExistingNode<'a>> {
    let staying = inventory
        .machines
        .iter()
        .filter(|machine| !machine.deleting);
    staying
        .map(|machine| {
            let mut available = machine.allocatable.clone();
            let mut daemon_requests = Resources::default();
            let mut holding = Vec::new();
            for pod in &machine.pods {
                available.subtract(&pod.requests);
                if is_daemon(pod) {
                    daemon_requests.add(&pod.requests);
                }
                if !pod.host_ports.is_empty() || !pod.volumes.is_empty() {
                    holding.push(*pod);
                }
            }
            let node_name = machine.node.map(|node| &node.name);
            ExistingNode {
                name: machine.name,
                hostname: machine.hostname(),
                labels: &machine.labels,
                taints: machine.taints.clone(),
                initialized: machine.initialized,
                registered: machine.node.is_some(),
                available,
                daemon_requests,
                pods: holding,
                attach_limits: node_name.and_then(|name| snapshot.storage.attach_limits.get(name)),
            }
        })
        .collect()
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

/// One pod per DaemonSet: its newest real one, which shows what admission made of the template, else the template's.
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
            // A real pod is pinned to its node by required affinity.
            Some(real) if !template.node_affinity.required.is_empty() => {
                let mut pod = (*real).clone();
                pod.node_affinity.required = template.node_affinity.required.clone();
                Cow::Owned(pod)
            }
            Some(real) => Cow::Borrowed(*real),
            None => Cow::Borrowed(template),
        }
    });
    chosen.filter(|pod| !pod.resource_claims).collect()
}

fn report(
    plan: &mut Plan,
    snapshot: &Snapshot,
    inventory: &Inventory<'_>,
    question: &Input<'_>,
    pools: &[&NodePool],
    answer: Answer,
) {
    let pod = |at: &usize| {
        question
            .pods
            .get(*at)
            .copied()
            .filter(|pod| !buffers::is_virtual(pod))
    };
    for (node, pods) in &answer.existing {
        let mut staying = inventory
            .machines
            .iter()
            .filter(|machine| !machine.deleting);
        if let Some(machine) = staying.nth(*node) {
            plan.nominations
                .extend(pods.iter().filter_map(pod).map(|pod| Nomination {
                    pod: reference(pod),
                    node: machine.expected(),
                }));
        }
    }
    let pool_of = |at: usize| {
        let name = question.pools.get(at)?.name;
        pools.iter().find(|pool| pool.name == *name).copied()
    };
    let mut drivers = drivers::Drivers::new(question);
    let mut names = Names::new(snapshot);
    let mut launches: BTreeMap<usize, PoolLaunches<'_>> = BTreeMap::new();
    // Each node goes as its launch is made: both list hundreds of instance types.
    for node in answer.new_nodes {
        if let (Some(pool), Some(mould)) = (pool_of(node.pool), question.pools.get(node.pool)) {
            let launches = launches
                .entry(node.pool)
                .or_insert_with(|| PoolLaunches::new(pool, mould));
            let planned = launches.launch(&node, question, &mut drivers, &mut names);
            plan.actions.push(planned);
        }
    }
    for left in &answer.unplaced {
        let Some(pod) = pod(&left.pod) else { continue };
        let refusals = left.reasons.iter().map(|(at, reason)| Refusal {
            node_pool: at.and_then(pool_of).map(|pool| pool.name.clone()),
            text: reason.to_string(),
        });
        plan.unplaced.push(Unplaced {
            pod: reference(pod),
            reasons: refusals.collect(),
        });
    }
}

fn reference(pod: &Pod) -> PodRef {
    PodRef {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
    }
}

fn unplaced(pod: &Pod, node_pool: Option<NodePoolName>, text: &str) -> Unplaced {
    Unplaced {
        pod: reference(pod),
        reasons: vec![Refusal {
            node_pool,
            text: text.to_owned(),
        }],
    }
}
