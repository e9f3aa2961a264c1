//! Renders the Helm chart.

use std::{path::Path, process::Command};

use serde_json::Value;

/// Namespace of the rendered release, and of the relay's ServiceAccount.
pub const RELEASE_NAMESPACE: &str = "whittle";
/// User name that API servers give to the relay's ServiceAccount.
pub const RELAY_USER: &str = "system:serviceaccount:whittle:whittle-relay";
/// API version of RBAC objects.
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Objects of the chart, rendered with the values that it requires and those given.
///
/// # Panics
///
/// If helm fails.
#[must_use]
pub fn rendered_chart(sets: &[&str]) -> Vec<Value> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/chart");
    let output = Command::new(crate::tool("bin/helm"))
        .args(["template", "whittle"])
        .arg(&chart)
        .args(["--namespace", RELEASE_NAMESPACE, "--values"])
        .arg(chart.join("ci/complete-values.yaml"))
        .args(sets.iter().flat_map(|set| ["--set", set]))
        .output()
        .unwrap_or_else(|error| panic!("helm does not start: {error}"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let objects = text.split("\n---\n").map(|document| {
        let object: Result<Value, _> = serde_saphyr::from_str(document);
        object.unwrap_or_else(|error| panic!("{error}: {document}"))
    });
    objects.filter(|object| !object.is_null()).collect()
}

/// RBAC roles and bindings of functions and relay.
///
/// # Panics
///
/// If helm fails.
#[must_use]
pub fn chart_rbac() -> Vec<Value> {
    let mut objects = rendered_chart(&[]);
    objects.retain(|object| {
        object
            .get("apiVersion")
            .is_some_and(|version| version == RBAC)
    });
    objects
}
