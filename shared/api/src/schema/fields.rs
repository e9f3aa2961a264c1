//! Detection of unknown fields in objects.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Crd, crds};

static CRDS: LazyLock<Vec<Crd>> = LazyLock::new(crds);

/// The schema of a kind whose CRD is generated here.
pub fn schema_of(kind: &str) -> Option<&'static Value> {
    let is_kind = |crd: &&Crd| {
        crd.manifest
            .pointer("/spec/names/kind")
            .is_some_and(|name| name == kind)
    };
    CRDS.iter()
        .find(is_kind)?
        .manifest
        .pointer("/spec/versions/0/schema/openAPIV3Schema")
}

/// Paths of fields that the schema does not declare: most likely misspelt. The API server drops them.
pub fn unknown_fields(schema: &Value, object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(schema, object, String::new(), &mut unknown);
    unknown
}

fn walk(schema: &Value, value: &Value, path: String, unknown: &mut Vec<String>) {
    let joined = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    if let (Some(fields), Some(properties)) = (value.as_object(), schema.get("properties")) {
        for (name, field) in fields {
            match properties.get(name) {
                Some(schema) => walk(schema, field, joined(name), unknown),
                None => unknown.push(joined(name)),
            }
        }
    } else if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            walk(schema, item, format!("{path}[{index}]"), unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn undeclared_fields_are_reported_with_path() {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "a", "managedFields": [] },
            "spec": {
                "wheight": 3,
                "limits": { "example.com/any": 1 },
                "template": {
                    "metadata": { "label": {} },
                    "spec": { "requirements": [{ "key": "a" }, { "minValue": 2 }] },
                },
            },
        });
        assert_eq!(
            unknown_fields(schema_of("NodePool").unwrap(), &object),
            [
                "spec.template.metadata.label",
                "spec.template.spec.requirements[1].minValue",
                "spec.wheight"
            ]
        );
    }

    #[test]
    fn free_form_fields_have_no_unknown_fields() {
        let object =
            json!({ "spec": { "kubelet": { "whatever": { "it": "is" } }, "tags": { "a": "b" } } });
        assert_eq!(
            unknown_fields(schema_of("EC2NodeClass").unwrap(), &object),
            [""; 0]
        );
        assert_eq!(schema_of("Pod"), None);
    }
}
