//! The chart, rendered by helm, by pages: `chart/<name>.values.yaml` goes in, `chart/<name>.out` is every object but the CRDs.
//! `UPDATE_EXPECT=1` writes the latter.

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

const PAGES: [&str; 3] = ["complete", "fargate", "least"];

#[test]
fn every_page_comes_out_as_it_says() {
    for name in PAGES {
        let text = rendered(name);
        let shown: Vec<&str> = text
            .split("---\n")
            .filter(|document| !document.contains("\nkind: CustomResourceDefinition\n"))
            .collect();
        expect_file![page(&format!("{name}.out"))].assert_eq(&shown.join("---\n"));
    }
}

/// An object as its Go type would have it: what the type does not know is gone.
fn known<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(read).unwrap()
}

#[test]
fn the_api_server_knows_every_field() {
    for object in PAGES.iter().flat_map(|name| documents(&rendered(name))) {
        let read = match kind(&object) {
            "ClusterRole" => known::<ClusterRole>(&object),
            "ClusterRoleBinding" => known::<ClusterRoleBinding>(&object),
            "ConfigMap" => known::<ConfigMap>(&object),
            "Deployment" => known::<Deployment>(&object),
            "FlowSchema" => known::<FlowSchema>(&object),
            "NetworkPolicy" => known::<NetworkPolicy>(&object),
            "PodDisruptionBudget" => known::<PodDisruptionBudget>(&object),
            "PriorityLevelConfiguration" => known::<PriorityLevelConfiguration>(&object),
            "Role" => known::<Role>(&object),
            "RoleBinding" => known::<RoleBinding>(&object),
            "Service" => known::<Service>(&object),
            "ServiceAccount" => known::<ServiceAccount>(&object),
            // Not Kubernetes' own: the operator's, of which Prometheus reads the rules in the relay's tests, and the CRDs, which have
            // their own tests.
            "ServiceMonitor" | "PrometheusRule" | "CustomResourceDefinition" => continue,
            other => panic!("{other} is new: say here how it is checked"),
        };
        assert_eq!(read, object);
    }
}

#[test]
fn crds_are_upgraded_with_the_chart_and_outlive_it() {
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
fn helm_finds_nothing_to_complain_about() {
    for name in PAGES {
        let output = helm(&["lint", "--strict"], &page(&format!("{name}.values.yaml")));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn wrong_values_are_refused_by_name() {
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
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && told.contains(named),
            "{wrong}: {told}"
        );
    }
}
