use api::conditions::types::VALIDATION_SUCCEEDED;
use aws_rules::{
    ProviderSettings,
    instance_types::{ResolveError, ResolveInput, instance_types},
    node_class::{StatusInput, Verdict, draft},
};
use model::{InstanceType, resources::PODS};
use serde_json::{Value, json};

use crate::{
    node_class::{condition, found},
    world::{catalog, claim, cluster, launch_with, named, node_class},
};

const MIB: i64 = 1 << 20;

fn gate_on() -> ProviderSettings {
    ProviderSettings {
        node_class_cel: true,
        ..ProviderSettings::default()
    }
}

fn types(kubelet: Value, settings: &ProviderSettings) -> Result<Vec<InstanceType>, ResolveError> {
    let through = ResolveInput {
        node_class: &node_class(json!({ "spec": { "kubelet": kubelet } })),
        settings,
        measured_memory: &[],
        placement_group: None,
    };
    instance_types(&catalog(), through)
}

#[test]
fn max_pods_expression_is_evaluated_per_instance_type() {
    for (expression, pods) in [
        ("max_pods * 2", 58),
        ("vcpus * 8 + 2", 18),
        ("memory_mib / 512", 16),
        ("default_enis * (ips_per_eni - 1) + 2", 29),
        ("double(vcpus) * 1.75", 3),
        ("max(vcpus, 4.5)", 4),
        ("min(max_pods, 20)", 20),
        ("instance_type.startsWith('m5.') ? 7 : 8", 7),
    ] {
        let types = types(json!({ "maxPods": expression }), &gate_on()).unwrap();
        assert_eq!(
            named(&types, "m5.large").capacity.get(PODS),
            pods,
            "{expression}"
        );
    }
}

#[test]
fn reserved_amounts_are_rounded_and_have_units() {
    let kubelet = json!({
        "maxPods": "vcpus * 10",
        "kubeReserved": { "cpu": "vcpus * 33 + 1", "memory": "max_pods * 11", "ephemeral-storage": "vcpus + 1" },
        "systemReserved": { "memory": "0", "pid": "vcpus * 100" },
    });
    let types = types(kubelet, &gate_on()).unwrap();
    let overhead = &named(&types, "m5.large").overhead;
    assert_eq!(overhead.kube_reserved.get("cpu"), 70);
    assert_eq!(overhead.kube_reserved.get("memory"), 224 * MIB);
    assert_eq!(overhead.kube_reserved.get("ephemeral-storage"), 3072 * MIB);
    assert_eq!(overhead.system_reserved.get("memory"), 0);
    assert_eq!(overhead.system_reserved.get("pid"), 200);
}

#[test]
fn no_type_is_usable_while_max_pods_is_unknown() {
    for expression in [
        "0 - 1",
        "max_pods / 0",
        "max_pods +",
        "2147483648",
        "1.0 / 0.0",
    ] {
        let error = types(json!({ "maxPods": expression }), &gate_on()).unwrap_err();
        assert!(error.to_string().contains(expression), "{error}");
    }
}

#[test]
fn failed_reserved_expression_counts_as_not_set() {
    let plain = types(json!({}), &gate_on()).unwrap();
    for expression in ["memory_mib * 0.02", "0 - 5", "nope + 1"] {
        let kubelet = json!({ "kubeReserved": { "memory": expression } });
        let types = types(kubelet, &gate_on()).unwrap();
        let [got, expected] = [&types, &plain].map(|types| &named(types, "m5.large").overhead);
        assert_eq!(got, expected, "{expression}");
    }
}

#[test]
fn expressions_count_as_not_set_with_the_gate_off() {
    let kubelet = json!({ "maxPods": "max_pods * 2", "kubeReserved": { "cpu": "150m", "memory": "max_pods" } });
    let types = types(kubelet, &ProviderSettings::default()).unwrap();
    let m5 = named(&types, "m5.large");
    assert_eq!(m5.capacity.get(PODS), 29);
    assert_eq!(m5.overhead.kube_reserved.get("cpu"), 150);
    assert_eq!(m5.overhead.kube_reserved.get("memory"), 574 * MIB);
}

#[test]
fn user_data_contains_the_values_of_expressions() {
    let class = node_class(json!({ "spec": { "kubelet": {
        "maxPods": "vcpus * 10", "kubeReserved": { "cpu": "80m", "memory": "max_pods * 11" },
    } } }));
    let wanted = claim().types(&["m5.large", "m5.xlarge"]);
    let request = launch_with(&class, &wanted, &gate_on()).unwrap();
    let reported: Vec<&str> = request
        .templates
        .iter()
        .map(|config| config.template.user_data.as_str())
        .collect();
    assert_eq!(
        reported.len(),
        2,
        "types that reserve differently do not share a template"
    );
    for expected in [
        "memory: 224Mi",
        "maxPods: 20",
        "memory: 448Mi",
        "maxPods: 40",
    ] {
        let has = |reported: &&str| reported.contains(expected) && reported.contains("cpu: 80m");
        assert!(
            reported.iter().any(has),
            "{expected} is in none of {reported:#?}"
        );
    }
}

#[test]
fn status_names_the_invalid_expression_and_the_reason() {
    for (kubelet, reason, field) in [
        (
            json!({ "maxPods": "max_pods +" }),
            "KubeletExpressionInvalid",
            "maxPods",
        ),
        (
            json!({ "maxPods": "nope + 1" }),
            "KubeletExpressionInvalid",
            "maxPods",
        ),
        (
            json!({ "maxPods": "instance_type" }),
            "KubeletExpressionInvalid",
            "maxPods",
        ),
        (
            json!({ "maxPods": "1".repeat(2000) }),
            "KubeletExpressionInvalid",
            "maxPods",
        ),
        (
            json!({ "kubeReserved": { "memory": "vcpus * 1.5" } }),
            "KubeletExpressionInvalid",
            "kubeReserved[memory]",
        ),
        (
            json!({ "maxPods": "max_pods / 0" }),
            "KubeletExpressionEvaluationFailed",
            "maxPods",
        ),
        (
            json!({ "systemReserved": { "cpu": "0 - vcpus" } }),
            "KubeletExpressionEvaluationFailed",
            "systemReserved[cpu]",
        ),
    ] {
        let (got, message) = judged(&kubelet, &gate_on());
        assert_eq!(got, reason, "{kubelet}: {message}");
        assert!(
            message.contains(&format!("spec.kubelet.{field}:")),
            "{message}"
        );
    }
    let good = json!({ "maxPods": "max(vcpus * 8, 20)" });
    assert_eq!(judged(&good, &gate_on()).0, VALIDATION_SUCCEEDED);
    let off = ProviderSettings::default();
    assert_eq!(judged(&good, &off).0, "KubeletExpressionsDisabled");
}

fn judged(kubelet: &Value, settings: &ProviderSettings) -> (String, String) {
    let class = node_class(json!({ "spec": { "kubelet": kubelet }, "status": null }));
    let known = StatusInput {
        cluster: &cluster(),
        settings,
        instance_types: &catalog().instance_types,
    };
    let now = "2026-08-22T12:00:00Z".parse().unwrap();
    let status = draft(&class, found(), known, now).judged(Verdict::Passed);
    let (_, reason, message) = condition(&status, VALIDATION_SUCCEEDED);
    (reason.to_owned(), message.to_owned())
}
