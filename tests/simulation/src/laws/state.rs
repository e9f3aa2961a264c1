//! Laws about the state of the world, checked every second.

use std::collections::{BTreeMap, BTreeSet};

use api::names::tag;
use fakes::World;
use jiff::SignedDuration;
use model::{
    NodeClaimName, NodePoolName,
    ledger::{Intent, Mode},
    quantity::Quantity,
};

use super::{Laws, TURN_MAX, claim_of, ends};
use crate::{HOLDER, is_own, rows};

/// Interval of checks.
pub(super) const CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// Longest time from reading a budget to the commit that uses it: a turn and a validation.
pub(super) const COMMIT_DELAY_MAX: SignedDuration = SignedDuration::from_mins(2);

impl Laws {
    /// Checks the current state. If nothing has changed since the last check, only time can break a law.
    pub(crate) fn check(&mut self, world: &World) {
        let now = world.now;
        if world.account.blind {
            self.hidden_at = Some(now);
        }
        if self.checked_changes == world.changes {
            self.unchanged_checks += 1;
        } else {
            (self.checked_changes, self.unchanged_checks) = (world.changes, 0);
        }
        self.watch_pauses(world);
        // NodeClaims that were marked for removal count as such for one more second.
        if self.unchanged_checks < 2 {
            self.marked_for_removal = marked_for_removal(world);
            self.check_state(world);
        }
        for name in &self.marked_for_removal {
            match self.last_marked.get_mut(name) {
                Some(at) => *at = now,
                None => {
                    self.last_marked.insert(name.clone(), now);
                }
            }
        }
        self.notices(world);
        self.watch_room(world);
        self.watch_deadlines(world);
        self.watch_repair(world);
        self.watch_replicas(world);
        self.time_limits(world);
    }

    fn check_state(&mut self, world: &World) {
        self.watch_mode(world);
        self.note_initialized(world);
        self.max_instances = self.max_instances.max(instances(world));
        self.names(world);
        self.launches(world);
        self.limits(world);
        self.budgets(world);
        let mut alive = world.account.alive();
        if let Some(instance) = alive.find(|instance| !instance.tags.contains_key(tag::LAUNCH)) {
            self.breaks(
                "A3: an instance carries the tag of its launch",
                world.now,
                instance.id.to_string(),
            );
        }
    }

    pub(super) fn note_initialized(&mut self, world: &World) {
        for claim in world.api.node_claims.values() {
            if claim.is_true(api::conditions::types::INITIALIZED)
                && !self.initialized.contains(&claim.name)
            {
                self.initialized.insert(claim.name.clone());
            }
        }
    }

    pub(super) fn watch_mode(&mut self, world: &World) {
        let now = world.now;
        let meta = rows(world).and_then(|rows| rows.meta.as_ref());
        let active = meta.is_some_and(|meta| meta.mode == Mode::Active);
        let leads = world
            .api
            .leader
            .as_ref()
            .is_some_and(|lease| lease.holder.starts_with(HOLDER));
        if active && leads {
            self.idle_since = None;
            self.active_since.get_or_insert(now);
        } else {
            self.idle_since.get_or_insert(now);
            self.active_since = None;
        }
    }

    fn names(&mut self, world: &World) {
        let new = world.api.created.get(self.created_checked..);
        for name in new.into_iter().flatten() {
            self.created_checked += 1;
            if !self.created.insert(name.clone()) && !self.forced.contains(name) {
                self.created_again.insert(name.clone());
            }
        }
        let mut owned = BTreeMap::new();
        for claim in world.api.node_claims.values() {
            let id = claim.status.provider_id.as_str();
            if id.is_empty() {
                continue;
            }
            if self.created_again.contains(&claim.name) {
                let name = claim.name.to_string();
                self.breaks("nothing is launched for a NodeClaim twice", world.now, name);
            }
            if let Some(other) = owned.insert(id, &claim.name) {
                self.breaks(
                    "A4: an instance has one NodeClaim",
                    world.now,
                    format!("{id}: {other} and {}", claim.name),
                );
            }
        }
    }

    fn launches(&mut self, world: &World) {
        if self.tokens_ignored {
            return;
        }
        let mut launched: BTreeMap<&str, u32> = BTreeMap::new();
        for instance in world.account.instances.values() {
            if let Some(token) = instance.tags.get(tag::LAUNCH) {
                *launched.entry(token).or_default() += 1;
            }
        }
        let now = world.now;
        for call in rows(world).iter().flat_map(|rows| rows.calls.values()) {
            let count = launched.get(call.request.token.as_str());
            let count = count.copied().unwrap_or_default();
            if count > call.request.target_capacity {
                let what = format!(
                    "{count} for call {} of {}",
                    call.request.token, call.request.target_capacity
                );
                self.breaks(
                    "A2: a call launches what it asks for, however often it is sent",
                    now,
                    what,
                );
            }
        }
    }

