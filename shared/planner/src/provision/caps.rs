//! Caps on the price and number of nodes: launches that would exceed one are held back, with the reason on their pods.

use std::{borrow::Cow, collections::BTreeMap};

use model::{
    Action, NanosPerHour, NodeClaimName, NodePoolName, Plan, Snapshot,
    caps::{Caps, Spending},
    counted,
    labels::INSTANCE_TYPE,
    node_claim::NodeClaim,
    plan::{Expected, Launch, Refusal, Unplaced},
};

use crate::{by_instance::instance_of, disrupt::price_of_node};

/// Spending so far, against the caps of NodePools, the cluster and the account.
struct RemainingBudget<'a> {
    snapshot: &'a Snapshot,
    pools: BTreeMap<&'a NodePoolName, (Caps, Spending)>,
    cluster: Spending,
    /// Spending of all clusters of the account.
    account: Spending,
}

/// A cap that current spending exceeds already. No node is removed because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// `None` for a cap on the cluster or the account.
    pub node_pool: Option<NodePoolName>,
    /// Names the cap, the current value and the remedy.
    pub message: String,
}

/// Returns the caps that current spending exceeds.
pub fn exceeded(snapshot: &Snapshot) -> Vec<Exceeded> {
    let Some(budget) = RemainingBudget::from_snapshot(snapshot) else {
        return Vec::new();
    };
    let report = |node_pool: Option<&NodePoolName>, whose: &str, what: &str, remedy: &str| {
        Exceeded {
            node_pool: node_pool.cloned(),
            message: format!(
                "{whose} is {what}: no node is removed for the cap, and no node is launched until others are gone or {remedy}"
            ),
        }
    };
    let pools = budget.pools.iter().filter_map(|(name, (caps, sum))| {
        let what = caps.exceeded(*sum)?;
        let remedy = format!("its annotation {} is raised", Caps::ANNOTATION);
        Some(report(
            Some(name),
            &format!("NodePool {name}"),
            &what,
            &remedy,
        ))
    });
    let cluster = snapshot.caps.exceeded(budget.cluster);
    let remedy = "the cap in settings.guards of its registry entry is raised";
    let cluster = cluster.map(|what| report(None, "the cluster", &what, remedy));
    let account = snapshot.account.caps.exceeded(budget.account);
    let remedy = "`whittle caps` raises it";
    let account = account.map(|what| report(None, ACCOUNT, &what, remedy));
    pools.chain(cluster).chain(account).collect()
}

/// Price and number of a cluster's nodes, launches in flight included and leaving nodes excluded.
pub fn spending(snapshot: &Snapshot) -> Spending {
    RemainingBudget::filled(snapshot).cluster
}

/// Price and number of each NodePool's nodes, launches in flight included and leaving nodes excluded.
pub fn pool_spending(snapshot: &Snapshot) -> BTreeMap<NodePoolName, Spending> {
    let pools = RemainingBudget::filled(snapshot).pools.into_iter();
    pools
        .map(|(name, (_, spending))| (name.clone(), spending))
        .collect()
}

/// Returns the snapshot with NodePools marked not ready that have no room left under a cap, so that other NodePools are tried.
pub(crate) fn without_pools_over_limit(snapshot: &Snapshot) -> Cow<'_, Snapshot> {
    let Some(budget) = RemainingBudget::from_snapshot(snapshot) else {
        return Cow::Borrowed(snapshot);
    };
    let over_limit: Vec<(usize, String)> = snapshot
        .node_pools
        .iter()
        .enumerate()
        .filter(|(_, pool)| pool.not_ready.is_none())
        .filter_map(|(at, pool)| Some((at, budget.exhausted(&pool.name)?)))
        .collect();
    if over_limit.is_empty() {
        return Cow::Borrowed(snapshot);
    }
    let mut snapshot = snapshot.clone();
    for (at, why) in over_limit {
        if let Some(pool) = snapshot.node_pools.get_mut(at) {
            pool.not_ready = Some(why);
        }
    }
    Cow::Owned(snapshot)
}

/// NodePools that have no room left under their cap or the cluster's, with the message about it.
pub(super) fn capped(snapshot: &Snapshot) -> Vec<(NodePoolName, String)> {
    let Some(budget) = RemainingBudget::from_snapshot(snapshot) else {
        return Vec::new();
    };
    let pools = snapshot.node_pools.iter();
    let capped = pools.filter_map(|pool| Some((pool.name.clone(), budget.exhausted(&pool.name)?)));
    capped.collect()
}

/// Removes launches that would exceed a cap from the plan, and records the reason on their pods.
pub(crate) fn hold_back(snapshot: &Snapshot, plan: &mut Plan) {
    let Some(mut budget) = RemainingBudget::from_snapshot(snapshot) else {
        return;
    };
    let mut held = Vec::new();
    plan.actions.retain(|planned| {
        let Action::Launch(launch) = &planned.action else {
            return true;
        };
        let exceeded_cap = budget.take(launch);
        let fits = exceeded_cap.is_none();
        held.extend(exceeded_cap.map(|why| (launch.clone(), why)));
        fits
    });
    for (launch, why) in held {
        let gone = Expected::NodeClaim(launch.name.clone());
        plan.nominations
            .retain(|nomination| nomination.node != gone);
        plan.unplaced.extend(launch.pods.iter().map(|pod| Unplaced {
            pod: pod.clone(),
            reasons: vec![Refusal {
                node_pool: Some(launch.node_pool.clone()),
                text: why.clone(),
                limited: true,
            }],
        }));
    }
}

