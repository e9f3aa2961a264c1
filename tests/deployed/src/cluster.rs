//! A cluster: an API server with the controllers of a control plane, `kubectl`, and kubelets that wait for machines.

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
    given,
    kubelets::Kubelets,
    wire::{TOKEN, Wire},
};

pub struct Cluster {
    /// Between the functions and the API server.
    pub wire: Wire,
    pub kubelets: Kubelets,
    /// Nodes that were there before.
    others: BTreeSet<String>,
    control_plane: ControlPlane,
    /// Serves as long as the cluster is there.
    _runtime: Runtime,
    /// Tests share a cluster that is given, one after the other.
    _turn: Option<File>,
}

impl Cluster {
    /// A cluster with Karpenter's CRDs and nothing else, simulated unless the environment names a real one.
    pub fn start() -> Self {
        Self::of(ControlPlane::start)
    }

    /// One more, beside the one that the environment may name.
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
        let is_given = control_plane.is_given();
        let turn = is_given.then(given::a_turn);
        let (wire, kubelets) = runtime.block_on(async {
            let client = connect(&control_plane.kubeconfig).await;
            let wire = Wire::start(client.clone()).await;
            (wire, Kubelets::start(client))
        });
        let mut cluster = Self {
            wire,
            kubelets,
            others: BTreeSet::new(),
            control_plane,
            _runtime: runtime,
            _turn: turn,
        };
        if is_given {
            given::is_meant(&cluster);
        }
        let crds = root().join("infra/chart/charts/crds/templates");
        cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
        cluster.kubectl(&["wait", "crd", "--all", "--for=condition=Established"]);
        cluster.grant();
        if is_given {
            given::clear(&cluster);
        }
        let others = cluster.list("nodes");
        let others = others
            .iter()
            .filter_map(|node| node["metadata"]["name"].as_str());
        cluster.others = others.map(str::to_owned).collect();
        cluster
    }

    /// Gives functions and relay the rights that the chart gives them.
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

    /// Where the functions find the API server.
    pub fn url(&self) -> String {
        self.wire.url()
    }

    /// What it asks them for.
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.control_plane.kubeconfig
    }

    /// With the rights of the relay.
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

    /// All objects of a kind, but for nodes that were there before.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let text = self.kubectl(&["get", kind, "--all-namespaces", "-o", "json"]);
        let mut list: Value = serde_json::from_str(&text).unwrap();
        let Value::Array(mut items) = list["items"].take() else {
            panic!("kubectl get {kind}: {text}")
        };
        if kind == "nodes" {
            let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
            items.retain(|node| name(node).is_none_or(|name| !self.others.contains(&name)));
        }
        items
    }

    fn run(&self, arguments: &[&str], input: &str) -> String {
        self.try_kubectl(arguments, input)
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// What kubectl prints, or what it says went wrong.
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

/// By one file or several, as in `KUBECONFIG`.
async fn connect(kubeconfig: &Path) -> Client {
    let files = std::env::split_paths(kubeconfig);
    let read = files.map(|file| {
        Kubeconfig::read_from(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    });
    let all = read.reduce(|all, next| all.merge(next).unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(all, &KubeConfigOptions::default()).await;
    let mut config = config.unwrap_or_else(|error| panic!("{}: {error}", kubeconfig.display()));
    // Who asks is to see what the API server says.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// The checkout.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.unwrap().to_owned()
}