    /// Checks NodePool limits for new launches: NodeClaims marked for removal do not count, and existing ones may stay.
    fn limits(&mut self, world: &World) {
        let now = world.now;
        let mut used: BTreeMap<NodePoolName, BTreeMap<NodeClaimName, i64>> = BTreeMap::new();
        let mut new: BTreeSet<NodePoolName> = BTreeSet::new();
        let api = &world.api;
        let intents = rows(world)
            .into_iter()
            .flat_map(|rows| rows.intents.values());
        let in_flight: Vec<&Intent> = intents.filter(|intent| intent.is_in_flight()).collect();
        // A launch whose NodeClaim is being removed does not count, also if its turn crashed before recording it. A NodeClaim
        // that was marked for removal a second ago and stays after all does not count either: launches in between relied on its
        // removal.
        let (last_marked, marked) = (&self.last_marked, &self.marked_for_removal);
        let goes = |name: &NodeClaimName| {
            let last = last_marked.get(name);
            marked.contains(name)
                || ends(api, name)
                || last.is_some_and(|at| now.duration_since(*at) <= CHECK_INTERVAL)
        };
        for intent in in_flight.iter().filter(|intent| !goes(intent.name())) {
            let pool = &intent.launch.node_pool;
            let cpu = intent.launch.cheapest.capacity.get("cpu");
            let of_pool = used.entry(pool.clone()).or_default();
            of_pool.insert(intent.name().clone(), cpu);
            if self.launched.insert(intent.name().clone()) {
                new.insert(pool.clone());
            }
        }
        for claim in world.api.node_claims.values() {
            let is_in_flight = in_flight.iter().any(|intent| *intent.name() == claim.name);
            let counts = !is_in_flight && !goes(&claim.name);
            let Some(pool) = claim.node_pool().filter(|_| counts) else {
                continue;
            };
            if self.launched.insert(claim.name.clone()) {
                new.insert(pool.clone());
            }
            let cpu = claim.status.capacity.get("cpu");
            let of_pool = used.entry(pool).or_default();
            of_pool.insert(claim.name.clone(), cpu);
        }
        for (name, nodes) in &used {
            let amount: i64 = nodes.values().sum();
            let pool = world.api.node_pools.get(name.as_str());
            let limit = pool.and_then(|pool| pool.spec.limits.as_ref()?.get("cpu"));
            let limit = limit.and_then(|cores| cores.as_str().parse::<Quantity>().ok());
            let Some(limit) = limit.map(Quantity::milli) else {
                self.limits.remove(name);
                continue;
            };
            let (_, since) = *self
                .limits
                .entry(name.clone())
                .and_modify(|(known, since)| {
                    if *known != limit {
                        (*known, *since) = (limit, now);
                    }
                })
                .or_insert((limit, now));
            // A node that was marked for removal and stays after all is no launch
            // (docs/spec/lifecycle.md#limits-of-replacements).
            if amount > limit && new.contains(name) && now.duration_since(since) > TURN_MAX {
                let what = format!("NodePool {name}: {amount} of {limit} millicores: {nodes:?}");
                self.breaks("limits hold", now, what);
            }
        }
    }
}

/// Number of the cluster's instances that cost money.
pub(super) fn instances(world: &World) -> usize {
    let alive = world.account.alive();
    alive.filter(|instance| is_own(world, instance)).count()
}

/// NodeClaims that the ledger marks for removal, deleted or not; limits do not count them.
pub(super) fn marked_for_removal(world: &World) -> BTreeSet<NodeClaimName> {
    let rows = rows(world);
    let commands = rows.iter().flat_map(|rows| rows.commands.values());
    let open = commands.filter(|command| command.state.is_open());
    let targets = open.flat_map(|command| &command.delete);
    let mut marked: BTreeSet<_> = targets.map(|target| target.name.clone()).collect();
    let notices = rows.iter().flat_map(|rows| rows.notices.values());
    for notice in notices.filter(|notice| !notice.done) {
        marked.extend(claim_of(world, &notice.instance).map(|claim| claim.name.clone()));
    }
    marked
}
