use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    World, WorldOptions, json,
    server::{DeleteOptions, Deleted, EVENTS, Part, Propagation, WriteOptions, is_ready},
    store::{Object, ObjectKey},
};

/// Simulated cluster with its own virtual clock.
struct Simulation {
    world: World,
    now: Timestamp,
}

impl Simulation {
    fn new() -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self {
            world: World::new(&WorldOptions::default(), now),
            now,
        }
    }

    /// Advances the clock from one due time to the next.
    fn pass(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        loop {
            let due = self.world.step(self.now);
            assert_eq!(self.world.controllers.take_errors(), Vec::<String>::new());
            if self.now == end {
                return;
            }
            let soonest = self.now + SignedDuration::from_millis(1);
            self.now = due.unwrap_or(end).max(soonest).min(end);
        }
    }

    fn create(&mut self, api_version: &str, kind: &str, namespace: &str, object: Value) {
        let kind = self
            .world
            .server
            .kinds
            .by_kind(api_version, kind)
            .unwrap()
            .clone();
        let options = WriteOptions::default();
        self.world
            .server
            .create(&kind, namespace, object, &options, self.now)
            .unwrap();
    }

    fn change(&mut self, table: &TableId, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let kind = self.world.server.kind_of(table).unwrap();
        self.world
            .server
            .modify(&kind, key, Part::Main, self.now, change)
            .unwrap();
    }

    fn delete(&mut self, table: &TableId, key: &ObjectKey, propagation: Propagation) -> Deleted {
        let kind = self.world.server.kind_of(table).unwrap();
        let options = DeleteOptions {
            propagation,
            ..DeleteOptions::default()
        };
        self.world
            .server
            .delete(&kind, key, &options, self.now)
            .unwrap()
    }

    fn node(&mut self, name: &str, zone: &str) {
        self.node_with(NodeJoin {
            name: name.to_owned(),
            zone: zone.to_owned(),
            ..node_join()
        });
    }

    fn node_with(&mut self, join: NodeJoin) {
        self.world
            .join_node(join, SignedDuration::from_secs(5), self.now);
    }

    fn get(&self, table: &TableId, key: &ObjectKey) -> Option<Arc<Object>> {
        self.world.server.store.get(table, key).cloned()
    }

    fn all(&self, table: &TableId) -> Vec<Arc<Object>> {
        self.world.server.store.all(table).cloned().collect()
    }

    fn running(&self) -> usize {
        self.all(&PODS)
            .iter()
            .filter(|pod| is_ready(pod.value()) && !pod.is_terminating())
            .count()
    }

    /// Messages of the pods that wait, each distinct one once.
    fn waiting(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self
            .all(&PODS)
            .iter()
            .flat_map(|pod| json::items(pod.value(), &["status", "conditions"]).to_vec())
            .filter(|condition| json::text(condition, &["status"]) == "False")
            .map(|condition| json::text(&condition, &["message"]).to_owned())
            .collect();
        reasons.dedup();
        reasons
    }

    fn nodes_of_pods(&self) -> Vec<String> {
        let pods = self.all(&PODS);
        pods.iter()
            .map(|pod| owned::node_name(pod).to_owned())
            .collect()
    }
}

fn node_join() -> NodeJoin {
    let mut capacity = model::Resources::default();
    for (name, quantity) in [("cpu", "4"), ("memory", "8Gi"), ("pods", "20")] {
        capacity.set_quantity(name, quantity).unwrap();
    }
    NodeJoin {
        provider_id: "aws:///us-east-1a/i-0".to_owned(),
        instance_type: "m5.xlarge".to_owned(),
        architecture: "amd64".to_owned(),
        allocatable: capacity.clone(),
        capacity,
        ..NodeJoin::default()
    }
}

