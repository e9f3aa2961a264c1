use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    patch::apply::Conflicts,
    store::{Change, Listing, Start},
};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

struct Cluster {
    server: ApiServer,
}

impl Cluster {
    fn new() -> Self {
        Self {
            server: ApiServer::new(7, 100, now()),
        }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Arc<ResourceType> {
        self.server
            .kinds
            .by_kind(api_version, kind)
            .unwrap()
            .clone()
    }

    fn pods(&self) -> Arc<ResourceType> {
        self.kind("v1", "Pod")
    }

    fn deployments(&self) -> Arc<ResourceType> {
        self.kind("apps/v1", "Deployment")
    }

    fn create(&mut self, kind: &ResourceType, object: Value) -> ApiResult<Arc<Object>> {
        let options = WriteOptions::default();
        let written = self
            .server
            .create(kind, "default", object, &options, now())?;
        Ok(written.object)
    }

    fn update(&mut self, kind: &ResourceType, part: Part, object: Value) -> ApiResult<Arc<Object>> {
        let key = key(json::text(&object, &["metadata", "name"]));
        let options = WriteOptions::default();
        let written = self
            .server
            .update(kind, &key, part, object, &options, now())?;
        Ok(written.object)
    }

    fn delete(
        &mut self,
        kind: &ResourceType,
        name: &str,
        options: &DeleteOptions,
    ) -> ApiResult<Deleted> {
        self.server.delete(kind, &key(name), options, now())
    }

    fn apply(
        &mut self,
        kind: &ResourceType,
        manager: &str,
        config: Value,
        conflicts: Conflicts,
    ) -> ApiResult<Arc<Object>> {
        let key = key(json::text(&config, &["metadata", "name"]));
        let options = WriteOptions {
            manager: Some(manager.to_owned()),
            conflicts,
            ..WriteOptions::default()
        };
        let written = self
            .server
            .apply(kind, &key, Part::Main, config, &options, now())?;
        Ok(written.object)
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": 1}}}]},
    })
}

fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

#[test]
fn new_object_gets_metadata_and_defaults() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    let pod = cluster.create(&pods, pod("web-0")).unwrap();
    assert_eq!(pod.namespace(), "default");
    assert!(!pod.uid().is_empty());
    let value = pod.value();
    assert_eq!(
        value["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(
        value["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        "1"
    );
    assert_eq!(value["status"]["phase"], "Pending");
    assert_eq!(value["status"]["qosClass"], "Burstable");
    assert_eq!(value["spec"]["tolerations"][0]["tolerationSeconds"], 300);
}

#[test]
fn generated_names_differ_and_existing_names_conflict() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    let mut generated = pod("");
    json::remove(&mut generated, &["metadata", "name"]);
    json::set(&mut generated, &["metadata", "generateName"], "web-");
    let first = cluster.create(&pods, generated.clone()).unwrap();
    let second = cluster.create(&pods, generated).unwrap();
    assert!(first.name().starts_with("web-") && first.name() != second.name());
    let error = cluster.create(&pods, pod(first.name())).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "AlreadyExists"));
}

#[test]
fn unknown_namespaces_and_invalid_names_are_rejected() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    let options = WriteOptions::default();
    let error = cluster
        .server
        .create(&pods, "nowhere", pod("a"), &options, now());
    assert_eq!(
        error.unwrap_err().message,
        "namespaces \"nowhere\" not found"
    );
    let error = cluster.create(&pods, pod("Web_0")).unwrap_err();
    assert_eq!(error.code, 422);
    assert!(error.message.contains("metadata.name"), "{error}");
}

#[test]
fn update_of_an_older_version_conflicts() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    let old = cluster.create(&deployments, deployment(1)).unwrap();
    let mut new = old.value().clone();
    json::set(&mut new, &["spec", "replicas"], 2);
    cluster
        .update(&deployments, Part::Main, new.clone())
        .unwrap();
    let error = cluster.update(&deployments, Part::Main, new).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
}

#[test]
fn generation_counts_only_spec_changes() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    let generation = |object: &Object| object.value()["metadata"]["generation"].clone();
    let created = cluster.create(&deployments, deployment(1)).unwrap();
    assert_eq!(generation(&created), 1);
    let mut labelled = created.value().clone();
    json::set(&mut labelled, &["metadata", "labels", "a"], "b");
    let labelled = cluster.update(&deployments, Part::Main, labelled).unwrap();
    assert_eq!(generation(&labelled), 1);
    let mut scaled = labelled.value().clone();
    json::set(&mut scaled, &["spec", "replicas"], 3);
    let scaled = cluster.update(&deployments, Part::Main, scaled).unwrap();
    assert_eq!(generation(&scaled), 2);
}

