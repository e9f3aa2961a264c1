//! Cluster: an API server with the controllers of a control plane, `kubectl`, and simulated kubelets.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    control_plane::ControlPlane,
    kubelets::Kubelets,
    provided,
    wire::{ApiServerProxy, TOKEN},
};

pub struct Cluster {
    /// Proxy between the functions and the API server.
    pub wire: ApiServerProxy,
    pub kubelets: Kubelets,
    /// Names of the nodes that existed before the test.
    existing_nodes: BTreeSet<String>,
    control_plane: ControlPlane,
    /// Runtime that serves as long as the cluster exists.
    _runtime: Runtime,
    /// Lock by which tests use a provided cluster one after the other.
    _lock: Option<File>,
}

impl Cluster {
    /// Cluster with Karpenter's CRDs and nothing else, simulated unless the environment names a real one.
    pub fn start() -> Self {
        Self::of(ControlPlane::start)
    }

    /// Further simulated cluster, beside the one that the environment may name.
    pub fn simulated() -> Self {
        Self::of(ControlPlane::simulated)
    }

    fn of(control_plane: impl FnOnce(&Runtime) -> ControlPlane) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let control_plane = control_plane(&runtime);
        let is_provided = control_plane.is_provided();
        let lock = is_provided.then(provided::lock);
        let (wire, kubelets) = runtime.block_on(async {
            let client = connect(&control_plane.kubeconfig).await;
            let wire = ApiServerProxy::start(client.clone()).await;
            (wire, Kubelets::start(client))
        });
        let mut cluster = Self {
            wire,
            kubelets,
            existing_nodes: BTreeSet::new(),
            control_plane,
            _runtime: runtime,
            _lock: lock,
        };
        if is_provided {
            provided::check_marked_for_tests(&cluster);
        }
        let crds = root().join("infra/chart/charts/crds/templates");
        cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
        cluster.kubectl(&["wait", "crd", "--all", "--for=condition=Established"]);
        cluster.grant();
        if is_provided {
            provided::clear(&cluster);
        }
        let existing_nodes = cluster.list("nodes");
        let existing_nodes = existing_nodes
            .iter()
            .filter_map(|node| node["metadata"]["name"].as_str());
        cluster.existing_nodes = existing_nodes.map(str::to_owned).collect();
        cluster
    }

    /// Grants functions and relay the rights that the chart gives them.
    fn grant(&self) {
        let mut objects = harness::rendered_chart(&[]);
        let kinds = [
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "Role",
            "RoleBinding",
        ];
        objects.retain(|object| kinds.iter().any(|kind| object["kind"] == *kind));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.apply(&list.to_string());
    }

    /// URL at which the functions reach the API server.
    pub fn url(&self) -> String {
        self.wire.url()
    }

    /// Bearer token of the functions.
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.control_plane.kubeconfig
    }

    /// Kubeconfig with the rights of the relay.
    pub fn relay_kubeconfig(&self) -> &Path {
        &self.control_plane.relay_kubeconfig
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.run(arguments, "")
    }

    pub fn apply(&self, manifests: &str) -> String {
        self.run(&["apply", "-f", "-"], manifests)
    }

    pub fn scale(&self, deployment: &str, replicas: usize) {
        self.kubectl(&[
            "scale",
            "deployment",
            deployment,
            &format!("--replicas={replicas}"),
        ]);
    }

    /// All objects of a kind, except nodes that existed before the test.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let text = self.kubectl(&["get", kind, "--all-namespaces", "-o", "json"]);
        let mut list: Value = serde_json::from_str(&text).unwrap();
        let Value::Array(mut items) = list["items"].take() else {
            panic!("kubectl get {kind}: {text}")
        };
        if kind == "nodes" {
            let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
            items.retain(|node| name(node).is_none_or(|name| !self.existing_nodes.contains(&name)));
        }
        items
    }

    fn run(&self, arguments: &[&str], input: &str) -> String {
        self.try_kubectl(arguments, input)
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// Output of kubectl, or its error output.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut kubectl = Command::new(harness::tool("bin/kubectl"))
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        kubectl
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = kubectl.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

/// Connects with one kubeconfig file or several, as in `KUBECONFIG`.
async fn connect(kubeconfig: &Path) -> Client {
    let files = std::env::split_paths(kubeconfig);
    let read = files.map(|file| {
        Kubeconfig::read_from(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    });
    let all = read.reduce(|all, next| all.merge(next).unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(all, &KubeConfigOptions::default()).await;
    let mut config = config.unwrap_or_else(|error| panic!("{}: {error}", kubeconfig.display()));
    // Tests must see the API server's own responses.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Root of the checkout.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.unwrap().to_owned()
}