fn default(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn pod_spec(cpu: &str) -> Value {
    json!({"containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}]})
}

fn deployment(name: &str, replicas: u32, spec: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

fn pod(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
}

#[test]
fn deployment_runs_once_a_node_joins() {
    let mut simulation = Simulation::new();
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("web", 3, pod_spec("1")),
    );
    simulation.pass(1);
    assert_eq!(
        simulation.waiting(),
        ["no nodes available to schedule pods"]
    );

    simulation.node("node-a", "us-east-1a");
    simulation.pass(4);
    assert!(simulation.all(&NODES).is_empty(), "still booting");
    simulation.pass(2);
    let node = simulation
        .get(&NODES, &ObjectKey::new("", "node-a"))
        .unwrap();
    assert_eq!(
        node.value()["spec"]["taints"][0]["key"],
        "node.kubernetes.io/not-ready"
    );
    assert_eq!(
        node.value()["metadata"]["labels"]["topology.kubernetes.io/region"],
        "us-east-1"
    );
    simulation.pass(5);
    assert_eq!(simulation.running(), 3);
    let status = simulation
        .get(&DEPLOYMENTS, &default("web"))
        .unwrap()
        .value()["status"]
        .clone();
    assert_eq!(
        (&status["readyReplicas"], &status["updatedReplicas"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(status["conditions"][0]["type"], "Available");
    assert_eq!(status["conditions"][0]["status"], "True");
}

#[test]
fn scaling_down_deletes_pending_pods_first() {
    let mut simulation = Simulation::new();
    simulation.node("node-a", "us-east-1a");
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("web", 6, pod_spec("1")),
    );
    simulation.pass(20);
    assert_eq!((simulation.running(), simulation.all(&PODS).len()), (4, 6));
    let [message] = simulation.waiting().try_into().unwrap();
    assert_eq!(
        message,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    simulation.change(&DEPLOYMENTS, &default("web"), |deployment| {
        json::set(deployment, &["spec", "replicas"], 4);
    });
    simulation.pass(0);
    assert_eq!((simulation.running(), simulation.all(&PODS).len()), (4, 4));
    simulation.change(&DEPLOYMENTS, &default("web"), |deployment| {
        json::set(deployment, &["spec", "replicas"], 0);
    });
    simulation.pass(0);
    assert_eq!(simulation.all(&PODS).len(), 4, "they have their grace");
    simulation.pass(2);
    assert!(simulation.all(&PODS).is_empty());
}

#[test]
fn rolling_update_respects_max_unavailable() {
    let mut simulation = Simulation::new();
    simulation.node("node-a", "us-east-1a");
    simulation.node("node-b", "us-east-1b");
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("web", 4, pod_spec("1")),
    );
    simulation.pass(20);
    simulation.change(&DEPLOYMENTS, &default("web"), |deployment| {
        json::set(
            deployment,
            &["spec", "template", "metadata", "labels", "version"],
            "2",
        );
    });
    for _ in 0..20 {
        simulation.pass(1);
        assert!(simulation.running() >= 3, "maxUnavailable is 25 % of 4");
    }
    let pods = simulation.all(&PODS);
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| pod.labels()["version"] == "2"));
    let sets: Vec<i64> = simulation
        .all(&REPLICA_SETS)
        .iter()
        .map(|set| set.value()["spec"]["replicas"].as_i64().unwrap())
        .collect();
    assert_eq!(sets.iter().sum::<i64>(), 4);
    assert_eq!(sets.len(), 2, "the old one is kept for going back");
}

#[test]
fn deleting_a_deployment_deletes_its_dependents() {
    for (propagation, is_gone_at_once) in [
        (Propagation::Background, true),
        (Propagation::Foreground, false),
    ] {
        let mut simulation = Simulation::new();
        simulation.node("node-a", "us-east-1a");
        simulation.create(
            "apps/v1",
            "Deployment",
            "default",
            deployment("web", 2, pod_spec("1")),
        );
        simulation.pass(20);
        simulation.delete(&DEPLOYMENTS, &default("web"), propagation);
        let is_gone = simulation.get(&DEPLOYMENTS, &default("web")).is_none();
        assert_eq!(is_gone, is_gone_at_once, "{propagation:?}");
        simulation.pass(5);
        assert!(simulation.all(&PODS).is_empty() && simulation.all(&REPLICA_SETS).is_empty());
        assert!(simulation.all(&DEPLOYMENTS).is_empty());
    }
    let mut simulation = Simulation::new();
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("web", 2, pod_spec("1")),
    );
    simulation.pass(1);
    simulation.delete(&DEPLOYMENTS, &default("web"), Propagation::Orphan);
    simulation.pass(5);
    assert_eq!(
        (
            simulation.all(&DEPLOYMENTS).len(),
            simulation.all(&REPLICA_SETS).len()
        ),
        (0, 1)
    );
}

#[test]
fn every_matching_node_runs_one_daemon_pod() {
    let mut simulation = Simulation::new();
    let spec = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {
                "nodeSelector": {"topology.kubernetes.io/zone": "us-east-1a"},
                "containers": [{"name": "agent", "image": "agent:1"}],
            },
        },
    });
    simulation.create(
        "apps/v1",
        "DaemonSet",
        "default",
        json!({"metadata": {"name": "agent"}, "spec": spec}),
    );
    for (name, zone) in [
        ("node-a", "us-east-1a"),
        ("node-b", "us-east-1b"),
        ("node-c", "us-east-1a"),
    ] {
        simulation.node(name, zone);
    }
    simulation.pass(20);
    assert_eq!(simulation.running(), 2);
    let status = simulation
        .get(&DAEMON_SETS, &default("agent"))
        .unwrap()
        .value()["status"]
        .clone();
    assert_eq!(status["desiredNumberScheduled"], 2);
    assert_eq!(status["numberReady"], 2);
    // A cordoned node keeps its daemon pod.
    simulation.change(&NODES, &ObjectKey::new("", "node-a"), |node| {
        json::set(node, &["spec", "unschedulable"], true);
    });
    simulation.pass(5);
    assert_eq!(simulation.running(), 2);
}