impl<'a> RemainingBudget<'a> {
    /// Returns `None` if nothing is capped.
    fn from_snapshot(snapshot: &'a Snapshot) -> Option<Self> {
        let pools = snapshot.node_pools.iter().map(Caps::of_pool);
        let mut caps = pools.chain([snapshot.caps, snapshot.account.caps]);
        caps.any(|caps| !caps.is_unlimited())
            .then(|| Self::filled(snapshot))
    }

    fn filled(snapshot: &'a Snapshot) -> Self {
        let pools = snapshot.node_pools.iter();
        let pools = pools.map(|pool| (&pool.name, (Caps::of_pool(pool), Spending::default())));
        let mut budget = Self {
            snapshot,
            pools: pools.collect(),
            cluster: Spending::default(),
            account: snapshot.account.others(&snapshot.cluster),
        };
        let going = |claim: &NodeClaim| {
            let instance = instance_of(&claim.status.provider_id);
            let mut notices = snapshot.notices.iter();
            claim.deleted_at.is_some()
                || notices.any(|notice| {
                    notice.terminates_unconditionally()
                        && Some(&notice.instance) == instance.as_ref()
                })
        };
        let intents = snapshot
            .intents
            .iter()
            .filter(|intent| intent.is_in_flight());
        let intents: BTreeMap<_, _> = intents
            .map(|intent| (intent.name(), &intent.launch))
            .collect();
        for claim in snapshot.node_claims.iter().filter(|claim| !going(claim)) {
            let pool = claim.node_pool();
            let price = match intents.get(&claim.name) {
                Some(launch) => launch.cheapest.price,
                None => price(snapshot, pool.as_ref(), claim),
            };
            budget.count(pool.as_ref(), price);
        }
        let shown =
            |name: &NodeClaimName| snapshot.node_claims.iter().any(|claim| claim.name == *name);
        for (name, launch) in intents {
            if !shown(name) {
                budget.count(Some(&launch.node_pool), launch.cheapest.price);
            }
        }
        budget
    }

    fn count(&mut self, pool: Option<&NodePoolName>, price: NanosPerHour) {
        self.cluster.add(price);
        self.account.add(price);
        if let Some((_, sum)) = pool.and_then(|pool| self.pools.get_mut(pool)) {
            sum.add(price);
        }
    }

    /// Returns the reason if not even the cheapest node may be launched for the NodePool.
    fn exhausted(&self, pool: &NodePoolName) -> Option<String> {
        let types = self.snapshot.instance_types.get(pool);
        let types = types.into_iter().flat_map(|types| types.iter());
        let offerings = types.flat_map(|instance_type| &instance_type.offerings);
        let open = offerings.filter(|offering| offering.available);
        let least = open.map(|offering| offering.price).min();
        let surcharge = self.snapshot.surcharge_of(Some(pool));
        self.exceeded_cap(pool, least.unwrap_or_default().plus(surcharge))
    }

    /// Returns the reason if a node of this price would exceed a cap.
    fn exceeded_cap(&self, pool: &NodePoolName, price: NanosPerHour) -> Option<String> {
        let of_pool = self.pools.get(pool);
        of_pool
            .and_then(|(caps, sum)| over(&format!("NodePool {pool}"), *caps, *sum, price))
            .or_else(|| over("the cluster", self.snapshot.caps, self.cluster, price))
            .or_else(|| over(ACCOUNT, self.snapshot.account.caps, self.account, price))
    }

    fn take(&mut self, launch: &Launch) -> Option<String> {
        let price = launch.cheapest.price;
        let exceeded_cap = self.exceeded_cap(&launch.node_pool, price);
        if exceeded_cap.is_none() {
            self.count(Some(&launch.node_pool), price);
        }
        exceeded_cap
    }
}

/// Name of the account in messages; its caps cover all clusters of the stack.
const ACCOUNT: &str = "the account";

fn over(whose: &str, caps: Caps, sum: Spending, price: NanosPerHour) -> Option<String> {
    let Spending {
        price: spent,
        nodes,
    } = sum;
    if let Some(most) = caps.nodes.filter(|most| nodes >= *most) {
        return Some(format!(
            "{whose} is capped at {} and has {nodes}: no node is removed for the cap, and no node is launched",
            counted(most, "node")
        ));
    }
    let most = caps
        .price
        .filter(|most| spent.0.saturating_add(price.0) > most.0)?;
    Some(format!(
        "{whose} is capped at ${most} an hour and costs ${spent}: no node is removed for the cap, and no node is launched that would exceed it"
    ))
}

fn price(snapshot: &Snapshot, pool: Option<&NodePoolName>, claim: &NodeClaim) -> NanosPerHour {
    let name = claim.labels.get(INSTANCE_TYPE);
    let types = pool.and_then(|pool| snapshot.instance_types.get(pool));
    let mut types = types.into_iter().flat_map(|types| types.iter());
    let instance_type = types.find(|instance_type| Some(&instance_type.name) == name);
    instance_type.map_or(NanosPerHour(0), |instance_type| {
        price_of_node(instance_type, &claim.labels, snapshot.surcharge_of(pool))
    })
}

#[cfg(test)]
mod tests;
