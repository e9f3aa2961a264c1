//! Laws about acts of turns, checked just before each act.

use api::names::{annotation::DO_NOT_DISRUPT, finalizer};
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    Lane,
    launch::{FleetRequest, FleetResponse, Instance},
    ledger::{Command, CommandState},
    plan::{NodeClaimUpdate, Target},
    pod::Pod,
};

use super::{Laws, TURN_MAX, has_failed, instance_of, offering, pauses::SKEW};
use crate::{act::Act, rows};

/// Time after which a turn has read and recorded an answer of EC2, and time for which it is remembered: three minutes, less the
/// clock skew of reader and writer.
const RECORDED_WITHIN: SignedDuration = SignedDuration::from_secs(60);
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_secs(180 - 2 * SKEW.as_secs());

impl Laws {
    /// Checks an act of a process; `clock` is the process's own time.
    pub(crate) fn check_act(
        &mut self,
        world: &World,
        process: u64,
        lane: Lane,
        clock: Timestamp,
        act: &Act<'_>,
    ) {
        let now = world.now;
        self.watch_mode(world);
        // A turn that began earlier may have read the mode before it changed; one that began since must have seen the change.
        let started_at = self.started_at.get(&process);
        let has_seen = |since: Timestamp| started_at.is_some_and(|started_at| *started_at > since);
        if act.is_destructive()
            && self
                .idle_since
                .is_some_and(|since| has_seen(since) || now.duration_since(since) > TURN_MAX)
        {
            self.breaks(
                "C4, B1: no act in shadow mode or beside another leader",
                now,
                act.to_string(),
            );
        }
        self.watch_pauses(world);
        self.check_pauses(world, lane, act);
        match act {
            Act::Take { lane, lease } => {
                self.last_turns.insert(*lane, lease.owner.clone());
                let other = self.leases.insert(*lane, (*lease).clone());
                if let Some(other) =
                    other.filter(|other| other.owner != lease.owner && other.is_live(clock))
                {
                    let what = format!(
                        "{} takes {lane} from {}, whose lease lasts until {}",
                        lease.owner, other.owner, other.until
                    );
                    self.breaks("L1: one turn of a lane at a time", now, what);
                }
            }
            Act::End { lane, turn } => {
                self.leases
                    .retain(|held, lease| held != lane || lease.owner != **turn);
            }
            Act::Commit(commit) => {
                self.check_base(world, process, commit);
                self.commit(world, lane, commit);
                self.check_repairs(world, lane, commit);
                self.check_reserved(world, commit);
            }
            Act::Launch(request) => self.launch(world, request),
            Act::Terminate(ids) => ids
                .iter()
                .for_each(|id| self.terminate(world, lane, clock, id)),
            Act::DeleteClaim(target) => self.delete_claim(world, lane, target),
            Act::UpdateClaim(update) => self.update_claim(world, update),
            Act::DeleteNode(name) if lane == Lane::Housekeeper => self.collect_node(world, name),
            Act::DeleteNode(_) => {}
            Act::Evict(pod) => {
                if let Some(pod) = pod.as_ref().filter(|pod| is_protected(pod)) {
                    self.breaks(
                        "do-not-disrupt pods are not evicted",
                        now,
                        pod.key.to_string(),
                    );
                }
            }
            Act::DeletePod(pod) => {
                let Some(pod) = pod else { return };
                let node = pod
                    .node_name
                    .as_ref()
                    .and_then(|name| world.api.nodes.get(name));
                if node.is_some_and(|node| self.has_time(node, pod, clock)) {
                    self.breaks(
                        "pods are removed by force only just before a deadline",
                        now,
                        pod.key.to_string(),
                    );
                }
            }
        }
    }

