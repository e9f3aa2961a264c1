//! Pending and running pods.

use model::{
    PodKey, Resources, Snapshot,
    labels::ZONE,
    pod::{
        Deletion, HostPort, Owner, Pod, PodAffinityTerm, PodPhase, PodShape, TopologySpread,
        WhenUnsatisfiable,
    },
    selector::LabelSelector,
    taint::{Taint, TaintEffect, Toleration, TolerationOperator},
};

use super::*;

pub(crate) fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

pub(crate) fn pending(name: &str, millicores: i64) -> Pod {
    Pod {
        key: key(name),
        uid: format!("{name}-uid").into(),
        unschedulable: true,
        shape: PodShape {
            labels: labels(&[("app", name.rsplit_once('-').map_or(name, |(app, _)| app))]),
            requests: Resources::from([("cpu", millicores), ("memory", GIB / 4), ("pods", 1)]),
            ..PodShape::default()
        }
        .into(),
        ..Pod::default()
    }
}

pub(crate) fn running(name: &str, millicores: i64, node: &str) -> Pod {
    Pod {
        node_name: Some(node.into()),
        phase: PodPhase::Running,
        ready: true,
        started_at: Some(hours_ago(1)),
        unschedulable: false,
        ..pending(name, millicores)
    }
}

/// The pod after applying `change`.
pub(crate) fn but(mut pod: Pod, change: impl FnOnce(&mut Pod)) -> Pod {
    change(&mut pod);
    pod
}

pub(crate) fn app(name: &str) -> Option<LabelSelector> {
    Some(LabelSelector {
        match_labels: labels(&[("app", name)]),
        match_expressions: Vec::new(),
    })
}

pub(crate) fn near(name: &str, topology_key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: topology_key.into(),
        selector: app(name),
        ..PodAffinityTerm::default()
    }
}

pub(crate) fn spread(name: &str, topology_key: &str) -> TopologySpread {
    TopologySpread {
        topology_key: topology_key.into(),
        max_skew: 1,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        selector: app(name),
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    }
}

pub(crate) fn host_port(port: i32) -> HostPort {
    HostPort {
        ip: "0.0.0.0".into(),
        port,
        protocol: "TCP".into(),
    }
}

pub(crate) fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    }
}

pub(crate) fn tolerates(key: &str) -> Toleration {
    Toleration {
        key: key.into(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        toleration_seconds: None,
    }
}

pub(crate) fn owned_by_daemon_set(pod: Pod) -> Pod {
    let owner = Owner {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        name: "logs".into(),
        uid: "logs".into(),
    };
    but(pod, |pod| pod.owner = Some(owner))
}

pub(crate) fn add_pods(snapshot: &mut Snapshot) {
    let pods = &mut snapshot.pods;
    pods.push(but(running("web-0", 2_000, "n-1"), |pod| {
        pod.volumes = claims("data-web")
    }));
    pods.push(running("web-1", 2_000, "n-2"));
    pods.push(running("moving-0", 500, "n-3"));
    let terminating = Deletion {
        at: hours_ago(1),
        grace_seconds: 30,
    };
    pods.push(Pod {
        deletion: Some(terminating),
        ..running("stuck-0", 500, "n-3")
    });
    for index in 0..4 {
        pods.push(pending(&format!("plain-{index}"), 1_500));
    }
    pods.push(but(pending("zonal-0", 1_000), |pod| {
        pod.node_selector = labels(&[(ZONE, "b")])
    }));
    pods.push(but(pending("dedicated-0", 1_000), |pod| {
        pod.node_selector = labels(&[("team", "a")]);
        pod.tolerations = vec![tolerates("dedicated")];
    }));
    for index in 0..3 {
        pods.push(but(pending(&format!("spread-{index}"), 500), |pod| {
            pod.topology_spread = vec![spread("spread", ZONE)]
        }));
    }
    for index in 0..2 {
        let mut pod = pending(&format!("apart-{index}"), 500);
        pod.pod_anti_affinity.required = vec![near("apart", model::labels::HOSTNAME)];
        pods.push(pod);
        pods.push(but(pending(&format!("port-{index}"), 100), |pod| {
            pod.host_ports = vec![host_port(8080)]
        }));
    }
    let mut follower = pending("follower-0", 100);
    follower.pod_affinity.required = vec![near("web", ZONE)];
    pods.push(follower);
    let mut peer = pending("peer-0", 100);
    peer.pod_affinity.required = vec![near("peer", ZONE)];
    pods.push(Pod {
        key: key("peer-1"),
        uid: "peer-1-uid".into(),
        ..peer.clone()
    });
    pods.push(peer);
    pods.push(but(pending("db-0", 500), |pod| {
        pod.volumes = claims("data-db")
    }));
    pods.push(but(pending("small-0", 500), |pod| {
        pod.volumes = claims("data-small")
    }));
    pods.push(pending("late-0", 500));
    pods.push(pending("choosy-0", 500));
    pods.push(pending("reserved-0", 500));
}
