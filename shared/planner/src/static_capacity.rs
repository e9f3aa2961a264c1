//! NodePools with a fixed number of nodes, whatever pods there are (spec/lifecycle §23, gate StaticCapacity).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    duration::parse_go_duration,
    names::{annotation, label},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, CapacityType, NanosPerHour, NodeClaimName, Resources, Snapshot,
    ledger::CommandState,
    node::Node,
    node_claim::{NodeClaim, NodeClaimSpec},
    node_pool::NodePool,
    plan::{ExpectedOffering, Launch},
    pod::Pod,
    resources::NODES,
};

use crate::{
    by_instance::ByInstance,
    decision::Decision,
    digest::fnv,
    inventory::is_daemon,
    lifecycle::target,
    node_pool_hash::{NODE_POOL_HASH_VERSION, node_pool_hash},
    pods_of_nodes::PodsOfNodes,
    provision::movable::must_not_be_disrupted,
};

/// A NodePool at its limit gets its nodes when others have gone, and one that is not ready when it is.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// NodeClaims that static NodePools lack, as launches without pods, and deletions of those that are too many.
pub fn static_capacity(snapshot: &Snapshot) -> Decision {
    let mut decision = Decision::default();
    let gates = &snapshot.settings.feature_gates;
    if gates.get("StaticCapacity") != Some(&true) {
        return decision;
    }
    let leaving = leaving(snapshot);
    let pools = snapshot.node_pools.iter();
    for pool in pools.filter(|pool| pool.deleted_at.is_none()) {
        let Some(replicas) = pool.replicas.and_then(|count| usize::try_from(count).ok()) else {
            continue;
        };
        let fleet = Fleet::of(snapshot, pool, &leaving);
        let active = fleet.active.len() + fleet.coming;
        if active < replicas && pool.not_ready.is_some() {
            decision.look_again(soon(snapshot));
        } else if active < replicas {
            fleet.grow(snapshot, replicas - active, &mut decision);
        } else if fleet.active.len() > replicas {
            fleet.shrink(snapshot, fleet.active.len() - replicas, &mut decision);
        }
    }
    decision
}

/// What there is of one NodePool.
struct Fleet<'a> {
    pool: &'a NodePool,
    /// To stay, as far as is decided.
    active: Vec<&'a NodeClaim>,
    /// Launches under way whose NodeClaims the API does not show.
    coming: usize,
    /// On their way out; they count until they are gone.
    going: usize,
}

impl<'a> Fleet<'a> {
    fn of(snapshot: &'a Snapshot, pool: &'a NodePool, leaving: &BTreeSet<&NodeClaimName>) -> Self {
        let own: Vec<&NodeClaim> = snapshot
            .node_claims
            .iter()
            .filter(|claim| claim.node_pool().as_ref() == Some(&pool.name))
            .collect();
        let shown = |name: &NodeClaimName| own.iter().any(|claim| claim.name == *name);
        let coming = snapshot.intents.iter().filter(|intent| {
            intent.is_in_flight() && intent.launch.node_pool == pool.name && !shown(intent.name())
        });
        let coming = coming.count();
        let (active, going): (Vec<_>, Vec<_>) = own
            .iter()
            .copied()
            .partition(|claim| claim.deleted_at.is_none() && !leaving.contains(&claim.name));
        Self {
            pool,
            active,
            coming,
            going: going.len(),
        }
    }

    fn grow(&self, snapshot: &Snapshot, wanted: usize, decision: &mut Decision) {
        let pool = self.pool;
        let limit = pool.limits.iter().find(|(name, _)| *name == NODES);
        let room = limit.map_or(usize::MAX, |(_, limit)| {
            let taken = self.active.len() + self.coming + self.going;
            usize::try_from(limit).unwrap_or(0).saturating_sub(taken)
        });
        if room < wanted {
            decision.look_again(soon(snapshot));
        }
        for number in 0..wanted.min(room) {
            let launch = launch(snapshot, pool, number);
            decision.act(
                Action::Launch(Box::new(launch)),
                format!("one of the {} nodes of NodePool {}", self.text(), pool.name),
            );
        }
    }

    fn shrink(&self, snapshot: &Snapshot, excess: usize, decision: &mut Decision) {
        let nodes = ByInstance::of_nodes(snapshot);
        let pods = PodsOfNodes::new(snapshot);
        let mut order: Vec<_> = self
            .active
            .iter()
            .map(|claim| {
                let node = nodes.only(&claim.status.provider_id);
                (worth(claim, node, &pods, snapshot.now), *claim)
            })
            .collect();
        order.sort_by(|(a, x), (b, y)| (a, &x.name).cmp(&(b, &y.name)));
        for (_, claim) in order.into_iter().take(excess) {
            decision.act(
                Action::DeleteNodeClaim(target(claim)),
                format!(
                    "NodePool {} is to have {} nodes",
                    self.pool.name,
                    self.text()
                ),
            );
        }
    }

