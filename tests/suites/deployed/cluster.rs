//! A cluster: an API server with the controllers of a control plane, and `kubectl`.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sandbox::{Sandbox, SandboxOptions};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    kubeconfig: NamedTempFile,
    /// Serves as long as the cluster is there.
    _runtime: Runtime,
}

impl Cluster {
    /// A cluster with Karpenter's CRDs, to which its token gives access.
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let sandbox = runtime
            .block_on(Sandbox::start(SandboxOptions::default()))
            .unwrap();
        let kubeconfig = NamedTempFile::new().unwrap();
        fs::write(&kubeconfig, sandbox.kubeconfig_yaml()).unwrap();
        let cluster = Self {
            sandbox,
            kubeconfig,
            _runtime: runtime,
        };
        let crds = root().join("infra/chart/charts/crds/templates");
        cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
        cluster.kubectl(&["wait", "crd", "--all", "--for=condition=Established"]);
        cluster
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.run(arguments, "")
    }

    pub(crate) fn apply(&self, manifests: &str) -> String {
        self.run(&["apply", "-f", "-"], manifests)
    }

    pub(crate) fn scale(&self, deployment: &str, replicas: usize) {
        self.kubectl(&[
            "scale",
            "deployment",
            deployment,
            &format!("--replicas={replicas}"),
        ]);
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, kind: &str) -> Vec<Value> {
        let text = self.kubectl(&["get", kind, "--all-namespaces", "-o", "json"]);
        let mut list: Value = serde_json::from_str(&text).unwrap();
        let Value::Array(items) = list["items"].take() else {
            panic!("kubectl get {kind}: {text}")
        };
        items
    }

    fn run(&self, arguments: &[&str], input: &str) -> String {
        self.try_kubectl(arguments, input)
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// What kubectl prints, or what it says went wrong.
    pub(crate) fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
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

/// The checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}
