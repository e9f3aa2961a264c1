//! Machines that fail: one by itself, or several for a common cause until a user fixes it.

use std::collections::BTreeSet;

use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeName, labels,
    node::{ConditionStatus, Node, NodeCondition},
};

use crate::{
    play::Play,
    rng::Rng,
    script::{CommonCause, EventKind, FailureMode},
};

/// AMI with which all nodes fail.
const BAD_IMAGE: &str = "ami-bad";
/// Time that nodes with this AMI run before they fail.
const RUNS_FOR: SignedDuration = SignedDuration::from_secs(60);

/// Makes one healthy node fail, unless another node has failed.
pub(super) fn fail_one(world: &mut World, rng: &mut Rng, failure_mode: FailureMode) {
    let mut nodes = world.api.nodes.values();
    if nodes.any(|node| !node.conditions.is_empty()) {
        return;
    }
    let nodes = world.api.nodes.values().filter(|node| is_healthy(node));
    let names: Vec<NodeName> = nodes.map(|node| node.name.clone()).collect();
    if let Some(name) = rng.pick(&names) {
        fail(world, name, failure_mode);
    }
}

/// Returns whether a node is in service and healthy.
fn is_healthy(node: &Node) -> bool {
    let label = node.labels.get(labels::INITIALIZED);
    label.is_some_and(|value| value == "true")
        && node.labels.contains_key(labels::NODE_POOL)
        && node.ready.status == ConditionStatus::True
        && node.conditions.is_empty()
        && node.deleted_at.is_none()
}

fn fail(world: &mut World, name: &NodeName, failure_mode: FailureMode) {
    let (kind, reason) = match failure_mode {
        FailureMode::Storage => ("StorageReady", ""),
        FailureMode::Accelerator => ("AcceleratedHardwareReady", "NvidiaXID79Error"),
    };
    let condition = NodeCondition {
        kind: kind.to_owned(),
        status: ConditionStatus::False,
        reason: reason.to_owned(),
        since: Some(world.now),
    };
    world.api.report_condition(name, condition);
}

/// Begins an outbreak: for a bad AMI, NodeClasses select it from now on.
pub(super) fn begin_outbreak(world: &mut World, cause: CommonCause) {
    if cause != CommonCause::Image {
        return;
    }
    for class in world.api.node_classes.values_mut() {
        class.spec.user_data = Some(format!("for {BAD_IMAGE}"));
        let generation = class.metadata.generation;
        class.metadata.generation = generation.map(|generation| generation + 1);
        let status = class.status.get_or_insert_default();
        status.amis = Some(vec![api::karpenter::Ami {
            id: BAD_IMAGE.to_owned(),
            ..api::karpenter::Ami::default()
        }]);
    }
}

/// Makes every node that has the cause of an outbreak fail.
pub(super) fn spread(play: &mut Play, now: Timestamp) {
    for simulated in &play.clusters {
        for (cause, failure_mode) in &simulated.outbreaks {
            let failing = simulated.sim.look(|world| failing(world, *cause, now));
            if failing.is_empty() {
                continue;
            }
            simulated.sim.with(|world| match cause {
                CommonCause::ApiServer => world.api.silent.extend(failing),
                CommonCause::Image | CommonCause::Zone(_) => {
                    failing
                        .iter()
                        .for_each(|name| fail(world, name, *failure_mode));
                }
            });
        }
    }
}

fn failing(world: &World, cause: CommonCause, now: Timestamp) -> BTreeSet<NodeName> {
    let boots_badly = |node: &Node| {
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| claim.status.provider_id == node.provider_id);
        let age = node.created_at.map(|at| now.duration_since(at));
        claim.is_some_and(|claim| claim.status.image_id == BAD_IMAGE)
            && age.is_some_and(|age| age > RUNS_FOR)
    };
    let nodes = world.api.nodes.values().filter(|node| match cause {
        CommonCause::ApiServer => !world.api.silent.contains(&node.name),
        CommonCause::Zone(zone) => {
            is_healthy(node) && node.labels.get(labels::ZONE).is_some_and(|own| own == zone)
        }
        CommonCause::Image => is_healthy(node) && boots_badly(node),
    });
    nodes.map(|node| node.name.clone()).collect()
}

/// Returns whether any outbreak is ongoing.
pub(crate) fn has_outbreaks(play: &Play) -> bool {
    play.clusters
        .iter()
        .any(|simulated| !simulated.outbreaks.is_empty())
}

/// Keeps outbreaks active after all other faults: laws expect nothing of a cluster with an outbreak.
pub(crate) fn keep_outbreaks_active(play: &Play) {
    for simulated in &play.clusters {
        for (cause, failure_mode) in &simulated.outbreaks {
            let (cause, failure_mode) = (*cause, *failure_mode);
            let event = EventKind::Outbreak {
                cause,
                failure_mode,
            };
            play.faults.add(Timestamp::MAX, &simulated.name, event);
        }
    }
}

/// Ends every outbreak, and repairs all nodes that have failed.
pub(crate) fn end_outbreaks(play: &mut Play) {
    let now = play.now();
    for simulated in &mut play.clusters {
        if std::mem::take(&mut simulated.outbreaks).is_empty() {
            continue;
        }
        simulated.sim.with(|world| {
            world.api.silent.clear();
            let names: Vec<NodeName> = world.api.nodes.keys().cloned().collect();
            names
                .iter()
                .for_each(|name| world.api.forget_conditions(name));
        });
    }
    play.faults.end(now);
}