#[test]
fn main_resource_and_status_are_written_separately() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    let created = cluster.create(&deployments, deployment(1)).unwrap();
    let mut both = created.value().clone();
    json::set(&mut both, &["spec", "replicas"], 5);
    json::set(&mut both, &["status", "replicas"], 5);
    let status = cluster
        .update(&deployments, Part::Status, both.clone())
        .unwrap();
    assert_eq!(status.value()["spec"]["replicas"], 1);
    assert_eq!(status.value()["status"]["replicas"], 5);
    let mut both = status.value().clone();
    json::set(&mut both, &["spec", "replicas"], 7);
    json::set(&mut both, &["status", "replicas"], 7);
    let main = cluster.update(&deployments, Part::Main, both).unwrap();
    assert_eq!(main.value()["spec"]["replicas"], 7);
    assert_eq!(main.value()["status"]["replicas"], 5);
}

#[test]
fn write_without_changes_keeps_the_revision() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    let created = cluster.create(&deployments, deployment(1)).unwrap();
    let again = cluster
        .update(&deployments, Part::Main, created.value().clone())
        .unwrap();
    assert_eq!(again.revision(), created.revision());
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    let mut held = deployment(1);
    json::set(
        &mut held,
        &["metadata", "finalizers"],
        json!(["example.com/hold"]),
    );
    cluster.create(&deployments, held).unwrap();
    let Deleted::Later(marked) = cluster
        .delete(&deployments, "web", &DeleteOptions::default())
        .unwrap()
    else {
        panic!("deleted in spite of its finalizer");
    };
    assert_eq!(
        marked.value()["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    let mut more = marked.value().clone();
    json::set(
        &mut more,
        &["metadata", "finalizers"],
        json!(["example.com/hold", "example.com/late"]),
    );
    assert_eq!(
        cluster
            .update(&deployments, Part::Main, more)
            .unwrap_err()
            .code,
        422
    );
    let mut released = marked.value().clone();
    json::remove(&mut released, &["metadata", "finalizers"]);
    cluster.update(&deployments, Part::Main, released).unwrap();
    assert_eq!(
        cluster
            .server
            .get(&deployments, &key("web"))
            .unwrap_err()
            .code,
        404
    );
}

#[test]
fn only_running_pods_get_a_grace_period() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    cluster.create(&pods, pod("pending")).unwrap();
    let options = DeleteOptions::default();
    assert!(matches!(
        cluster.delete(&pods, "pending", &options),
        Ok(Deleted::Now(_))
    ));

    let mut running = pod("running");
    json::set(&mut running, &["spec", "nodeName"], "node-0");
    cluster.create(&pods, running).unwrap();
    let Ok(Deleted::Later(marked)) = cluster.delete(&pods, "running", &options) else {
        panic!("no grace");
    };
    assert_eq!(
        marked.value()["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:30Z"
    );
    assert_eq!(marked.value()["metadata"]["deletionGracePeriodSeconds"], 30);
    let force = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    assert!(matches!(
        cluster.delete(&pods, "running", &force),
        Ok(Deleted::Now(_))
    ));
}

#[test]
fn preconditions_guard_a_delete() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    let pod = cluster.create(&pods, pod("web-0")).unwrap();
    let guarded = |uid: &str, revision: u64| DeleteOptions {
        preconditions: Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(revision.to_string()),
        },
        ..DeleteOptions::default()
    };
    for wrong in [guarded("another", pod.revision()), guarded(pod.uid(), 1)] {
        assert_eq!(
            cluster.delete(&pods, "web-0", &wrong).unwrap_err().code,
            409
        );
    }
    assert!(
        cluster
            .delete(&pods, "web-0", &guarded(pod.uid(), pod.revision()))
            .is_ok()
    );
}

