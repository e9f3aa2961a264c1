//! The chart's CRDs in `infra/chart/charts/crds/templates` are those generated from the types, and are equivalent to
//! Karpenter's.

use std::path::{Path, PathBuf};

use api::schema::crds;
use serde_json::{Map, Value};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn chart_contains_generated_crds() {
    let directory = workspace().join("infra/chart/charts/crds/templates");
    let mut expected: Vec<_> = crds().into_iter().map(|crd| crd.file_name).collect();
    expected.sort();
    let mut found: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(
        found, expected,
        "run `make crds` and remove what it does not write"
    );
    for crd in crds() {
        let stored = std::fs::read_to_string(directory.join(&crd.file_name)).unwrap();
        assert!(
            stored == crd.to_yaml().unwrap(),
            "{} differs from the types: run `make crds`",
            crd.file_name
        );
        let read: Value = serde_saphyr::from_str(&stored).unwrap();
        assert_eq!(
            read, crd.manifest,
            "{} does not read back as what was written",
            crd.file_name
        );
    }
}

/// Changes to the CRDs in Karpenter 1.15; the reference is of 1.14.
const CHANGES_SINCE_REFERENCE: [(&str, &str); 4] = [
    (
        "karpenter.k8s.aws_ec2nodeclasses.yaml.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.enclaveOptions:",
        "a new object",
    ),
    (
        "karpenter.sh_nodepools.yaml.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.disruption.required:",
        "consolidateAfter may be left out",
    ),
    (
        "karpenter.sh_nodepools.yaml.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.disruption.properties.consolidateAfter.default:",
        "0s",
    ),
    (
        "karpenter.sh_nodepools.yaml.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.disruption.properties.budgets.items.properties.reasons.items.enum",
        "Unhealthy",
    ),
];

/// Compares with the CRDs of the reference release, if they are available next to the checkout. Otherwise the stored
/// copies are the reference.
#[test]
fn fields_and_validation_equal_reference() {
    let directory = workspace().join("../shared/conformance/crds/aws");
    if !directory.is_dir() {
        eprintln!("not compared: there is no {}", directory.display());
        return;
    }
    for crd in crds() {
        let text = std::fs::read_to_string(directory.join(&crd.file_name)).unwrap();
        let reference: Value = serde_saphyr::from_str(&text).unwrap();
        // Annotations about the CRD's generator and Helm are not part of the schema.
        let [reference, manifest] = [reference, crd.manifest].map(|mut crd| {
            let metadata = crd["metadata"].as_object_mut();
            metadata.unwrap().remove("annotations");
            crd
        });
        let mut differences = Vec::new();
        compare(
            &structure(reference),
            &structure(manifest),
            &crd.file_name,
            &mut differences,
        );
        differences.retain(|found| {
            !CHANGES_SINCE_REFERENCE
                .iter()
                .any(|(path, _)| found.starts_with(path))
        });
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// The schema without descriptions, and with sorted sets.
fn structure(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(name, value)| name != "description" || !value.is_string())
                .map(|(name, value)| match (name.as_str(), value) {
                    // Keys of this map are field names, one of which may be `description`.
                    ("properties", Value::Object(fields)) => {
                        let fields: Map<_, _> = fields
                            .into_iter()
                            .map(|(name, field)| (name, structure(field)))
                            .collect();
                        (name, Value::Object(fields))
                    }
                    ("enum" | "required", Value::Array(mut items)) => {
                        items.sort_by_key(ToString::to_string);
                        (name, Value::Array(items))
                    }
                    (_, value) => (name, structure(value)),
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(structure).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn compare(reference: &Value, ours: &Value, path: &str, differences: &mut Vec<String>) {
    match (reference, ours) {
        (Value::Object(reference), Value::Object(ours)) => {
            let absent = Value::Null;
            let names: std::collections::BTreeSet<_> =
                reference.keys().chain(ours.keys()).collect();
            for name in names {
                let (reference, ours) = (
                    reference.get(name).unwrap_or(&absent),
                    ours.get(name).unwrap_or(&absent),
                );
                compare(reference, ours, &format!("{path}.{name}"), differences);
            }
        }
        (Value::Array(reference), Value::Array(ours)) if reference.len() == ours.len() => {
            for (index, (reference, ours)) in reference.iter().zip(ours).enumerate() {
                compare(reference, ours, &format!("{path}[{index}]"), differences);
            }
        }
        _ if reference == ours => {}
        _ => differences.push(format!(
            "{path}: the reference has {reference}, the types {ours}"
        )),
    }
}
