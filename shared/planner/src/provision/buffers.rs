//! CapacityBuffers as virtual pods, which are planned for like others and never reported
//! (docs/spec/scheduling.md#capacity-buffer).

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use api::names::annotation::{
    CAPACITY_BUFFER_FAKE_POD, CAPACITY_BUFFER_NAME, CAPACITY_BUFFER_NAMESPACE,
};
use model::{PodKey, Snapshot, Uid, plan::BufferCapacity, pod::Pod, snapshot::CapacityBuffer};
use scheduling::{Input, SolveResult};

/// Most virtual pods of a buffer. More would starve existing pods.
const PODS_MAX: i64 = 10_000;

/// Virtual pods of all buffers, if the feature gate is on.
pub(crate) fn pods(snapshot: &Snapshot) -> Vec<Cow<'_, Pod>> {
    if snapshot.settings.feature_gates.get("CapacityBuffer") != Some(&true) {
        return Vec::new();
    }
    snapshot
        .capacity_buffers
        .iter()
        .flat_map(pods_of)
        .map(Cow::Owned)
        .collect()
}

pub(super) fn is_virtual(pod: &Pod) -> bool {
    pod.annotations.contains_key(CAPACITY_BUFFER_FAKE_POD)
}

/// CapacityBuffer that a virtual pod belongs to.
pub(super) fn buffer_of(pod: &Pod) -> Option<PodKey> {
    let namespace = pod.annotations.get(CAPACITY_BUFFER_NAMESPACE)?;
    let name = pod.annotations.get(CAPACITY_BUFFER_NAME)?;
    Some(PodKey::new(namespace.clone(), name.clone()))
}

/// Whether existing nodes have room for each buffer. Buffers with pods left to the next turn are not judged.
pub(super) fn rooms(
    input: &Input<'_>,
    result: &SolveResult,
    left_out: &BTreeSet<PodKey>,
) -> BTreeMap<PodKey, BufferCapacity> {
    let buffer_at = |at: &usize| input.pods.get(*at).copied().and_then(buffer_of);
    let there = result.existing.iter().flat_map(|(_, pods)| pods);
    let new = result.new_nodes.iter().flat_map(|node| &node.pods);
    let nowhere = result.unplaced.iter().map(|left| &left.pod);
    let mut rooms: BTreeMap<PodKey, BufferCapacity> = there
        .filter_map(buffer_at)
        .map(|buffer| (buffer, BufferCapacity::Available))
        .collect();
    let lacking = new.chain(nowhere).filter_map(buffer_at);
    rooms.extend(lacking.map(|buffer| (buffer, BufferCapacity::Insufficient)));
    rooms.retain(|buffer, _| !left_out.contains(buffer));
    rooms
}

fn pods_of(buffer: &CapacityBuffer) -> Vec<Pod> {
    let Some(template) = &buffer.pod else {
        return Vec::new();
    };
    let mut pod = (**template).clone();
    pod.volumes.clear();
    pod.node_name = None;
    let PodKey { namespace, name } = buffer.key.clone();
    pod.annotations.extend([
        (CAPACITY_BUFFER_FAKE_POD.to_owned(), "true".to_owned()),
        (CAPACITY_BUFFER_NAMESPACE.to_owned(), namespace),
        (CAPACITY_BUFFER_NAME.to_owned(), name),
    ]);
    (1..=buffer_pods(buffer))
        .map(|n| Pod {
            key: PodKey::new(
                buffer.key.namespace.clone(),
                format!("capacity-buffer-{}-{n}", buffer.key.name),
            ),
            uid: Uid(format!("{}-{n}", buffer.uid)),
            ..pod.clone()
        })
        .collect()
}

/// Number of virtual pods of a buffer: the larger of `replicas` and the percentage of its workload, within its limits; zero
/// until its pod template is known.
pub fn buffer_pods(buffer: &CapacityBuffer) -> i64 {
    let Some(pod) = &buffer.pod else {
        return 0;
    };
    let share = buffer
        .percentage
        .zip(buffer.scalable_replicas)
        .map(|(percentage, replicas)| {
            let share = (replicas.saturating_mul(percentage)).saturating_add(99) / 100;
            share.max(i64::from(percentage > 0 && replicas > 0))
        });
    let wanted = buffer.replicas.max(share);
    let allowed = buffer
        .limits
        .iter()
        .filter_map(|(name, limit)| {
            let request = pod.requests.get(name);
            (request > 0).then(|| limit / request)
        })
        .min();
    let number = match (wanted, allowed) {
        (Some(wanted), Some(allowed)) => wanted.min(allowed),
        (wanted, allowed) => wanted.or(allowed).unwrap_or(0),
    };
    number.clamp(0, PODS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_the_larger_of_replicas_and_percentage_within_limits() {
        let mut pod = Pod::default();
        pod.requests.set("cpu", 500);
        let mut buffer = CapacityBuffer {
            pod: Some(Box::new(pod)),
            replicas: Some(2),
            percentage: Some(25),
            scalable_replicas: Some(10),
            ..CapacityBuffer::default()
        };
        assert_eq!(buffer_pods(&buffer), 3);
        buffer.limits.set("cpu", 1_000);
        assert_eq!(buffer_pods(&buffer), 2);
        (buffer.replicas, buffer.percentage) = (None, None);
        assert_eq!(buffer_pods(&buffer), 2);
        buffer.limits.0.clear();
        assert_eq!(buffer_pods(&buffer), 0);
    }

    fn share(percentage: i64, replicas: i64) -> i64 {
        buffer_pods(&CapacityBuffer {
            pod: Some(Box::default()),
            percentage: Some(percentage),
            scalable_replicas: Some(replicas),
            ..CapacityBuffer::default()
        })
    }

    #[test]
    fn percentage_rounds_up_to_at_least_one() {
        assert_eq!((share(25, 10), share(25, 8), share(1, 1)), (3, 2, 1));
        assert_eq!((share(0, 10), share(25, 0), share(0, 0)), (0, 0, 0));
        assert_eq!((share(-5, 10), share(5, -10)), (0, 0));
    }

    #[test]
    fn limits_on_unrequested_resources_are_ignored() {
        let mut buffer = CapacityBuffer {
            pod: Some(Box::default()),
            replicas: Some(4),
            ..CapacityBuffer::default()
        };
        buffer.limits.set("cpu", 1_000);
        assert_eq!(buffer_pods(&buffer), 4);
    }

    #[test]
    fn virtual_pods_have_unique_names_and_name_their_buffer() {
        let buffer = CapacityBuffer {
            key: PodKey::new("shop", "spare"),
            uid: "u".into(),
            pod: Some(Box::default()),
            replicas: Some(2),
            ..CapacityBuffer::default()
        };
        let pods = pods_of(&buffer);
        let named = pods
            .iter()
            .map(|pod| (pod.key.to_string(), pod.uid.0.as_str()));
        assert_eq!(
            named.collect::<Vec<_>>(),
            [
                ("shop/capacity-buffer-spare-1".to_owned(), "u-1"),
                ("shop/capacity-buffer-spare-2".to_owned(), "u-2"),
            ]
        );
        assert!(pods.iter().all(is_virtual));
        assert_eq!(buffer_of(&pods[0]), Some(buffer.key));
        assert_eq!(buffer_of(&Pod::default()), None);
    }
}
