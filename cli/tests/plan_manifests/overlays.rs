//! NodeOverlays that have no effect.

use crate::{SMALL, deployment, plan_with, web};

fn overlay(name: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {{name: {name}}}
spec: {{{spec}}}
"
    )
}

fn warnings(overlays: &[String]) -> String {
    let manifests = format!("{}{}", web(&deployment(1, SMALL)), overlays.concat());
    plan_with(&manifests, &["--feature-gates", "NodeOverlay=true"]).stderr
}

const ALL: &str = "requirements: [{key: karpenter.sh/nodepool, operator: In, values: [web]}]";

#[test]
fn conflicting_node_overlays_are_reported_with_the_value_that_both_set() {
    let price = |name, weight| overlay(name, &format!("{ALL}, weight: {weight}, price: '0.1'"));
    assert_eq!(warnings(&[price("a", 1), price("b", 2)]), "");
    assert_eq!(
        warnings(&[price("a", 1), price("b", 1)]),
        "whittle: NodeOverlay a applies nowhere: NodeOverlay b has the same weight and also sets the price of a1.2xlarge: give one \
         of them another spec.weight\n"
    );
}

#[test]
fn node_overlays_without_effect_are_reported_with_the_remedy() {
    let requiring =
        |requirements: &str| format!("requirements: [{requirements}], priceAdjustment: '-10%'");
    for (spec, warning) in [
        (
            requiring(
                "{key: node.kubernetes.io/instance-type, operator: In, values: [m55.xlarge]}",
            ),
            "node.kubernetes.io/instance-type=m55.xlarge: no instance type has this value (did you mean m5.xlarge?)",
        ),
        (
            requiring("{key: example.com/team, operator: Exists}"),
            "no instance type of any NodePool has example.com/team Exists: correct spec.requirements",
        ),
        (
            requiring(
                "{key: kubernetes.io/arch, operator: In, values: [arm64]}, \
                 {key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}",
            ),
            "no instance type of any NodePool meets all of its requirements: correct spec.requirements",
        ),
        (
            ALL.to_owned(),
            "it sets no price, priceAdjustment or capacity: set one of them",
        ),
    ] {
        let expected = format!("whittle: NodeOverlay odd applies nowhere: {warning}\n");
        assert_eq!(warnings(&[overlay("odd", &spec)]), expected, "{spec}");
    }
}

#[test]
fn invalid_price_of_a_node_overlay_is_reported() {
    for price in [
        "priceAdjustment: 10%",
        "price: cheap",
        "price: '1', priceAdjustment: +10%",
    ] {
        let warnings = warnings(&[overlay("odd", &format!("{ALL}, {price}"))]);
        assert!(warnings.contains("odd"), "{price}: {warnings}");
        assert!(warnings.contains("price"), "{price}: {warnings}");
    }
}
