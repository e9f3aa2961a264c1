//! The Helm chart, rendered for each `chart/<name>.values.yaml` and compared with the golden file `chart/<name>.out`, which has every
//! object except the CRDs. `UPDATE_EXPECT=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use expect_test::expect_file;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service, ServiceAccount},
    flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart")
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/chart")
        .join(name)
}

fn helm(arguments: &[&str], values: &Path) -> Output {
    Command::new(harness::tool("bin/helm"))
        .args(arguments)
        .arg(chart())
        .args(["--namespace", "kube-system", "--values"])
        .arg(chart().join("ci/complete-values.yaml"))
        .arg("--values")
        .arg(values)
        .output()
        .unwrap()
}

fn rendered(name: &str) -> String {
    let output = helm(
        &["template", "whittle"],
        &page(&format!("{name}.values.yaml")),
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    documents.filter(|document| !document.is_null()).collect()
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap()
}

const EXAMPLES: [&str; 3] = ["complete", "fargate", "least"];

#[test]
fn output_of_every_example_matches_its_golden_file() {
    for name in EXAMPLES {
        let text = rendered(name);
        let shown: Vec<&str> = text
            .split("---\n")
            .filter(|document| !document.contains("\nkind: CustomResourceDefinition\n"))
            .collect();
        expect_file![page(&format!("{name}.out"))].assert_eq(&shown.join("---\n"));
    }
}

/// The object after a round trip through its API type, which drops unknown fields.
fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(read).unwrap()
}

#[test]
fn every_field_is_known_to_the_api_server() {
    for object in EXAMPLES.iter().flat_map(|name| documents(&rendered(name))) {
        let read = match kind(&object) {
            "ClusterRole" => round_trip::<ClusterRole>(&object),
            "ClusterRoleBinding" => round_trip::<ClusterRoleBinding>(&object),
            "ConfigMap" => round_trip::<ConfigMap>(&object),
            "Deployment" => round_trip::<Deployment>(&object),
            "FlowSchema" => round_trip::<FlowSchema>(&object),
            "NetworkPolicy" => round_trip::<NetworkPolicy>(&object),
            "PodDisruptionBudget" => round_trip::<PodDisruptionBudget>(&object),
            "PriorityLevelConfiguration" => round_trip::<PriorityLevelConfiguration>(&object),
            "Role" => round_trip::<Role>(&object),
            "RoleBinding" => round_trip::<RoleBinding>(&object),
            "Service" => round_trip::<Service>(&object),
            "ServiceAccount" => round_trip::<ServiceAccount>(&object),
            // No types of Kubernetes itself: resources of the Prometheus operator, whose rules Prometheus evaluates in the relay's tests,
            // and CRDs, which have their own tests.
            "ServiceMonitor" | "PrometheusRule" | "CustomResourceDefinition" => continue,
            other => panic!("{other} has no check: add its API type here"),
        };
        assert_eq!(read, object);
    }
}

#[test]
fn crds_are_upgraded_with_the_chart_and_kept_on_uninstall() {
    let crds: Vec<Value> = documents(&rendered("complete"))
        .into_iter()
        .filter(|object| kind(object) == "CustomResourceDefinition")
        .collect();
    let shipped = api::schema::crds();
    assert_eq!(crds.len(), shipped.len());
    for crd in shipped {
        assert!(crds.contains(&crd.manifest), "{}", crd.file_name);
        let policy = crd
            .manifest
            .pointer("/metadata/annotations/helm.sh~1resource-policy");
        assert_eq!(policy, Some(&"keep".into()), "{}", crd.file_name);
    }
    let without = documents(&rendered("least"));
    assert!(
        without
            .iter()
            .all(|object| kind(object) != "CustomResourceDefinition")
    );
}

#[test]
fn helm_lint_reports_no_problems() {
    for name in EXAMPLES {
        let output = helm(&["lint", "--strict"], &page(&format!("{name}.values.yaml")));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn invalid_values_are_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    for (wrong, named) in [
        (
            "relay: {serviceAccount: {roleArn: whittle-relay}}",
            "roleArn",
        ),
        (
            "relay: {networkPolicy: {apiServerPort: https}}",
            "apiServerPort",
        ),
        (
            "relay: {podDisruptionBudget: {minAvailable: 1}}",
            "minAvailable",
        ),
        (
            "priorityAndFairness: {nominalConcurrencyShares: 0}",
            "nominalConcurrencyShares",
        ),
        ("crds: {install: false}", "install"),
        ("relais: {}", "relais"),
    ] {
        fs::write(&values, wrong).unwrap();
        let output = helm(&["template", "whittle"], &values);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.contains(named),
            "{wrong}: {stderr}"
        );
    }
}
