//! Objects that a plan names: pods must exist and be placed once, and names of new NodeClaims must be free.

use std::collections::BTreeSet;

use model::{Action, Memo, Plan, PodKey, plan::PodRef, pod::Pod};

use crate::{
    Findings, Subject,
    world::{World, is_reschedulable, is_terminal, is_tied_to_node},
};

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Findings) {
    let mut seen: Memo<&PodKey, Subject> = Memo::default();
    for (index, nomination) in plan.nominations.iter().enumerate() {
        pod(
            world,
            &nomination.pod,
            Subject::Nomination(index),
            &mut seen,
            findings,
        );
    }
    let mut names: BTreeSet<&str> = world.machine_of_claim.keys().copied().collect();
    names.extend(world.in_flight.keys());
    names.extend(
        world
            .snapshot
            .intents
            .iter()
            .map(|intent| intent.name().as_str()),
    );
    for (index, planned) in plan.actions.iter().enumerate() {
        let Action::Launch(launch) = &planned.action else {
            continue;
        };
        let subject = Subject::Action(index);
        if !names.insert(launch.name.as_str()) {
            findings.add(subject, format!("NodeClaim {} exists already", launch.name));
        }
        let pool = world.pools.get(launch.node_pool.as_str());
        let is_static = pool.is_some_and(|pool| pool.replicas.is_some());
        if launch.pods.is_empty() && !is_static && !has_buffers(world) {
            findings.add(subject, format!("NodeClaim {} is for no pod", launch.name));
        }
        for of_launch in &launch.pods {
            pod(world, of_launch, subject, &mut seen, findings);
        }
    }
}

/// Whether a launch may be for pods of CapacityBuffers, which plans do not name
/// (docs/spec/scheduling.md#capacity-buffer).
fn has_buffers(world: &World<'_>) -> bool {
    world.snapshot.settings.feature_gates.get("CapacityBuffer") == Some(&true)
        && !world.snapshot.capacity_buffers.is_empty()
}

fn pod<'p>(
    world: &World<'_>,
    reference: &'p PodRef,
    subject: Subject,
    seen: &mut Memo<&'p PodKey, Subject>,
    findings: &mut Findings,
) {
    let key = &reference.key;
    if let Some(before) = seen.insert(key, subject) {
        findings.add(subject, format!("pod {key} is placed already, by {before}"));
        seen.insert(key, before);
    }
    match world.pods.get(key) {
        None => findings.add(subject, format!("pod {key} does not exist")),
        Some(pod) if pod.uid != reference.uid => findings.add(
            subject,
            format!(
                "pod {key} was recreated: its uid is {}, not {}",
                pod.uid, reference.uid
            ),
        ),
        Some(pod) => {
            if let Some(why) = unplaceable(world, pod) {
                findings.add(subject, format!("pod {key} {why}"));
            }
        }
    }
}

/// Reason why a pod needs no place, or may not have one.
fn unplaceable(world: &World<'_>, pod: &Pod) -> Option<String> {
    if is_terminal(pod) {
        return Some("has finished".to_owned());
    }
    if is_tied_to_node(pod) {
        return Some("belongs to its node".to_owned());
    }
    if let Some(node) = &pod.node_name {
        let moves = world
            .machine_of(pod)
            .is_some_and(|machine| !machine.stays());
        if !moves || !is_reschedulable(pod) {
            return Some(format!("is bound to node {node}"));
        }
    } else if pod.deletion.is_some() {
        return Some("is being deleted".to_owned());
    }
    if let Some(gate) = pod.scheduling_gates.first() {
        return Some(format!("waits for scheduling gate {gate}"));
    }
    pod.problems
        .first()
        .map(|problem| format!("is invalid: {problem}"))
}