#[test]
fn job_runs_to_completion() {
    let mut simulation = Simulation::new();
    simulation.node("node-a", "us-east-1a");
    let mut spec = pod_spec("1");
    json::set(&mut spec, &["restartPolicy"], "Never");
    let job = json!({
        "metadata": {"name": "once"},
        "spec": {"parallelism": 2, "completions": 3, "template": {"spec": spec}},
    });
    simulation.create("batch/v1", "Job", "default", job);
    simulation.pass(60);
    let status = simulation.get(&JOBS, &default("once")).unwrap().value()["status"].clone();
    assert_eq!(status["succeeded"], 3);
    assert_eq!(status["conditions"][0]["type"], "Complete");
}

#[test]
fn budget_status_counts_allowed_disruptions() {
    let mut simulation = Simulation::new();
    simulation.node("node-a", "us-east-1a");
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("web", 3, pod_spec("1")),
    );
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": "34%", "selector": {"matchLabels": {"app": "web"}}},
    });
    simulation.create("policy/v1", "PodDisruptionBudget", "default", budget);
    simulation.pass(20);
    let allowed = |simulation: &Simulation| {
        let budget = simulation.get(&BUDGETS, &default("web")).unwrap();
        json::integer(budget.value(), &["status", "disruptionsAllowed"]).unwrap()
    };
    assert_eq!(allowed(&simulation), 2, "34 % of 3, rounded up");
    let pods = simulation.world.server.kind_of(&PODS).unwrap();
    let first = simulation.all(&PODS)[0].key();
    let now = simulation.now;
    simulation
        .world
        .server
        .evict(&pods, &first, &DeleteOptions::default(), now)
        .unwrap();
    assert_eq!(allowed(&simulation), 1);
    simulation.pass(0);
    assert_eq!(allowed(&simulation), 1, "the same pod is not counted twice");
    simulation.pass(10);
    assert_eq!((allowed(&simulation), simulation.running()), (2, 3));
}

#[test]
fn taints_selectors_and_affinity_filter_nodes() {
    let mut simulation = Simulation::new();
    simulation.node_with(NodeJoin {
        name: "tainted".to_owned(),
        taints: vec![model::taint::Taint {
            key: "example.com/gpu".to_owned(),
            value: "true".to_owned(),
            effect: model::taint::TaintEffect::NoSchedule,
        }],
        ..node_join()
    });
    simulation.node("plain", "us-east-1a");
    simulation.pass(10);
    let mut arm = pod_spec("1");
    json::set(&mut arm, &["nodeSelector", "kubernetes.io/arch"], "arm64");
    simulation.create("v1", "Pod", "default", pod("arm", arm));
    simulation.pass(0);
    assert_eq!(
        simulation.waiting(),
        [
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {example.com/gpu: true}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        ]
    );
    let mut tolerant = pod_spec("3");
    json::set(
        &mut tolerant,
        &["tolerations"],
        json!([{"key": "example.com/gpu", "operator": "Exists"}]),
    );
    json::set(
        &mut tolerant,
        &[
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ],
        json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["plain"]}]}]),
    );
    simulation.create("v1", "Pod", "default", pod("tolerant", tolerant));
    simulation.pass(5);
    let placed = simulation.get(&PODS, &default("tolerant")).unwrap();
    assert_eq!(owned::node_name(&placed), "tainted");
}

