use model::{
    PodKey,
    pod::{Owner, PodShape, WhenUnsatisfiable},
    snapshot::{Service, Workload},
};

use super::*;
use crate::fixtures;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn by_zone() -> TopologySpread {
    TopologySpread {
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        max_skew: 3,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: None,
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    }
}

/// A pod with an owner of this kind, and a workload of that name.
fn world(kind: &str) -> (Snapshot, Pod) {
    let mut snapshot = fixtures::snapshot();
    snapshot.settings.default_topology_spread = vec![by_zone()];
    let own = LabelSelector {
        match_labels: map(&[("app", "web")]),
        match_expressions: vec![LabelExpression {
            key: "tier".to_owned(),
            operator: LabelOperator::Exists,
            values: Vec::new(),
        }],
    };
    snapshot.workloads = vec![Workload {
        kind: kind.to_owned(),
        key: PodKey::new("default", "web"),
        selector: Some(own),
        ..Workload::default()
    }];
    let shape = PodShape {
        labels: map(&[("app", "web"), ("tier", "front")]),
        owner: Some(Owner {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: "web".to_owned(),
            uid: "web".into(),
        }),
        ..PodShape::default()
    };
    let pod = Pod {
        key: PodKey::new("default", "web-1"),
        shape: shape.into(),
        ..Pod::default()
    };
    (snapshot, pod)
}

/// Selector of the pod's workload: labels as `key=value`, then keys of expressions.
fn selected(snapshot: &Snapshot, pod: &Pod) -> Option<Vec<String>> {
    let pod = with_default(pod, snapshot);
    let selector = pod.topology_spread.first()?.selector.clone()?;
    let labels = selector.match_labels.iter();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter();
    let expressions = expressions.map(|expression| {
        format!(
            "{} {:?} {:?}",
            expression.key, expression.operator, expression.values
        )
    });
    Some(labels.chain(expressions).collect())
}

#[test]
fn pod_without_constraints_is_spread_among_pods_of_its_controller() {
    for kind in ["ReplicaSet", "StatefulSet"] {
        let (snapshot, pod) = world(kind);
        let of = selected(&snapshot, &pod).unwrap();
        assert_eq!(of, ["app In [\"web\"]", "tier Exists []"]);
    }
    let (snapshot, pod) = world("ReplicationController");
    assert_eq!(selected(&snapshot, &pod).unwrap(), ["app=web"]);
    let (snapshot, pod) = world("Job");
    assert_eq!(selected(&snapshot, &pod), None);
}

#[test]
fn selectors_of_services_in_its_namespace_are_combined() {
    let (mut snapshot, pod) = world("Job");
    let service = |namespace: &str, selector: &[(&str, &str)]| Service {
        key: PodKey::new(namespace, "web"),
        selector: map(selector),
    };
    snapshot.services = vec![
        service("other", &[("app", "web")]),
        service("default", &[("app", "db")]),
        service("default", &[("app", "web"), ("tier", "back")]),
    ];
    assert_eq!(selected(&snapshot, &pod), None);
    snapshot
        .services
        .push(service("default", &[("tier", "front")]));
    assert_eq!(selected(&snapshot, &pod).unwrap(), ["tier=front"]);
}

#[test]
fn selector_of_another_controller_is_ignored() {
    type Change = fn(&mut Workload);
    let others: [Change; 3] = [
        |workload| workload.kind = "StatefulSet".to_owned(),
        |workload| workload.key = PodKey::new("other", "web"),
        |workload| workload.key = PodKey::new("default", "db"),
    ];
    for change in others {
        let (mut snapshot, pod) = world("ReplicaSet");
        change(&mut snapshot.workloads[0]);
        assert_eq!(selected(&snapshot, &pod), None);
    }
}

#[test]
fn pod_with_constraints_keeps_them() {
    let (mut snapshot, mut pod) = world("ReplicaSet");
    let constrained = with_default(&pod, &snapshot).into_owned();
    let spread = &constrained.topology_spread[0];
    assert_eq!(
        (spread.max_skew, spread.topology_key.as_str()),
        (3, "topology.kubernetes.io/zone")
    );
    let own = TopologySpread {
        max_skew: 1,
        ..by_zone()
    };
    pod.topology_spread = vec![own];
    assert_eq!(with_default(&pod, &snapshot).topology_spread[0].max_skew, 1);
    pod.topology_spread.clear();
    snapshot.settings.default_topology_spread.clear();
    assert_eq!(selected(&snapshot, &pod), None);
}