    fn text(&self) -> i64 {
        self.pool.replicas.unwrap_or_default()
    }
}

fn soon(snapshot: &Snapshot) -> Timestamp {
    let now = snapshot.now;
    now.saturating_add(LOOK_AGAIN).unwrap_or(now)
}

/// NodeClaims that a committed disruption is about to remove.
fn leaving(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    let open = snapshot.commands.iter().filter(|command| {
        matches!(
            command.state,
            CommandState::Replacing | CommandState::Deleting
        )
    });
    let targets = open.flat_map(|command| &command.delete);
    targets.map(|target| &target.name).collect()
}

/// Straight from the template: its pods are nobody's concern, and the provider chooses the type.
fn launch(snapshot: &Snapshot, pool: &NodePool, number: usize) -> Launch {
    let template = &pool.template;
    let mut labels = template.labels.clone();
    labels.insert(label::NODE_POOL.to_owned(), pool.name.0.clone());
    labels.insert(
        label::EC2_NODE_CLASS.to_owned(),
        template.node_class.name.0.clone(),
    );
    let mut annotations = template.annotations.clone();
    annotations.extend(BTreeMap::from([
        (
            annotation::NODE_POOL_HASH.to_owned(),
            node_pool_hash(template),
        ),
        (
            annotation::NODE_POOL_HASH_VERSION.to_owned(),
            NODE_POOL_HASH_VERSION.to_owned(),
        ),
    ]));
    Launch {
        name: name(snapshot.now, pool, number),
        node_pool: pool.name.clone(),
        node_pool_uid: pool.uid.clone(),
        labels,
        annotations,
        spec: NodeClaimSpec {
            node_class: template.node_class.clone(),
            requirements: template.requirements.clone(),
            requests: Resources::default(),
            taints: template.taints.clone(),
            startup_taints: template.startup_taints.clone(),
            expire_after: template.expire_after.clone(),
            termination_grace_period: template.termination_grace_period.clone(),
        },
        pods: Vec::new(),
        cheapest: ExpectedOffering {
            instance_type: String::new(),
            capacity_type: CapacityType::OnDemand,
            zone: String::new(),
            price: NanosPerHour(0),
            capacity: Resources::default(),
        },
        instance_types: Vec::new(),
    }
}

/// As short as Kubernetes wants names that become labels, and not used before: by the time and the place in the plan.
fn name(now: Timestamp, pool: &NodePool, number: usize) -> NodeClaimName {
    const NAME_MAX: usize = 63;
    let digest = fnv(&format!("{} {} {number}", pool.uid, now.as_nanosecond()));
    let digest = format!("{digest:016x}");
    let room = NAME_MAX - digest.len() - 1;
    let base: String = pool.name.as_str().chars().take(room).collect();
    let base = base.trim_end_matches(['-', '.']);
    NodeClaimName(format!("{base}-{digest}"))
}

/// What goes first, least first: what has no instance, then what is empty, then what disturbs least.
fn worth(
    claim: &NodeClaim,
    node: Option<&Node>,
    pods: &PodsOfNodes<'_>,
    now: Timestamp,
) -> (u8, bool, i128) {
    if claim.status.provider_id.is_empty() {
        return (0, false, 0);
    }
    let pods = node.map_or(&[][..], |node| pods.of(node));
    let held = pods.iter().any(|pod| must_not_be_disrupted(pod, now));
    if !held && pods.iter().all(|pod| is_daemon(pod)) {
        return (1, false, 0);
    }
    let cost: i128 = pods.iter().map(|pod| eviction_cost(pod)).sum();
    (2, held, cost * remaining(claim, now))
}

/// In units of one 2^27th: priorities weigh four times as much as deletion costs (spec/lifecycle §16.3).
fn eviction_cost(pod: &Pod) -> i128 {
    const ONE: i128 = 1 << 27;
    let annotated = pod.annotations.get(annotation::POD_DELETION_COST);
    let deletion = annotated.and_then(|text| text.parse::<i64>().ok());
    let cost = ONE
        + i128::from(deletion.unwrap_or_default())
        + 4 * i128::from(pod.priority.unwrap_or_default());
    cost.clamp(-10 * ONE, 10 * ONE)
}

/// How much of its life a NodeClaim has before it, in thousandths.
fn remaining(claim: &NodeClaim, now: Timestamp) -> i128 {
    const WHOLE: i128 = 1_000;
    let expire_after = claim.spec.expire_after.as_deref();
    let life = expire_after
        .and_then(parse_go_duration)
        .map(|life| life.as_secs());
    let (Some(life), Some(created)) = (life.filter(|life| *life > 0), claim.created_at) else {
        return WHOLE;
    };
    let left = i128::from(life - now.duration_since(created).as_secs());
    (left * WHOLE / i128::from(life)).clamp(0, WHOLE)
}
