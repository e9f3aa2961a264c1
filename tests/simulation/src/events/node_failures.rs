//! Machines that fail: one alone, or many for one cause, until a person sees to that.

use std::collections::BTreeSet;

use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeName, labels,
    node::{ConditionStatus, Node, NodeCondition},
};

use crate::{
    dice::Dice,
    play::Play,
    script::{Ailment, Cause, What},
};

/// AMI of which all nodes fail.
const BAD_IMAGE: &str = "ami-bad";
/// Time that nodes with it run before they do.
const RUNS_FOR: SignedDuration = SignedDuration::from_secs(60);

/// One node fails that has just been well, unless another one has failed.
pub(super) fn fail_one(world: &mut World, dice: &mut Dice, ailment: Ailment) {
    let mut nodes = world.api.nodes.values();
    if nodes.any(|node| !node.conditions.is_empty()) {
        return;
    }
    let nodes = world.api.nodes.values().filter(|node| is_well(node));
    let names: Vec<NodeName> = nodes.map(|node| node.name.clone()).collect();
    if let Some(name) = dice.pick(&names) {
        fail(world, name, ailment);
    }
}

/// Whether a node serves and nothing is wrong with it.
fn is_well(node: &Node) -> bool {
    let label = node.labels.get(labels::INITIALIZED);
    label.is_some_and(|value| value == "true")
        && node.labels.contains_key(labels::NODE_POOL)
        && node.ready.status == ConditionStatus::True
        && node.conditions.is_empty()
        && node.deleted_at.is_none()
}

fn fail(world: &mut World, name: &NodeName, ailment: Ailment) {
    let (kind, reason) = match ailment {
        Ailment::Storage => ("StorageReady", ""),
        Ailment::Accelerator => ("AcceleratedHardwareReady", "NvidiaXID79Error"),
    };
    let condition = NodeCondition {
        kind: kind.to_owned(),
        status: ConditionStatus::False,
        reason: reason.to_owned(),
        since: Some(world.now),
    };
    world.api.report_condition(name, condition);
}

/// A cause that makes nodes fail begins: a NodeClass may select the bad AMI from now on.
pub(super) fn break_out(world: &mut World, cause: Cause) {
    if cause != Cause::Image {
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

/// Every node with a cause fails.
pub(super) fn spread(play: &mut Play, now: Timestamp) {
    for place in &play.clusters {
        for (cause, ailment) in &place.outbreaks {
            let failing = place.sim.look(|world| failing(world, *cause, now));
            if failing.is_empty() {
                continue;
            }
            place.sim.with(|world| match cause {
                Cause::ApiServer => world.api.silent.extend(failing),
                Cause::Image | Cause::Zone(_) => {
                    failing.iter().for_each(|name| fail(world, name, *ailment));
                }
            });
        }
    }
}

fn failing(world: &World, cause: Cause, now: Timestamp) -> BTreeSet<NodeName> {
    let boots_badly = |node: &Node| {
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| claim.status.provider_id == node.provider_id);
        let age = node.created_at.map(|at| now.duration_since(at));
        claim.is_some_and(|claim| claim.status.image_id == BAD_IMAGE)
            && age.is_some_and(|age| age > RUNS_FOR)
    };
    let nodes = world.api.nodes.values().filter(|node| match cause {
        Cause::ApiServer => !world.api.silent.contains(&node.name),
        Cause::Zone(zone) => {
            is_well(node) && node.labels.get(labels::ZONE).is_some_and(|own| own == zone)
        }
        Cause::Image => is_well(node) && boots_badly(node),
    });
    nodes.map(|node| node.name.clone()).collect()
}

/// Whether many nodes fail for one cause.
pub(crate) fn fails(play: &Play) -> bool {
    play.clusters
        .iter()
        .any(|place| !place.outbreaks.is_empty())
}

/// Causes outlast all other trouble: nothing is owed to a cluster that has one.
pub(crate) fn go_on_failing(play: &Play) {
    for place in &play.clusters {
        for (cause, ailment) in &place.outbreaks {
            let (cause, ailment) = (*cause, *ailment);
            let what = What::Outbreak { cause, ailment };
            play.sky.add(Timestamp::MAX, &place.name, what);
        }
    }
}

/// A person sees to every cause, and to all nodes that have failed for one.
pub(crate) fn see_to_causes(play: &mut Play) {
    let now = play.now();
    for place in &mut play.clusters {
        if std::mem::take(&mut place.outbreaks).is_empty() {
            continue;
        }
        place.sim.with(|world| {
            world.api.silent.clear();
            let names: Vec<NodeName> = world.api.nodes.keys().cloned().collect();
            names
                .iter()
                .for_each(|name| world.api.forget_conditions(name));
        });
    }
    play.sky.end(now);
}
