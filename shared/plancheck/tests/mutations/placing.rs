//! Pods that may be placed.

use super::*;

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "a pod is placed twice",
        |w| {
            let pod = pod_ref("plain-0");
            w.launch(ZONAL).pods.push(pod)
        },
        at(ZONAL),
        "is placed already",
    ),
    (
        "a pod is nominated and launched for",
        |w| w.plan.nominations.push(nominate("plain-0", "n-2")),
        at(PLAIN),
        "is placed already, by nomination 2",
    ),
    (
        "a pod does not exist",
        |w| w.snapshot.pods.retain(|pod| pod.key.name != "zonal-0"),
        at(ZONAL),
        "pod default/zonal-0 does not exist",
    ),
    (
        "a pod was recreated",
        |w| w.pod("zonal-0").uid = "other".into(),
        at(ZONAL),
        "was recreated",
    ),
    (
        "a pod is bound meanwhile",
        |w| w.pod("zonal-0").node_name = Some("n-1".into()),
        at(ZONAL),
        "is bound to node n-1",
    ),
    (
        "a pod is being deleted",
        |w| {
            w.pod("zonal-0").deletion = Some(model::pod::Deletion {
                at: now(),
                grace_seconds: 0,
            })
        },
        at(ZONAL),
        "is being deleted",
    ),
    (
        "a pod has finished",
        |w| w.pod("zonal-0").phase = PodPhase::Succeeded,
        at(ZONAL),
        "has finished",
    ),
    (
        "a pod waits for a gate",
        |w| w.pod("zonal-0").scheduling_gates = vec!["quota".into()],
        at(ZONAL),
        "scheduling gate quota",
    ),
    (
        "a pod is invalid",
        |w| w.pod("zonal-0").problems = vec!["cpu \"x\"".into()],
        at(ZONAL),
        "is invalid: cpu",
    ),
    (
        "a DaemonSet's pod is placed",
        |w| {
            let pod = owned_by_daemon_set(w.pod("zonal-0").clone());
            *w.pod("zonal-0") = pod
        },
        at(ZONAL),
        "belongs to its node",
    ),
    (
        "a launch is for no pod",
        |w| w.launch(DIVERSE).pods.clear(),
        at(DIVERSE),
        "is for no pod",
    ),
    (
        "two launches have one name",
        |w| w.launch(ZONAL).name = "plain".into(),
        at(ZONAL),
        "NodeClaim plain exists already",
    ),
    (
        "a NodeClaim of the name exists",
        |w| w.launch(ZONAL).name = "claim-n-1".into(),
        at(ZONAL),
        "exists already",
    ),
];