#[test]
fn pages_of_a_list_share_one_revision() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    for name in ["a", "b", "c"] {
        cluster.create(&pods, pod(name)).unwrap();
    }
    let moment = cluster.server.store.revision();
    cluster
        .delete(&pods, "b", &DeleteOptions::default())
        .unwrap();
    cluster.create(&pods, pod("d")).unwrap();
    let names = |listing: Listing| -> Vec<String> {
        listing
            .objects
            .iter()
            .map(|object| object.name().to_owned())
            .collect()
    };
    let store = &cluster.server.store;
    let then = store
        .list_at(&pods.table, moment, None, &Start::Beginning)
        .unwrap();
    assert_eq!(names(then), ["a", "b", "c"]);
    let rest = store
        .list_at(&pods.table, moment, None, &Start::After(key("a")))
        .unwrap();
    assert_eq!(names(rest), ["b", "c"]);
    assert_eq!(
        names(store.list(&pods.table, None, &Start::Beginning)),
        ["a", "c", "d"]
    );
}

#[test]
fn history_is_bounded_and_reports_compaction() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    let start = cluster.server.store.revision();
    for index in 0..101 {
        cluster.create(&pods, pod(&format!("pod-{index}"))).unwrap();
    }
    let store = &mut cluster.server.store;
    assert!(store.events_after(&pods.table, start).is_none());
    assert!(
        store
            .list_at(&pods.table, start, None, &Start::Beginning)
            .is_none()
    );
    let events: Vec<Change> = store
        .events_after(&pods.table, start + 1)
        .unwrap()
        .map(|event| event.change.clone())
        .collect();
    assert_eq!(events.len(), 100);
    let current = store.revision();
    store.compact();
    assert!(store.events_after(&pods.table, current - 1).is_none());
    assert!(store.events_after(&pods.table, current).is_some());
}

#[test]
fn apply_creates_updates_and_removes_unstated_fields() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    let mut config = deployment(2);
    json::set(
        &mut config,
        &["metadata", "labels"],
        json!({"a": "1", "b": "2"}),
    );
    let created = cluster
        .apply(&deployments, "me", config.clone(), Conflicts::Refuse)
        .unwrap();
    assert_eq!(created.value()["spec"]["strategy"]["type"], "RollingUpdate");
    json::set(&mut config, &["metadata", "labels"], json!({"a": "3"}));
    json::remove(&mut config, &["spec", "replicas"]);
    let updated = cluster
        .apply(&deployments, "me", config.clone(), Conflicts::Refuse)
        .unwrap();
    assert_eq!(updated.value()["metadata"]["labels"], json!({"a": "3"}));
    assert_eq!(
        updated.value()["spec"]["replicas"],
        1,
        "back to the default"
    );
    let again = cluster
        .apply(&deployments, "me", config, Conflicts::Refuse)
        .unwrap();
    assert_eq!(again.revision(), updated.revision());
}

#[test]
fn appliers_do_not_overwrite_each_other_unless_forced() {
    let mut cluster = Cluster::new();
    let deployments = cluster.deployments();
    cluster
        .apply(&deployments, "me", deployment(2), Conflicts::Refuse)
        .unwrap();
    let scale =
        |replicas: u32| json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas}});
    let error = cluster
        .apply(&deployments, "scaler", scale(5), Conflicts::Refuse)
        .unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"me\" using apps/v1: .spec.replicas"
    );
    // An equal value is shared by both managers.
    cluster
        .apply(&deployments, "scaler", scale(2), Conflicts::Refuse)
        .unwrap();
    let forced = cluster
        .apply(&deployments, "scaler", scale(5), Conflicts::Force)
        .unwrap();
    assert_eq!(forced.value()["spec"]["replicas"], 5);
    // A field that was taken by force is not removed when its former manager stops stating it.
    let mut config = deployment(2);
    json::remove(&mut config, &["spec", "replicas"]);
    let after = cluster
        .apply(&deployments, "me", config, Conflicts::Refuse)
        .unwrap();
    assert_eq!(after.value()["spec"]["replicas"], 5);
}

