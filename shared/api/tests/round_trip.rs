//! Users' manifests survive deserialization and serialization with all fields.

#![expect(clippy::expect_used, reason = "a test stops where it cannot continue")]

use api::manifests::Manifests;
use serde_json::Value;

/// Objects in the file, paired with the same objects after deserialization and serialization.
fn round_trip(file: &str, text: &str) -> Vec<(Value, Value)> {
    let mut manifests = Manifests::default();
    manifests.read(file, text);
    assert_eq!((manifests.errors, manifests.ignored), (vec![], vec![]));
    let raw: Vec<Value> = serde_saphyr::from_multiple(text).expect("the file is YAML");
    assert_eq!(raw.len(), manifests.objects.len());
    let written = manifests.objects.iter().map(|manifest| {
        assert_eq!(manifest.unknown_fields, [""; 0], "{}", manifest.place);
        manifest
            .object
            .to_manifest()
            .expect("objects can be written")
    });
    raw.into_iter().zip(written).collect()
}

/// Asserts that `written` contains everything in `raw`. Numbers may have become quantities.
fn assert_kept(raw: &Value, written: &Value, path: &str) {
    match (raw, written) {
        (Value::Object(raw), Value::Object(written)) => {
            for (name, value) in raw {
                // Planning ignores images.
                if name != "image" {
                    let written = written
                        .get(name)
                        .unwrap_or_else(|| panic!("{path}.{name} is lost"));
                    assert_kept(value, written, &format!("{path}.{name}"));
                }
            }
        }
        (Value::Array(raw), Value::Array(written)) => {
            assert_eq!(raw.len(), written.len(), "{path}");
            for (index, (raw, written)) in raw.iter().zip(written).enumerate() {
                assert_kept(raw, written, &format!("{path}[{index}]"));
            }
        }
        (Value::Number(number), Value::String(text)) => {
            assert_eq!(&number.to_string(), text, "{path}")
        }
        _ => assert_eq!(raw, written, "{path}"),
    }
}

macro_rules! files {
    ($($name:ident: $file:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            for (raw, written) in round_trip($file, include_str!(concat!("manifests/", $file))) {
                assert_kept(&raw, &written, raw["kind"].as_str().unwrap());
            }
        })+
    };
}

files! {
    the_inflate_walkthrough_keeps_every_field: "inflate.yaml",
    two_pools_keep_every_field: "two-pools.yaml",
    every_field_of_every_kind_is_kept: "everything.yaml",
}

#[test]
fn omitted_fields_get_crd_defaults() {
    let (_, pool) = round_trip(
        "pool.yaml",
        "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}, spec: {template: {spec: {requirements: [], \
         nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}}}",
    )
    .remove(0);
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(
        pool["spec"]["disruption"],
        serde_json::json!({
            "consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{ "nodes": "10%" }],
        })
    );

    // Values that older CRDs may have stored.
    let (_, pool) = round_trip(
        "pool.yaml",
        "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}, spec: {disruption: {budgets: []}, template: {spec: \
         {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}}}",
    )
    .remove(0);
    assert_eq!(pool["spec"]["disruption"]["consolidateAfter"], "0s");

    let (_, class) = round_trip(
        "class.yaml",
        "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: a}, spec: {subnetSelectorTerms: [], \
         securityGroupSelectorTerms: [], amiSelectorTerms: [], metadataOptions: {httpTokens: optional}}}",
    )
    .remove(0);
    assert_eq!(
        class["spec"]["metadataOptions"],
        serde_json::json!({
            "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "optional",
        })
    );
}
