//! The pods of the workloads in a snapshot made of manifests.

use model::{
    PodKey, Snapshot,
    pod::{Owner, Pod, PodPhase},
    snapshot::Workload,
};

/// What the cluster's controllers and scheduler would do first: workloads get their pods, and what is bound nowhere waits.
pub(crate) fn make_pods(snapshot: &mut Snapshot) {
    let made: Vec<Pod> = snapshot
        .workloads
        .iter()
        .flat_map(|workload| missing_pods(workload, snapshot))
        .collect();
    snapshot.pods.extend(made);
    for pod in &mut snapshot.pods {
        let waits = pod.node_name.is_none() && pod.phase == PodPhase::Pending;
        pod.unschedulable |= waits && pod.scheduling_gates.is_empty();
    }
}

/// A workload's pods, unless the manifests hold them already.
fn missing_pods(workload: &Workload, snapshot: &Snapshot) -> Vec<Pod> {
    let (Some(template), Some(selector)) = (&workload.pod, &workload.selector) else {
        return Vec::new();
    };
    let present = snapshot
        .pods
        .iter()
        .filter(|pod| pod.key.namespace == workload.key.namespace && selector.matches(&pod.labels));
    let present = i64::try_from(present.count()).unwrap_or(i64::MAX);
    let wanted = workload.replicas.unwrap_or(1).saturating_sub(present);
    (0..wanted.clamp(0, REPLICAS_MAX))
        .map(|n| {
            let name = format!("{}-{n}", workload.key.name);
            let mut pod = Pod {
                uid: name.as_str().into(),
                key: PodKey::new(workload.key.namespace.clone(), name),
                ..(**template).clone()
            };
            pod.owner = Some(Owner {
                api_version: "apps/v1".to_owned(),
                kind: workload.kind.clone(),
                name: workload.key.name.clone(),
                uid: workload.uid.clone(),
            });
            pod
        })
        .collect()
}

/// A cluster of this size is beyond what Kubernetes supports.
const REPLICAS_MAX: i64 = 150_000;
