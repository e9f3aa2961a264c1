//! Validation that several fields share, and changes to a shared type's schema for a single field.

use schemars::Schema;
use serde_json::{Value, json};

use crate::names::label;

/// `name` or `dns.prefix/name`.
pub(crate) const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

pub(crate) const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// The value of `x-kubernetes-validations` for pairs of message and rule.
pub(crate) fn cel(rules: &[(&str, &str)]) -> Value {
    rules
        .iter()
        .map(|(message, rule)| json!({ "message": message, "rule": rule }))
        .collect()
}

/// Removes the format of numbers that Karpenter declares without a width.
pub(crate) fn without_format(schema: &mut Schema) {
    schema.remove("format");
}

/// Tags of a selector term.
pub(crate) fn selector_tags(schema: &mut Schema) {
    schema.insert("maxProperties".to_owned(), 20.into());
    set_rules(
        schema,
        &[(
            "empty tag keys or values aren't supported",
            "self.all(k, k != '' && self[k] != '')",
        )],
    );
}

/// Conditions as a list map with the key `type`.
pub(crate) fn keyed_by_type(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".to_owned(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
}

/// NodeClaims accept conditions without reason and message, which old clusters may still hold.
pub(crate) fn reason_may_be_empty(schema: &mut Schema) {
    let Some(condition) = schema.get_mut("items").and_then(Value::as_object_mut) else {
        return;
    };
    condition.insert(
        "required".to_owned(),
        json!(["lastTransitionTime", "status", "type"]),
    );
    if let Some(reason) = condition
        .get_mut("properties")
        .and_then(|properties| properties.get_mut("reason"))
    {
        *reason = json!({
            "description": reason.get("description"),
            "type": "string",
            "maxLength": 1024,
            "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$",
        });
    }
}

const IN_HAS_VALUES: (&str, &str) = (
    "requirements with operator 'In' must have a value defined",
    "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
);

const BOUND: &str = "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)";

const REQUIREMENTS: &[(&str, &str)] = &[
    IN_HAS_VALUES,
    (
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        BOUND,
    ),
    (
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
        "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
    ),
];

const OVERLAY_REQUIREMENTS: &[(&str, &str)] = &[
    (
        "requirements with operator 'NotIn' must have a value defined",
        "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
    ),
    IN_HAS_VALUES,
    (
        "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
        BOUND,
    ),
];

/// Labels of a NodePool's template.
pub(crate) fn node_pool_labels(schema: &mut Schema) {
    schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    schema.insert("maxProperties".to_owned(), 100.into());
    schema.insert(
        "additionalProperties".to_owned(),
        json!({ "type": "string", "maxLength": 63, "pattern": LABEL_VALUE }),
    );
    // Karpenter's list names one key twice, only in this rule.
    let mut known = label::WELL_KNOWN_IN_AWS_DOMAIN.to_vec();
    if let Some(index) = known
        .iter()
        .position(|key| *key == label::CAPACITY_RESERVATION_INTERRUPTIBLE)
    {
        known.insert(index, label::CAPACITY_RESERVATION_INTERRUPTIBLE);
    }
    let all = |rule: String| format!("self.all(x, {rule})");
    set_rules(
        schema,
        &[
            (
                KARPENTER_DOMAIN,
                &all(in_domain("x", "karpenter.sh", KARPENTER_KEYS)),
            ),
            (
                NODE_POOL_KEY,
                r#"self.all(x, x != "karpenter.sh/nodepool")"#,
            ),
            (
                HOSTNAME_KEY,
                r#"self.all(x, x != "kubernetes.io/hostname")"#,
            ),
            (
                AWS_DOMAIN,
                &all(in_domain("x", "karpenter.k8s.aws", &known)),
            ),
        ],
    );
}

/// Requirements of a NodePool's template, which may not name the NodePool itself.
pub(crate) fn node_pool_requirements(schema: &mut Schema) {
    requirements(
        schema,
        REQUIREMENTS,
        NodePoolKey::Forbidden,
        label::WELL_KNOWN_IN_AWS_DOMAIN,
    );
}

/// Requirements of a NodeClaim.
pub(crate) fn node_claim_requirements(schema: &mut Schema) {
    requirements(
        schema,
        REQUIREMENTS,
        NodePoolKey::Allowed,
        label::WELL_KNOWN_IN_AWS_DOMAIN,
    );
}

