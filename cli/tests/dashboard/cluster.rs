//! A simulated cluster with a fixed set of nodes.

use std::path::{Path, PathBuf};

use sandbox::{Credential, Sandbox, SandboxOptions, server::WriteOptions};
use serde_json::{Value, json};

pub(crate) struct Cluster {
    pub(crate) server: Sandbox,
    kubeconfig: tempfile::NamedTempFile,
}

impl Cluster {
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.path().to_owned()
    }

    /// Adds a NodePool whose EC2NodeClass does not exist, and a node that is not ready.
    pub(crate) fn add_problems(&self) {
        self.add_node_pool("gpu");
        let mut broken = node(9999);
        broken["status"]["conditions"][0]["status"] = "Unknown".into();
        create(&self.server, "", broken);
    }

    /// Adds a NodePool whose EC2NodeClass, of the same name, does not exist.
    pub(crate) fn add_node_pool(&self, name: &str) {
        create(
            &self.server,
            "",
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
                "spec": {"template": {"spec": {
                    "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
                }}},
            }),
        );
    }

    /// Replaces the token of the kubeconfig by one that the API server rejects.
    pub(crate) fn invalidate_token(&mut self) {
        let text = std::fs::read_to_string(self.kubeconfig.path()).unwrap();
        let lines = text.lines().map(|line| match line.split_once("token:") {
            Some((before, _)) => format!("{before}token: forgotten\n"),
            None => format!("{line}\n"),
        });
        std::fs::write(self.kubeconfig.path(), lines.collect::<String>()).unwrap();
    }
}

/// A cluster with this many nodes in two zones, this many pods per node, and one pending pod.
pub(crate) async fn of(nodes: usize, pods: usize) -> Cluster {
    let options = SandboxOptions {
        credentials: vec![Credential::administrator("known")],
        ..SandboxOptions::default()
    };
    let server = Sandbox::start(options).await.unwrap();
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart/charts/crds/templates");
    for file in std::fs::read_dir(crds).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        create(&server, "", serde_saphyr::from_str(&text).unwrap());
    }
    for number in 0..nodes {
        create(&server, "", node(number));
        for nth in 0..pods {
            create(
                &server,
                "default",
                pod(&format!("web-{number:04}-{nth}"), "100m", Some(number)),
            );
        }
    }
    create(&server, "default", pod("huge", "10000", None));
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), server.kubeconfig_yaml()).unwrap();
    Cluster { server, kubeconfig }
}

fn node(number: usize) -> Value {
    let amounts = json!({"cpu": "2", "memory": "8Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number:04}"), "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": if number < 3 { "us-east-1a" } else { "us-east-1b" },
        }},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

fn pod(name: &str, cpu: &str, node: Option<usize>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node.map(|number| format!("node-{number:04}")),
            "containers": [{"name": "web", "image": "example.com/web:1",
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
        },
    })
}

fn create(server: &Sandbox, namespace: &str, object: Value) {
    server.with(|world, now| {
        let server = &mut world.server;
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap();
        let kind = object.get("kind").and_then(Value::as_str).unwrap();
        let kind = server.kinds.by_kind(version, kind).unwrap().clone();
        let options = WriteOptions::default();
        server
            .create(&kind, namespace, object, &options, now)
            .unwrap();
    });
}
