use serde_json::{Value, json};

use super::Schema;

mod karpenter;

fn widget() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                    "limit": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "ref": {
                        "type": "object",
                        "properties": {"kind": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": "self.kind == oldSelf.kind", "message": "kind is immutable"}],
                    },
                    "tags": {
                        "type": "object", "additionalProperties": {"type": "string"},
                        "x-kubernetes-validations": [
                            {"rule": "self.all(k, k != 'eks:eks-cluster-name')", "message": "restricted tag"},
                            {"rule": "self.all(k, k != '' && self[k] != '')", "message": "empty tag"},
                        ],
                    },
                    "requirements": {
                        "type": "array", "maxItems": 3,
                        "items": {
                            "type": "object", "required": ["key", "operator"],
                            "properties": {
                                "key": {"type": "string", "x-kubernetes-validations": [{
                                    "rule": "self in [\"example.com/a\"] || !self.find(\"^([^/]+)\").endsWith(\"example.com\")",
                                    "message": "label domain is restricted",
                                }]},
                                "operator": {"type": "string"},
                                "values": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                        "x-kubernetes-validations": [{
                            "rule": "self.all(x, x.operator == 'Gt' ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
                            "message": "Gt needs one integer",
                        }],
                    },
                    "conditions": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                        "items": {"type": "object", "properties": {"type": {"type": "string"}}},
                    },
                },
                "x-kubernetes-validations": [{
                    "rule": "!has(self.name) || size(self.name) > 1", "message": "name is too short",
                }],
            },
        },
    })
}

fn errors(object: Value, old: Option<Value>) -> Vec<String> {
    let schema = Schema::compile(&widget()).unwrap();
    let prepare = |mut object: Value| {
        schema.prune(&mut object);
        schema.apply_defaults(&mut object);
        object
    };
    let old = old.map(prepare);
    schema
        .validate(&prepare(object), old.as_ref())
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn spec_errors(spec: Value) -> Vec<String> {
    errors(json!({"spec": spec}), None)
}

#[test]
fn unknown_fields_are_pruned_and_reported_and_defaults_set() {
    let schema = Schema::compile(&widget()).unwrap();
    let mut object =
        json!({"metadata": {"anything": 1}, "spec": {"size": 2, "colour": "red", "ref": {"x": 1}}});
    assert_eq!(schema.prune(&mut object), ["spec.colour", "spec.ref.x"]);
    schema.apply_defaults(&mut object);
    assert_eq!(
        object,
        json!({"metadata": {"anything": 1}, "spec": {"size": 2, "color": "red", "ref": {}}})
    );
}

#[test]
fn values_are_checked_against_schema_limits() {
    assert_eq!(errors(json!({}), None), ["spec: Required value"]);
    assert_eq!(
        spec_errors(json!({"size": 0})),
        ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"]
    );
    assert_eq!(
        spec_errors(json!({"size": "1"})),
        [
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""
        ]
    );
    assert_eq!(
        spec_errors(json!({"size": 1, "color": "green"})),
        ["spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""]
    );
    assert_eq!(
        spec_errors(json!({"size": 1, "name": "AB"})),
        ["spec.name: Invalid value: \"AB\": spec.name in body should match '^[a-z]+$'"]
    );
    assert_eq!(
        spec_errors(json!({"size": 1, "name": "abcdef"})),
        ["spec.name: Too long: may not be more than 5 bytes"]
    );
    assert!(spec_errors(json!({"size": 1, "limit": "10%"})).is_empty());
    assert_eq!(spec_errors(json!({"size": 1, "limit": 1.5})).len(), 1);
}

#[test]
fn elements_of_map_lists_are_unique() {
    assert_eq!(
        spec_errors(json!({"size": 1, "conditions": [{"type": "a"}, {"type": "a"}]})).len(),
        1
    );
}

#[test]
fn rules_are_evaluated() {
    assert_eq!(
        spec_errors(json!({"size": 1, "name": "a"})),
        ["spec: Invalid value: name is too short"]
    );
    assert_eq!(
        spec_errors(json!({"size": 1, "tags": {"eks:eks-cluster-name": "x", "my-key": "y"}})),
        ["spec.tags: Invalid value: restricted tag"]
    );
    let requirement = |key: &str, operator: &str, values: Value| {
        spec_errors(
            json!({"size": 1, "requirements": [{"key": key, "operator": operator, "values": values}]}),
        )
    };
    assert!(requirement("example.com/a", "Gt", json!(["3"])).is_empty());
    assert_eq!(
        requirement("sub.example.com/b", "In", json!(["3"])),
        [
            "spec.requirements[0].key: Invalid value: \"sub.example.com/b\": label domain is restricted"
        ]
    );
    assert_eq!(
        requirement("a", "Gt", json!([])),
        ["spec.requirements: Invalid value: Gt needs one integer"]
    );
}

#[test]
fn rule_that_fails_to_evaluate_rejects_the_object() {
    let missing = spec_errors(json!({"size": 1, "requirements": [{"key": "a", "operator": "Gt"}]}));
    assert_eq!(missing.len(), 1);
    assert!(
        missing[0].contains("evaluating rule: Gt needs one integer"),
        "{missing:?}"
    );
}

#[test]
fn transition_rules_compare_with_the_old_object_and_skip_creation() {
    let object = |kind: &str| json!({"spec": {"size": 1, "ref": {"kind": kind}}});
    assert!(errors(object("a"), None).is_empty());
    assert!(errors(object("a"), Some(object("a"))).is_empty());
    assert_eq!(
        errors(object("b"), Some(object("a"))),
        ["spec.ref: Invalid value: kind is immutable"]
    );
}

#[test]
fn rules_with_unknown_functions_are_rejected_at_compilation() {
    let with_rule = |rule: &str| {
        json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-validations": [{"rule": rule}],
        }}})
    };
    let error = Schema::compile(&with_rule("self.a.isURL()")).unwrap_err();
    assert_eq!(error.path, "spec");
    assert!(error.problem.contains("isURL"), "{error}");
    let error = Schema::compile(&with_rule("self.a ==")).unwrap_err();
    assert!(error.problem.contains("self.a =="), "{error}");
    assert!(
        Schema::compile(&with_rule(
            "self.all(k, k.matches('a') && duration(self[k]) > duration('1h'))"
        ))
        .is_ok()
    );
}

#[test]
fn unsupported_schema_fields_are_rejected() {
    let error = Schema::compile(&json!({"type": "object", "$ref": "#/x"})).unwrap_err();
    assert!(error.problem.contains("$ref"), "{error}");
}