#[test]
fn keyed_lists_are_applied_by_element() {
    let mut cluster = Cluster::new();
    let nodes = cluster.kind("v1", "Node");
    let options = WriteOptions {
        manager: Some("kubelet".to_owned()),
        ..WriteOptions::default()
    };
    let node = json!({
        "metadata": {"name": "n", "finalizers": ["example.com/a"]},
        "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    cluster
        .server
        .create(&nodes, "", node, &options, now())
        .unwrap();
    let apply = |cluster: &mut Cluster, part: Part, config: Value| {
        let options = WriteOptions {
            manager: Some("me".to_owned()),
            ..WriteOptions::default()
        };
        let key = ObjectKey::new("", "n");
        cluster
            .server
            .apply(&nodes, &key, part, config, &options, now())
    };
    let status = json!({"status": {"conditions": [{"type": "Drained", "status": "False"}]}});
    let node = apply(&mut cluster, Part::Status, status).unwrap().object;
    let types: Vec<&str> = json::items(node.value(), &["status", "conditions"])
        .iter()
        .map(|condition| json::text(condition, &["type"]))
        .collect();
    assert_eq!(types, ["Ready", "Drained"]);
    let finalizers = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let node = apply(&mut cluster, Part::Main, finalizers).unwrap().object;
    assert_eq!(
        node.value()["metadata"]["finalizers"],
        json!(["example.com/a", "example.com/b"])
    );
    let node = apply(&mut cluster, Part::Main, json!({"metadata": {}}))
        .unwrap()
        .object;
    assert_eq!(
        node.value()["metadata"]["finalizers"],
        json!(["example.com/a"])
    );
    // Taints are an atomic list, owned as a whole.
    let taints = json!({"spec": {"taints": [{"key": "y", "effect": "NoSchedule"}]}});
    assert_eq!(
        apply(&mut cluster, Part::Main, taints).unwrap_err().code,
        409
    );
}

#[test]
fn config_map_holds_a_mebibyte_of_values() {
    let mut cluster = Cluster::new();
    let kind = cluster.kind("v1", "ConfigMap");
    let config_map = |bytes: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"},
            "data": {"half": "x".repeat(1 << 19), "rest": "x".repeat(bytes)},
        })
    };
    let refused = cluster
        .create(&kind, config_map((1 << 19) + 1))
        .unwrap_err();
    assert_eq!(refused.code, 422);
    assert!(
        refused
            .message
            .contains("may not be more than 1048576 bytes")
    );
    cluster.create(&kind, config_map(1 << 19)).unwrap();
}

#[test]
fn exhausted_budget_rejects_evictions() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    let mut running = pod("web-0");
    json::set(&mut running, &["spec", "nodeName"], "node-0");
    cluster.create(&pods, running).unwrap();
    let status = |pod: &mut Value| {
        json::set(
            pod,
            &["status"],
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        );
    };
    cluster
        .server
        .modify(&pods, &key("web-0"), Part::Status, now(), status)
        .unwrap();
    let budgets = cluster.kind("policy/v1", "PodDisruptionBudget");
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    cluster.create(&budgets, budget).unwrap();
    let options = DeleteOptions::default();

    let error = cluster
        .server
        .evict(&pods, &key("web-0"), &options, now())
        .unwrap_err();
    assert_eq!(
        error.retry_after_seconds,
        Some(10),
        "the budget has no status yet"
    );

    let set = |cluster: &mut Cluster, allowed: i64| {
        cluster
            .server
            .modify(&budgets, &key("web"), Part::Status, now(), |budget| {
                json::set(
                    budget,
                    &["status"],
                    json!({
                        "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1,
                        "expectedPods": 1, "disruptionsAllowed": allowed,
                    }),
                );
            })
            .unwrap();
    };
    set(&mut cluster, 0);
    let error = cluster
        .server
        .evict(&pods, &key("web-0"), &options, now())
        .unwrap_err();
    assert_eq!((error.code, error.retry_after_seconds), (429, None));
    assert_eq!(
        error.details.unwrap()["causes"][0]["reason"],
        "DisruptionBudget"
    );

    set(&mut cluster, 1);
    cluster
        .server
        .evict(&pods, &key("web-0"), &options, now())
        .unwrap();
    let pod = cluster.server.get(&pods, &key("web-0")).unwrap();
    assert!(pod.is_terminating());
    let budget = cluster.server.get(&budgets, &key("web")).unwrap();
    assert_eq!(budget.value()["status"]["disruptionsAllowed"], 0);
}

#[test]
fn pod_is_bound_once() {
    let mut cluster = Cluster::new();
    let pods = cluster.pods();
    cluster.create(&pods, pod("web-0")).unwrap();
    let binding = json!({"target": {"kind": "Node", "name": "node-0"}});
    cluster
        .server
        .bind(&pods, &key("web-0"), &binding, now())
        .unwrap();
    let pod = cluster.server.get(&pods, &key("web-0")).unwrap();
    assert_eq!(pod.value()["spec"]["nodeName"], "node-0");
    assert_eq!(
        pod.value()["status"]["conditions"][0]["type"],
        "PodScheduled"
    );
    let error = cluster
        .server
        .bind(&pods, &key("web-0"), &binding, now())
        .unwrap_err();
    assert_eq!(error.code, 409);
}