#[test]
fn spread_and_anti_affinity_are_respected() {
    let mut simulation = Simulation::new();
    for (name, zone) in [
        ("node-a", "us-east-1a"),
        ("node-b", "us-east-1a"),
        ("node-c", "us-east-1b"),
    ] {
        simulation.node(name, zone);
    }
    let mut spec = pod_spec("100m");
    json::set(
        &mut spec,
        &["topologySpreadConstraints"],
        json!([{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }]),
    );
    simulation.pass(10);
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("spread", 5, spec),
    );
    simulation.pass(5);
    let in_c = simulation
        .nodes_of_pods()
        .iter()
        .filter(|node| *node == "node-c")
        .count();
    assert!((2..=3).contains(&in_c), "{:?}", simulation.nodes_of_pods());

    let mut alone = pod_spec("100m");
    json::set(
        &mut alone,
        &[
            "affinity",
            "podAntiAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ],
        json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "alone"}}}]),
    );
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("alone", 4, alone),
    );
    simulation.pass(5);
    assert!(
        simulation.waiting()[0].contains("3 node(s) didn't match pod anti-affinity rules"),
        "{:?}",
        simulation.waiting()
    );
}

#[test]
fn volume_is_provisioned_in_the_zone_of_its_pod_and_pins_it() {
    let mut simulation = Simulation::new();
    simulation.node("node-b", "us-east-1b");
    let class = json!({
        "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    simulation.create("storage.k8s.io/v1", "StorageClass", "", class);
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "gp3", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let mut spec = pod_spec("1");
    json::set(
        &mut spec,
        &["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
    );
    simulation.create("v1", "Pod", "default", pod("db", spec.clone()));
    simulation.pass(10);
    assert_eq!(
        simulation.waiting(),
        ["persistentvolumeclaim \"data\" not found"]
    );
    simulation.create("v1", "PersistentVolumeClaim", "default", claim);
    simulation.pass(5);
    assert_eq!(simulation.running(), 1);
    assert_eq!(simulation.all(&ATTACHMENTS).len(), 1);

    simulation.delete(&PODS, &default("db"), Propagation::Background);
    simulation.world.stop_machine("node-b");
    simulation.node("node-a", "us-east-1a");
    simulation.pass(120);
    assert!(simulation.all(&ATTACHMENTS).is_empty());
    simulation.create("v1", "Pod", "default", pod("db", spec));
    simulation.pass(1);
    assert!(
        simulation.waiting()[0].contains("volume node affinity conflict"),
        "{:?}",
        simulation.waiting()
    );
}

#[test]
fn pods_of_a_stopped_machine_move_to_other_nodes() {
    let mut simulation = Simulation::new();
    simulation.node("node-a", "us-east-1a");
    simulation.create(
        "apps/v1",
        "Deployment",
        "default",
        deployment("web", 2, pod_spec("1")),
    );
    simulation.pass(20);
    simulation.node("node-b", "us-east-1b");
    simulation.pass(20);
    assert!(simulation.world.stop_machine("node-a"));
    simulation.pass(30);
    assert_eq!(
        simulation.all(&NODES).len(),
        2,
        "the lease has not expired yet"
    );
    simulation.pass(30);
    assert!(
        simulation
            .get(&NODES, &ObjectKey::new("", "node-a"))
            .is_none()
    );
    simulation.pass(60);
    assert_eq!(simulation.running(), 2);
    assert_eq!(simulation.nodes_of_pods(), ["node-b", "node-b"]);
}

#[test]
fn no_execute_taints_evict_after_toleration_seconds() {
    let mut simulation = Simulation::new();
    simulation.node("node-a", "us-east-1a");
    let mut patient = pod_spec("1");
    json::set(
        &mut patient,
        &["tolerations"],
        json!([
            {"key": "example.com/out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ]),
    );
    simulation.create("v1", "Pod", "default", pod("patient", patient));
    simulation.create("v1", "Pod", "default", pod("hasty", pod_spec("1")));
    simulation.pass(20);
    assert_eq!(simulation.running(), 2);
    let since = crate::server::rfc3339(simulation.now);
    simulation.change(&NODES, &ObjectKey::new("", "node-a"), |node| {
        json::set(
            node,
            &["spec", "taints"],
            json!([
                {"key": "example.com/out", "effect": "NoExecute", "timeAdded": since},
            ]),
        );
    });
    simulation.pass(10);
    assert_eq!(simulation.running(), 1);
    simulation.pass(60);
    assert!(simulation.all(&PODS).is_empty());
}

#[test]
fn deleting_a_namespace_deletes_its_contents() {
    let mut simulation = Simulation::new();
    simulation.create("v1", "Namespace", "", json!({"metadata": {"name": "team"}}));
    simulation.create(
        "v1",
        "ConfigMap",
        "team",
        json!({"metadata": {"name": "settings"}}),
    );
    simulation.create(
        "apps/v1",
        "Deployment",
        "team",
        deployment("web", 1, pod_spec("1")),
    );
    simulation.pass(1);
    let Deleted::Later(_) = simulation.delete(
        &NAMESPACES,
        &ObjectKey::new("", "team"),
        Propagation::Background,
    ) else {
        panic!("gone before its contents");
    };
    simulation.pass(1);
    assert!(
        simulation
            .get(&NAMESPACES, &ObjectKey::new("", "team"))
            .is_none()
    );
    assert!(simulation.all(&DEPLOYMENTS).is_empty() && simulation.all(&PODS).is_empty());
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = || {
        let mut simulation = Simulation::new();
        simulation.node("node-a", "us-east-1a");
        simulation.create(
            "apps/v1",
            "Deployment",
            "default",
            deployment("web", 5, pod_spec("1")),
        );
        simulation.pass(60);
        simulation
            .all(&PODS)
            .iter()
            .map(|pod| pod.encoded().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// An event with these names and this message.
fn event(about: &str, message: &str, at: Timestamp) -> Value {
    let at = crate::server::rfc3339(at);
    json!({
        "metadata": {"generateName": format!("{about}."), "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": about, "namespace": "default", "uid": about},
        "type": "Normal", "reason": "Nominated", "message": message, "reportingComponent": "whittle",
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    })
}

#[test]
fn equal_events_are_counted_with_the_times_of_the_first_and_the_last() {
    let mut simulation = Simulation::new();
    let start = simulation.now;
    for message in ["to a", "to a", "to b"] {
        let event = event("web-0", message, simulation.now);
        simulation.create("v1", "Event", "default", event);
        simulation.pass(60);
    }
    let seen: Vec<(String, i64, String, String)> = simulation
        .world
        .server
        .store
        .all(&EVENTS)
        .map(|event| {
            let text = |path: &[&str]| json::text(event.value(), path).to_owned();
            let count = json::integer(event.value(), &["count"]).unwrap();
            (
                text(&["message"]),
                count,
                text(&["firstTimestamp"]),
                text(&["lastTimestamp"]),
            )
        })
        .collect();
    let at = |seconds| crate::server::rfc3339(start + SignedDuration::from_secs(seconds));
    for expected in [
        ("to a".to_owned(), 2, at(0), at(60)),
        ("to b".to_owned(), 1, at(120), at(120)),
    ] {
        assert!(seen.contains(&expected), "{expected:?}: {seen:?}");
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn oldest_of_too_many_events_are_deleted() {
    let mut simulation = Simulation::new();
    for number in 0..=events::EVENTS_MAX {
        let at = simulation.now + SignedDuration::from_secs(i64::try_from(number).unwrap());
        let event = event("web-0", &number.to_string(), at);
        simulation.create("v1", "Event", "default", event);
    }
    simulation.pass(0);
    let store = &simulation.world.server.store;
    assert_eq!(store.count(&EVENTS), events::EVENTS_KEPT);
    let last = events::EVENTS_MAX.to_string();
    let mut kept = store.all(&EVENTS);
    assert!(kept.any(|event| json::text(event.value(), &["message"]) == last));
}
