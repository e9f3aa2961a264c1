//! Caps on the price and number of nodes of a NodePool, the cluster and the account, for all launches of a plan
//! together.

use std::collections::BTreeMap;

use model::{Action, NanosPerHour, Plan, caps::Caps, counted, labels, ledger::Notice};

use crate::{Findings, Subject, world::World};

/// Hourly price in billionths of a dollar, and number of nodes.
#[derive(Clone, Copy, Default)]
struct Total(i64, u32);

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Findings) {
    let capped_pools: BTreeMap<&str, Caps> = world
        .pools
        .iter()
        .map(|(name, pool)| (*name, Caps::of_pool(pool)))
        .filter(|(_, caps)| !caps.is_unlimited())
        .collect();
    let of_cluster = world.snapshot.caps;
    let of_account = world.snapshot.account.caps;
    if capped_pools.is_empty() && of_cluster.is_unlimited() && of_account.is_unlimited() {
        return;
    }
    let (mut cluster, mut pools) = current_total(world);
    let others = total_elsewhere(world);
    for (index, planned) in plan.actions.iter().enumerate() {
        let Action::Launch(launch) = &planned.action else {
            continue;
        };
        let price = launch.cheapest.price.0;
        let name = launch.node_pool.as_str();
        let pool = pools.entry(name.to_owned()).or_default();
        let caps = capped_pools.get(name).copied().unwrap_or_default();
        let violation = exceeded_cap(caps, pool.with(price))
            .map(|what| format!("NodePool {name} would pass its cap of {what}"))
            .or_else(|| {
                let what = exceeded_cap(of_cluster, cluster.with(price))?;
                Some(format!("the cluster would pass its cap of {what}"))
            })
            .or_else(|| {
                let what = exceeded_cap(of_account, cluster.with(price).and(others))?;
                Some(format!("the account would pass its cap of {what}"))
            });
        match violation {
            Some(violation) => findings.add(
                Subject::Action(index),
                format!("NodeClaim {}: {violation}", launch.name),
            ),
            None => {
                *pool = pool.with(price);
                cluster = cluster.with(price);
            }
        }
    }
}

impl Total {
    fn with(self, price: i64) -> Self {
        self.and(Self(price, 1))
    }

    fn and(self, other: Self) -> Self {
        Self(
            self.0.saturating_add(other.0),
            self.1.saturating_add(other.1),
        )
    }
}

fn exceeded_cap(caps: Caps, after: Total) -> Option<String> {
    let Total(price, nodes) = after;
    if let Some(most) = caps.nodes.filter(|most| nodes > *most) {
        return Some(counted(most, "node"));
    }
    let most = caps.price.filter(|most| price > most.0)?;
    Some(format!("${most} an hour with ${}", NanosPerHour(price)))
}

/// Total of the account's other clusters.
fn total_elsewhere(world: &World<'_>) -> Total {
    let snapshot = world.snapshot;
    let all = snapshot.account.clusters.iter();
    let others = all.filter(|(name, _)| **name != snapshot.cluster);
    others.fold(Total::default(), |total, (_, spending)| {
        total.and(Total(spending.price.0, spending.nodes))
    })
}

/// Total of machines that stay after the plan and of launches under way, for the cluster and by NodePool.
fn current_total(world: &World<'_>) -> (Total, BTreeMap<String, Total>) {
    let mut cluster = Total::default();
    let mut pools: BTreeMap<String, Total> = BTreeMap::new();
    let mut count = |pool: Option<&str>, price: i64| {
        cluster = cluster.with(price);
        if let Some(pool) = pool {
            let of_pool = pools.entry(pool.to_owned()).or_default();
            *of_pool = of_pool.with(price);
        }
    };
    for machine in &world.machines {
        let ours = machine.claim.filter(|claim| claim.deleted_at.is_none());
        let Some(claim) = ours.filter(|_| !machine.deleted_by_plan) else {
            continue;
        };
        let id = claim.status.provider_id.as_str();
        let is_its = |notice: &&Notice| id.ends_with(&format!("/{}", notice.instance));
        let mut own = world.snapshot.notices.iter().filter(is_its);
        if own.any(Notice::terminates_unconditionally) {
            continue;
        }
        let price = price_of(world, machine.node_pool(), &claim.labels);
        count(machine.node_pool(), price);
    }
    for in_flight in world.in_flight.values() {
        let deleted = in_flight
            .claim
            .is_some_and(|claim| claim.deleted_at.is_some());
        let live = in_flight.intent.filter(|intent| intent.is_in_flight());
        match (live, in_flight.claim) {
            (Some(intent), _) if !deleted => {
                let launch = &intent.launch;
                count(Some(launch.node_pool.as_str()), launch.cheapest.price.0);
            }
            (None, Some(claim)) if !deleted => {
                count(claim.labels.get(labels::NODE_POOL).map(String::as_str), 0);
            }
            _ => {}
        }
    }
    (cluster, pools)
}

fn price_of(world: &World<'_>, pool: Option<&str>, of: &BTreeMap<String, String>) -> i64 {
    let known = world.snapshot.instance_types.iter();
    let types = known.filter(|(name, _)| Some(name.as_str()) == pool);
    let name = of.get(labels::INSTANCE_TYPE);
    let mut types = types.flat_map(|(_, types)| types.iter());
    let Some(instance_type) = types.find(|known| Some(&known.name) == name) else {
        return 0;
    };
    let (zone, bought) = (of.get(labels::ZONE), of.get(labels::CAPACITY_TYPE));
    let mut offerings = instance_type.offerings.iter();
    let own = offerings.find(|offering| {
        Some(&offering.zone) == zone
            && bought.map(String::as_str) == Some(offering.capacity_type.as_str())
    });
    let surcharge = world.surcharge(pool);
    own.map_or(0, |offering| offering.price.plus(surcharge).0)
}
