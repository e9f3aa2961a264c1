//! Laws about plans, checked just before their commit.

use fakes::World;
use model::{
    Action, Lane,
    ledger::{Command, CommandState, Intent, Method, Mode},
    plan::{Expected, Launch},
    pod::Pod,
};
use ports::ledger::Commit;

use super::{Laws, NOTICED_WITHIN, acts::is_protected, ends, time_limits::REGISTERED_WITHIN};
use crate::rows;

impl Laws {
    /// Checks that a committed plan was made on the generation that it follows (docs/protocol.md#c1). A process that lost a race
    /// has read the newer generations.
    pub(super) fn check_base(&mut self, world: &World, process: u64, commit: &Commit) {
        let seen = self.generations.get(&process).copied();
        if commit.base > seen.unwrap_or_default() {
            let what = format!(
                "{} is committed on generation {}, and planned on {seen:?}",
                commit.id, commit.base
            );
            self.breaks(
                "C1: a plan is committed on the generation it was made on",
                world.now,
                what,
            );
        }
    }

    pub(super) fn commit(&mut self, world: &World, lane: Lane, commit: &Commit) {
        let now = world.now;
        let meta = rows(world).and_then(|rows| rows.meta.as_ref());
        let wins =
            meta.is_some_and(|meta| meta.generation == commit.base && meta.mode == Mode::Active);
        let launches = commit
            .plan
            .actions
            .iter()
            .filter_map(|planned| match &planned.action {
                Action::Launch(launch) => Some(launch),
                _ => None,
            });
        let launches: Vec<_> = launches.collect();
        let is_recorded = |launch: &Launch| {
            commit
                .intents
                .iter()
                .any(|intent| *intent.name() == launch.name)
        };
        if let Some(launch) = launches.iter().find(|launch| !is_recorded(launch)) {
            let what = format!("{} of {}", launch.name, commit.id);
            self.breaks("C1: a plan is committed with its launches", now, what);
        }
        let pods: Vec<_> = launches.iter().flat_map(|launch| &launch.pods).collect();
        // A command's replacements may also serve pending pods; either launch may serve them.
        if wins && lane == Lane::Provisioner {
            // Later pods may use the capacity planned for an expected pod, by the plan or by scheduling; that pod is then planned
            // again, which is no violation.
            let is_given_away = |intent: &&Intent| {
                let own = &intent.launch.pods;
                let mut expected = commit.plan.nominations.iter();
                let is_planned = expected.any(|nomination| {
                    nomination.node == Expected::NodeClaim(intent.name().clone())
                        && !own.contains(&nomination.pod)
                });
                let claim = world.api.node_claims.get(intent.name());
                let node = claim.and_then(|claim| claim.status.node_name.as_ref());
                let mut pods = world.api.pods.values();
                let is_taken = pods.any(|pod| {
                    pod.node_name.is_some()
                        && pod.node_name.as_ref() == node
                        && own.iter().all(|other| other.key != pod.key)
                });
                is_planned || is_taken
            };
            let intents = rows(world)
                .into_iter()
                .flat_map(|rows| rows.intents.values());
            // A launch that exceeds the registration timeout is not expected to serve its pods any more.
            let is_late =
                |intent: &&Intent| now.duration_since(intent.committed_at) > REGISTERED_WITHIN;
            let others = intents
                .filter(|intent| intent.is_in_flight() && intent.plan != commit.id)
                .filter(|intent| !is_late(intent))
                .filter(|intent| !is_given_away(intent) && !ends(&world.api, intent.name()));
            let twice = others.flat_map(|intent| {
                intent
                    .launch
                    .pods
                    .iter()
                    .map(move |pod| (pod, intent.name()))
            });
            if let Some((pod, other)) = twice.into_iter().find(|(pod, _)| pods.contains(pod)) {
                let what = format!(
                    "{} by {other}, and by generation {} again",
                    pod.key,
                    commit.base + 1
                );
                self.breaks("C1: a pod is served by one launch at a time", now, what);
            }
        }
        let moved = pods
            .iter()
            .find(|pod| self.reread.get(&(lane, pod.key.clone())) == Some(&false));
        if let Some(pod) = moved.filter(|_| lane == Lane::Provisioner) {
            self.breaks(
                "A6: pods that moved cause no launch",
                now,
                pod.key.to_string(),
            );
        }
        self.reread.retain(|(of, _), _| *of != lane);
        let binding = commit
            .commands
            .iter()
            .filter(|command| command.state == CommandState::Replacing)
            .filter(|command| !is_repair(command));
        for target in binding.flat_map(|command| &command.delete) {
            let Some(claim) = world.api.node_claims.get(&target.name) else {
                continue;
            };
            let node = world
                .api
                .nodes
                .values()
                .find(|node| node.provider_id == claim.status.provider_id);
            let (Some(node), None) = (node, &claim.spec.termination_grace_period) else {
                continue;
            };
            let old = |pod: &Pod| {
                pod.started_at
                    .is_some_and(|at| now.duration_since(at) > NOTICED_WITHIN)
            };
            let mut pods = world.api.pods.values();
            let held = pods.find(|pod| {
                pod.node_name.as_ref() == Some(&node.name)
                    && pod.deletion.is_none()
                    && is_protected(pod)
                    && old(pod)
            });
            if let Some(pod) = held {
                let what = format!("{} holds {}", pod.key, target.name);
                self.breaks(
                    "nodes with do-not-disrupt pods are not disrupted",
                    now,
                    what,
                );
            }
        }
    }
}

/// Returns whether a command repairs a node; its pods get a deadline even if they must not be disrupted.
fn is_repair(command: &Command) -> bool {
    let choice = command.choice.as_ref();
    choice.is_some_and(|choice| choice.method == Method::Repair)
}
