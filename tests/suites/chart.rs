//! The chart, installed by the real helm into the oldest and the newest supported API server.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sandbox::{NEWEST_KUBERNETES, OLDEST_KUBERNETES, Sandbox, SandboxOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart")
}

/// A simulated cluster and a directory for helm's files.
struct Cluster {
    _sandbox: Sandbox,
    /// Runs the API server as long as the cluster exists.
    _runtime: Runtime,
    home: TempDir,
}

impl Cluster {
    fn start(kubernetes_minor: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = SandboxOptions {
            kubernetes_minor,
            streaming_lists: kubernetes_minor == NEWEST_KUBERNETES,
            ..SandboxOptions::default()
        };
        let sandbox = runtime.block_on(Sandbox::start(options)).unwrap();
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("config"), sandbox.kubeconfig_yaml()).unwrap();
        Self {
            _sandbox: sandbox,
            _runtime: runtime,
            home,
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(harness::tool(&format!("bin/{program}")))
            .args(arguments)
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Runs helm with the chart, complete values, and the given ones.
    fn helm(&self, verb: &str, set: &[&str]) -> Result<String, String> {
        let (chart, values) = (chart(), chart().join("ci/complete-values.yaml"));
        let mut arguments = vec![verb, "whittle", chart.to_str().unwrap()];
        arguments.extend([
            "--namespace",
            "kube-system",
            "--values",
            values.to_str().unwrap(),
        ]);
        // The ServiceMonitor's CRD belongs to the Prometheus operator.
        arguments.extend(["--set", "serviceMonitor.enabled=false"]);
        arguments.extend(["--set", "prometheusRule.enabled=false"]);
        arguments.extend(set.iter().flat_map(|set| ["--set", set]));
        self.run("helm", &arguments)
    }

    fn get(&self, what: &[&str]) -> Value {
        let mut arguments = vec!["get", "--namespace", "kube-system", "-o", "json"];
        arguments.extend(what);
        serde_json::from_str(&self.run("kubectl", &arguments).unwrap()).unwrap()
    }

    fn crds(&self) -> usize {
        let crds = self.get(&["crds"]);
        crds["items"].as_array().unwrap().len()
    }
}

#[test]
fn chart_can_be_installed_upgraded_and_removed_and_keeps_the_crds() {
    for minor in [OLDEST_KUBERNETES, NEWEST_KUBERNETES] {
        let cluster = Cluster::start(minor);
        let served = cluster.run("kubectl", &["version", "-o", "json"]).unwrap();
        assert!(served.contains(&format!("v1.{minor}.0")), "{served}");
        cluster.helm("install", &[]).unwrap();
        let resources = cluster.run("kubectl", &["api-resources"]).unwrap();
        for kind in ["nodepools", "nodeclaims", "ec2nodeclasses"] {
            assert!(resources.contains(kind), "1.{minor}: {resources}");
        }
        let crds = cluster.crds();
        assert!(crds >= 5, "{crds}");

        let status = r#"{"data": {"disruption": "{}"}}"#;
        let namespace = ["--namespace", "kube-system"];
        let patch = [
            "patch",
            "configmap",
            "whittle-status",
            "--type=merge",
            "-p",
            status,
        ];
        cluster
            .run("kubectl", &[&patch[..], &namespace[..]].concat())
            .unwrap();
        cluster.helm("upgrade", &["relay.logLevel=debug"]).unwrap();
        let status = cluster.get(&["configmap", "whittle-status"]);
        assert_eq!(
            status["data"]["disruption"], "{}",
            "the published status stays"
        );
        let relay = cluster.get(&["deployment", "whittle-relay"]);
        let variables = relay["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
        assert!(
            variables.contains(r#"{"name":"WHITTLE_LOG_LEVEL","value":"debug"}"#),
            "{variables}"
        );

        let removed = ["uninstall", "whittle", "--namespace", "kube-system"];
        cluster.run("helm", &removed).unwrap();
        let left =
            cluster.get(&["deployments,serviceaccounts,clusterroles,networkpolicies,configmaps"]);
        let left = left["items"].as_array().unwrap().iter();
        let ours = left.filter(|object| {
            object["metadata"]["labels"]["app.kubernetes.io/part-of"] == "whittle"
        });
        assert_eq!(ours.count(), 0, "1.{minor}");
        assert_eq!(cluster.crds(), crds, "CRDs stay with their objects");
        cluster.helm("install", &[]).unwrap();
    }
}

#[test]
fn example_values_install_on_a_cluster_without_other_operators() {
    let cluster = Cluster::start(NEWEST_KUBERNETES);
    let (chart, values) = (chart(), chart().join("example-values.yaml"));
    let arguments = [
        "install",
        "whittle",
        chart.to_str().unwrap(),
        "--namespace",
        "kube-system",
        "--values",
        values.to_str().unwrap(),
    ];
    cluster.run("helm", &arguments).unwrap();
    let relay = cluster.get(&["deployment", "whittle-relay"]);
    let variables = relay["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(!variables.contains("PROXY"), "{variables}");
}

#[test]
fn unsupported_kubernetes_version_is_rejected_with_the_supported_ones() {
    let cluster = Cluster::start(OLDEST_KUBERNETES - 1);
    let error = cluster.helm("install", &[]).unwrap_err();
    assert!(
        error.contains(">=1.29.0-0") && error.contains("v1.28.0"),
        "{error}"
    );
    assert_eq!(cluster.crds(), 0, "nothing is half done");
}
