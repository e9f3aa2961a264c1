//! CapacityBuffers as pods that do not exist: they are planned for like others and never reported (spec/scheduling §27.1).

use std::borrow::Cow;

use model::{PodKey, Snapshot, Uid, pod::Pod, snapshot::CapacityBuffer};

use api::names::annotation::CAPACITY_BUFFER_FAKE_POD;

/// A buffer of more pods than this is cut: planning for them would starve the pods that exist.
const PODS_MAX: i64 = 10_000;

/// The pods that all buffers stand for, if the feature is on.
pub(super) fn pods(snapshot: &Snapshot) -> Vec<Cow<'_, Pod>> {
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

fn pods_of(buffer: &CapacityBuffer) -> Vec<Pod> {
    let Some(template) = &buffer.pod else {
        return Vec::new();
    };
    let mut pod = (**template).clone();
    pod.volumes.clear();
    pod.node_name = None;
    pod.annotations
        .insert(CAPACITY_BUFFER_FAKE_POD.to_owned(), "true".to_owned());
    (1..=replicas(buffer, &pod))
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

/// The larger of what is asked outright and as a share of a workload, as far as the limits allow.
fn replicas(buffer: &CapacityBuffer, pod: &Pod) -> i64 {
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
    fn a_buffer_is_the_larger_wish_within_its_limits() {
        let mut pod = Pod::default();
        pod.requests.set("cpu", 500);
        let mut buffer = CapacityBuffer {
            replicas: Some(2),
            percentage: Some(25),
            scalable_replicas: Some(10),
            ..CapacityBuffer::default()
        };
        assert_eq!(replicas(&buffer, &pod), 3);
        buffer.limits.set("cpu", 1_000);
        assert_eq!(replicas(&buffer, &pod), 2);
        (buffer.replicas, buffer.percentage) = (None, None);
        assert_eq!(replicas(&buffer, &pod), 2);
        buffer.limits.0.clear();
        assert_eq!(replicas(&buffer, &pod), 0);
    }
}