    fn delete_claim(&mut self, world: &World, lane: Lane, target: &Target) {
        let now = world.now;
        if target.uid.as_str().is_empty() || target.resource_version.is_empty() {
            self.breaks(
                "D2: deletions carry uid and resourceVersion",
                now,
                target.name.to_string(),
            );
        }
        let Some(claim) = world.api.node_claims.get(&target.name) else {
            return;
        };
        let lives = instance_of(world, claim).is_some_and(|instance| instance.state.is_alive());
        if lane == Lane::Housekeeper && lives && claim.deleted_at.is_none() {
            self.collects(world, target.name.as_str());
        }
        if lane == Lane::Disruption {
            self.note_initialized(world);
            let rows = rows(world);
            if has_failed(world, &target.name) {
                return;
            }
            let of_target =
                |command: &&Command| command.delete.iter().any(|other| other.name == target.name);
            let commands = rows.into_iter().flat_map(|rows| rows.commands.values());
            let deleting = commands
                .filter(of_target)
                .find(|command| command.state == CommandState::Deleting);
            match deleting {
                None => self.breaks(
                    "D1: a command is deleting before it deletes",
                    now,
                    target.name.to_string(),
                ),
                Some(command) => {
                    let missing = command
                        .replacements
                        .iter()
                        .find(|name| !self.initialized.contains(*name));
                    if let Some(missing) = missing {
                        let what = format!("{} goes before {missing} was initialized", target.name);
                        self.breaks("D1: replacements come first", now, what);
                    }
                }
            }
        }
    }

    fn update_claim(&mut self, world: &World, update: &NodeClaimUpdate) {
        if !update
            .remove_finalizers
            .iter()
            .any(|name| name == finalizer::TERMINATION)
        {
            return;
        }
        let Some(claim) = world.api.node_claims.get(&update.name) else {
            return;
        };
        // A turn may believe for its duration that an instance hidden by EC2 is gone; garbage collection handles the instance
        // when it reappears.
        let hidden = self
            .hidden_at
            .is_some_and(|at| world.now.duration_since(at) <= TURN_MAX);
        let shown = |instance: &&Instance| {
            let age = instance.launched_at.map(|at| world.now.duration_since(at));
            instance.state.is_alive()
                && !world.account.blind
                && !hidden
                && age.is_some_and(|age| age > world.account.describe_lag + TURN_MAX)
        };
        if let Some(instance) = instance_of(world, claim).filter(shown) {
            let what = format!("{} of {}", instance.id, update.name);
            self.breaks(
                "A5: a NodeClaim is released only when its instance is gone",
                world.now,
                what,
            );
        }
    }

    /// Forgets capacity errors since the start of a turn that crashed: it may not have recorded them.
    pub(crate) fn turn_died(&mut self, started_at: Timestamp) {
        self.capacity_errors.retain(|_, at| *at < started_at);
    }

    fn launch(&mut self, world: &World, request: &FleetRequest) {
        let now = world.now;
        let overrides = request
            .templates
            .iter()
            .flat_map(|template| &template.overrides);
        let offerings: Vec<_> = overrides
            .map(|choice| offering(request.capacity_type, choice))
            .collect();
        let repeated = !self.requested.insert(request.token.0.clone());
        let known = |at: &Timestamp| {
            let age = now.duration_since(*at);
            age > RECORDED_WITHIN && age < REMEMBERED_FOR
        };
        if !repeated
            && !offerings.is_empty()
            && offerings
                .iter()
                .all(|offering| self.capacity_errors.get(offering).is_some_and(known))
        {
            self.breaks(
                "offerings without capacity are avoided for a while",
                now,
                format!("{offerings:?}"),
            );
        }
    }

    /// Records offerings without capacity, if the turn can be expected to record them.
    pub(crate) fn launched(
        &mut self,
        world: &World,
        request: &FleetRequest,
        answer: &FleetResponse,
    ) {
        if self.clear_for > RECORDED_WITHIN && answer.instances.is_empty() {
            let capacity_type = request.capacity_type.as_str();
            let failures = answer.failures.iter();
            let failures =
                failures.filter(|failure| failure.code == "InsufficientInstanceCapacity");
            let lacking = failures.map(|failure| {
                let (kind, zone) = (failure.instance_type.clone(), failure.zone.clone());
                ((capacity_type.to_owned(), kind, zone), world.now)
            });
            self.capacity_errors.extend(lacking);
        }
    }
}

pub(super) fn is_protected(pod: &Pod) -> bool {
    pod.annotations
        .get(DO_NOT_DISRUPT)
        .is_some_and(|value| value == "true")
}