/// Requirements of a NodeOverlay: without `minValues`, and without the keys that only a launch determines.
pub(crate) fn node_overlay_requirements(schema: &mut Schema) {
    let launch = [
        label::INSTANCE_TENANCY,
        label::CAPACITY_RESERVATION_TYPE,
        label::CAPACITY_RESERVATION_ID,
        label::CAPACITY_RESERVATION_INTERRUPTIBLE,
        label::PLACEMENT_GROUP_ID,
        label::PLACEMENT_GROUP_PARTITION,
    ];
    let known: Vec<_> = label::WELL_KNOWN_IN_AWS_DOMAIN
        .iter()
        .copied()
        .filter(|key| !launch.contains(key))
        .collect();
    requirements(schema, OVERLAY_REQUIREMENTS, NodePoolKey::Allowed, &known);
    if let Some(properties) = schema
        .pointer_mut("/items/properties")
        .and_then(Value::as_object_mut)
    {
        properties.remove("minValues");
    }
}

#[derive(PartialEq)]
enum NodePoolKey {
    Allowed,
    Forbidden,
}

const KARPENTER_DOMAIN: &str = r#"label domain "karpenter.sh" is restricted"#;
const AWS_DOMAIN: &str = r#"label domain "karpenter.k8s.aws" is restricted"#;
const NODE_POOL_KEY: &str = r#"label "karpenter.sh/nodepool" is restricted"#;
const HOSTNAME_KEY: &str = r#"label "kubernetes.io/hostname" is restricted"#;
const KARPENTER_KEYS: &[&str] = &[label::CAPACITY_TYPE, label::NODE_POOL];

fn requirements(
    schema: &mut Schema,
    rules: &[(&str, &str)],
    node_pool_key: NodePoolKey,
    aws_keys: &[&str],
) {
    schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
    set_rules(schema, rules);
    let karpenter_domain = in_domain("self", "karpenter.sh", KARPENTER_KEYS);
    let aws_domain = in_domain("self", "karpenter.k8s.aws", aws_keys);
    let mut key_rules = vec![
        (KARPENTER_DOMAIN, karpenter_domain.as_str()),
        (HOSTNAME_KEY, r#"self != "kubernetes.io/hostname""#),
        (AWS_DOMAIN, aws_domain.as_str()),
    ];
    if node_pool_key == NodePoolKey::Forbidden {
        key_rules.insert(1, (NODE_POOL_KEY, r#"self != "karpenter.sh/nodepool""#));
    }
    if let Some(key) = schema
        .pointer_mut("/items/properties/key")
        .and_then(Value::as_object_mut)
    {
        key.insert("x-kubernetes-validations".to_owned(), cel(&key_rules));
    }
}

/// The rule that `subject` is one of `keys` or outside `domain`.
fn in_domain(subject: &str, domain: &str, keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("\"{key}\"")).collect();
    format!(
        r#"{subject} in [{}] || !{subject}.find("^([^/]+)").endsWith("{domain}")"#,
        keys.join(", ")
    )
}

/// Rules of an EC2NodeClass as a whole.
pub(crate) fn ec2_node_class() -> Value {
    let families = [
        ("AL2", "al2"),
        ("AL2023", "al2023"),
        ("Bottlerocket", "bottlerocket"),
        ("Windows2019", "windows2019"),
        ("Windows2022", "windows2022"),
        ("Windows2025", "windows2025"),
    ];
    let mut rules = vec![json!({
        "message": "must specify exactly one of ['role', 'instanceProfile']",
        "rule": "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
    })];
    // The messages for AL2 and AL2023 differ only in the article.
    rules.extend(families.map(|(family, alias)| {
        let article = if family.starts_with('A') { "an" } else { "a" };
        json!({
            "message": format!("if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"),
            "rule": format!(
                "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{alias}') ? (self.amiFamily == 'Custom' || self.amiFamily == '{family}') : true)"
            ),
        })
    }));
    rules.push(json!({
        "message": "must specify amiFamily if amiSelectorTerms does not contain an alias",
        "rule": "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)",
    }));
    Value::Array(rules)
}

fn set_rules(schema: &mut Schema, rules: &[(&str, &str)]) {
    schema.insert("x-kubernetes-validations".to_owned(), cel(rules));
}
