//! Karpenter's CRDs as an API server applies them: validation and defaults.

use serde_json::{Value, json};

use super::Schema;

/// Returns the object as stored, or the invalid fields.
fn applied(kind: &str, object: Value) -> Result<Value, Vec<String>> {
    let mut crds = api::schema::crds().into_iter();
    let crd = crds.find(|crd| crd.manifest["spec"]["names"]["kind"] == kind);
    let schema = &crd.unwrap().manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = Schema::compile(schema).unwrap();
    let mut stored = object;
    schema.prune(&mut stored);
    schema.apply_defaults(&mut stored);
    let errors = schema.validate(&stored, None);
    let fields = errors.into_iter().map(|error| error.field);
    let fields: Vec<String> = fields.collect();
    fields.is_empty().then_some(stored).ok_or(fields)
}

/// Returns `spec.disruption` of a NodePool as stored.
fn disruption(given: Option<Value>) -> Result<Value, Vec<String>> {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
    });
    if let Some(given) = given {
        pool["spec"]["disruption"] = given;
    }
    applied("NodePool", pool).map(|stored| stored["spec"]["disruption"].clone())
}

#[test]
fn consolidate_after_defaults_to_zero() {
    let at_once = disruption(Some(json!({"budgets": [{"nodes": "10%"}]}))).unwrap();
    assert_eq!(at_once["consolidateAfter"], "0s");
    let silent = disruption(None).unwrap();
    assert_eq!(silent["consolidateAfter"], "0s");
    assert_eq!(silent["budgets"], json!([{"nodes": "10%"}]));
    for after in ["Never", "1h30m", "0s"] {
        let stored = disruption(Some(json!({"consolidateAfter": after}))).unwrap();
        assert_eq!(stored["consolidateAfter"], after);
    }
    for after in ["90", "-5m", "never", ""] {
        let refused = disruption(Some(json!({"consolidateAfter": after})));
        assert_eq!(
            refused,
            Err(vec!["spec.disruption.consolidateAfter".into()]),
            "{after}"
        );
    }
}

#[test]
fn budget_reasons_are_a_set_of_known_reasons() {
    let reasons = |reasons: Value| {
        let budget = json!({"nodes": "1", "reasons": reasons});
        disruption(Some(json!({ "budgets": [budget] }))).map(drop)
    };
    let all = json!(["Underutilized", "Empty", "Drifted", "Unhealthy"]);
    assert_eq!(reasons(all), Ok(()));
    let refused = |at: usize| Err(vec![format!("spec.disruption.budgets[0].reasons[{at}]")]);
    assert_eq!(reasons(json!(["Sick"])), refused(0));
    assert_eq!(reasons(json!(["Drifted", "Drifted"])), refused(1));
}

#[test]
fn enclave_options_say_whether_enclaves_are_enabled() {
    let enclaves = |options: Value| {
        let terms = |term: Value| json!([term]);
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {
                "amiSelectorTerms": terms(json!({"alias": "al2023@latest"})),
                "subnetSelectorTerms": terms(json!({"id": "subnet-1"})),
                "securityGroupSelectorTerms": terms(json!({"id": "sg-1"})),
                "role": "node", "enclaveOptions": options,
            },
        });
        applied("EC2NodeClass", class).map(drop)
    };
    assert_eq!(enclaves(json!({"enabled": true})), Ok(()));
    assert_eq!(
        enclaves(json!({})),
        Err(vec!["spec.enclaveOptions.enabled".into()])
    );
}
