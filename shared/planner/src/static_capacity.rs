//! Static NodePools: a fixed number of nodes, independent of pods (docs/spec/lifecycle.md#static-capacity, gate
//! StaticCapacity).

mod replicas;

use std::collections::BTreeSet;

use api::duration::parse_go_duration;
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, NodeClaimName, Snapshot, counted, ledger::PauseLevel, node::Node,
    node_claim::NodeClaim, node_pool::NodePool, resources::NODES,
};

pub(crate) use self::replicas::{launches_to_come, wanted_replicas};
use crate::{
    by_instance::ByInstance,
    decision::Decision,
    disrupt::{cost::of_pod, price},
    do_not_disrupt::must_not_be_disrupted,
    inventory::is_daemon,
    lifecycle::target,
    pods_of_nodes::PodsOfNodes,
    provision::{
        caps,
        launch::{Names, of_template},
        overlaid_types,
    },
};

/// Interval between checks of a NodePool that is at its limit or not ready.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// Launches of missing nodes of static NodePools, and deletions of surplus ones.
pub fn static_capacity(snapshot: &Snapshot) -> Decision {
    let mut decision = Decision::default();
    let gates = &snapshot.settings.feature_gates;
    if gates.get("StaticCapacity") != Some(&true) {
        return decision;
    }
    let leaving = leaving(snapshot);
    let mut names = Names::new(snapshot);
    let pools = snapshot.node_pools.iter();
    for pool in pools.filter(|pool| pool.deleted_at.is_none()) {
        let Some(replicas) = pool.replicas.and_then(|count| usize::try_from(count).ok()) else {
            continue;
        };
        let paused = snapshot.paused(Some(&pool.name), PauseLevel::All, snapshot.now);
        if let Some(until) = paused.and_then(|paused| paused.until()) {
            decision.recheck_at(until);
            continue;
        }
        let nodes_of_pool = PoolNodes::new(snapshot, pool, &leaving);
        let active = nodes_of_pool.active.len() + nodes_of_pool.coming;
        if active < replicas && pool.not_ready.is_some() {
            decision.recheck_at(recheck_time(snapshot));
        } else if active < replicas {
            nodes_of_pool.grow(snapshot, replicas - active, &mut names, &mut decision);
        } else if nodes_of_pool.active.len() > replicas {
            nodes_of_pool.shrink(
                snapshot,
                nodes_of_pool.active.len() - replicas,
                &mut decision,
            );
        }
    }
    caps::hold_back(snapshot, &mut decision.plan);
    decision
}

/// NodeClaims of a NodePool.
struct PoolNodes<'a> {
    pool: &'a NodePool,
    /// NodeClaims that stay.
    active: Vec<&'a NodeClaim>,
    /// Launches in flight without a NodeClaim in the API.
    coming: usize,
    /// NodeClaims that are leaving. They count for the limit until they are gone.
    going: usize,
}

impl<'a> PoolNodes<'a> {
    fn new(snapshot: &'a Snapshot, pool: &'a NodePool, leaving: &BTreeSet<&NodeClaimName>) -> Self {
        let own: Vec<&NodeClaim> = snapshot
            .node_claims
            .iter()
            .filter(|claim| claim.node_pool().as_ref() == Some(&pool.name))
            .collect();
        let coming = launches_to_come(snapshot, pool);
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

    fn grow(
        &self,
        snapshot: &Snapshot,
        wanted: usize,
        names: &mut Names<'_>,
        decision: &mut Decision,
    ) {
        let pool = self.pool;
        let limit = pool.limits.iter().find(|(name, _)| *name == NODES);
        let room = limit.map_or(usize::MAX, |(_, limit)| {
            let taken = self.active.len() + self.coming + self.going;
            usize::try_from(limit).unwrap_or(0).saturating_sub(taken)
        });
        if room < wanted {
            decision.recheck_at(recheck_time(snapshot));
        }
        if wanted.min(room) == 0 {
            return;
        }
        let overlaid = overlaid_types(snapshot);
        let types = overlaid
            .get(&pool.name)
            .or_else(|| snapshot.instance_types.get(&pool.name));
        let types = types.map_or(&[][..], |types| types);
        // Without an offering the launch would fail, and would be retried immediately.
        if !types.is_empty() && price::of_template(pool, types, snapshot).is_none() {
            decision.recheck_at(recheck_time(snapshot));
            return;
        }
        for _ in 0..wanted.min(room) {
            decision.act(
                Action::Launch(Box::new(of_template(pool, types, names))),
                self.place_text(),
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
                (scale_down_rank(claim, node, &pods, snapshot), *claim)
            })
            .collect();
        order.sort_by(|(a, x), (b, y)| (a, &x.name).cmp(&(b, &y.name)));
        for (_, claim) in order.into_iter().take(excess) {
            decision.act(
                Action::DeleteNodeClaim(target(claim)),
                format!(
                    "static NodePool {} keeps {}",
                    self.pool.name,
                    counted(self.replicas(), "node")
                ),
            );
        }
    }

    fn place_text(&self) -> String {
        let name = &self.pool.name;
        match self.replicas() {
            1 => format!("the one node of NodePool {name}"),
            many => format!("one of the {many} nodes of NodePool {name}"),
        }
    }

    fn replicas(&self) -> i64 {
        self.pool.replicas.unwrap_or_default()
    }
}

fn recheck_time(snapshot: &Snapshot) -> Timestamp {
    let now = snapshot.now;
    now.saturating_add(RECHECK_AFTER).unwrap_or(now)
}

/// NodeClaims that an open command deletes.
fn leaving(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    let open = snapshot
        .commands
        .iter()
        .filter(|command| command.state.is_open());
    let targets = open.flat_map(|command| &command.delete);
    targets.map(|target| &target.name).collect()
}

/// CandidateRank for scaling down, lowest first: without an instance, then empty, then by disruption cost.
fn scale_down_rank(
    claim: &NodeClaim,
    node: Option<&Node>,
    pods: &PodsOfNodes<'_>,
    snapshot: &Snapshot,
) -> (u8, bool, i128) {
    if claim.status.provider_id.is_empty() {
        return (0, false, 0);
    }
    let pods = node.map_or(&[][..], |node| pods.of(node));
    let held = pods
        .iter()
        .any(|pod| must_not_be_disrupted(pod, snapshot.now));
    if !held && pods.iter().all(|pod| is_daemon(pod)) {
        return (1, false, 0);
    }
    let cost: i128 = pods
        .iter()
        .map(|pod| i128::from(of_pod(pod, &snapshot.settings)))
        .sum();
    (2, held, cost * remaining_lifetime(claim, snapshot.now))
}

/// Remaining share of a NodeClaim's lifetime, in thousandths.
fn remaining_lifetime(claim: &NodeClaim, now: Timestamp) -> i128 {
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

#[cfg(test)]
mod tests;
