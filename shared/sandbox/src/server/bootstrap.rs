use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, WriteOptions};

/// Objects that every new cluster has.
fn objects() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let namespace = |name: &str| json!({"metadata": {"name": name}});
    let priority = |name: &str, value: i64| {
        json!({
            "metadata": {"name": name}, "value": value,
            "description": "Used for pods that the cluster needs.",
        })
    };
    let service = |name: &str, address: &str, ports: Value| {
        json!({
            "metadata": {"name": name},
            "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": ports},
        })
    };
    vec![
        ("v1", "Namespace", "", namespace("default")),
        ("v1", "Namespace", "", namespace("kube-system")),
        ("v1", "Namespace", "", namespace("kube-public")),
        ("v1", "Namespace", "", namespace("kube-node-lease")),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "",
            priority("system-cluster-critical", 2_000_000_000),
        ),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "",
            priority("system-node-critical", 2_000_001_000),
        ),
        (
            "v1",
            "Service",
            "default",
            service(
                "kubernetes",
                "10.100.0.1",
                json!([{"name": "https", "port": 443}]),
            ),
        ),
        (
            "v1",
            "Service",
            "kube-system",
            service(
                "kube-dns",
                "10.100.0.10",
                json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
            ),
        ),
    ]
}

impl ApiServer {
    pub(super) fn bootstrap(&mut self, now: Timestamp) {
        for (api_version, kind, namespace, object) in objects() {
            let Some(kind) = self.kinds.by_kind(api_version, kind).cloned() else {
                continue;
            };
            let created = self.create(&kind, namespace, object, &WriteOptions::default(), now);
            debug_assert!(created.is_ok(), "{created:?}");
        }
    }
}
