//! Karpenter's feature gates, as a cluster's settings set them (docs/spec/aws.md#settings).

use std::collections::BTreeMap;

use serde_json::Value;

/// Karpenter's gates: the name in the option `FEATURE_GATES`, which decisions use, and the name in the chart under
/// `settings.featureGates`.
pub const FEATURE_GATES: [(&str, &str); 9] = [
    ("CapacityBuffer", "capacityBuffer"),
    ("NodeOverlay", "nodeOverlay"),
    ("NodeRepair", "nodeRepair"),
    ("PodDeletionCostManagement", "podDeletionCostManagement"),
    ("ReservedCapacity", "reservedCapacity"),
    ("SpotToSpotConsolidation", "spotToSpotConsolidation"),
    ("StaticCapacity", "staticCapacity"),
    ("TerminateFirstDrift", "terminateFirstDrift"),
    ("TerminateFirstRepair", "terminateFirstRepair"),
];

/// Gates of the AWS provider: the name in the option `AWS_FEATURE_GATES`, and the name in the chart under
/// `settings.awsFeatureGates`.
pub const AWS_FEATURE_GATES: [(&str, &str); 4] = [
    (DRA_EFA, "draEFA"),
    (DRA_NVIDIA_GPU, "draNVIDIAGPU"),
    (NODE_CLASS_CEL, "nodeClassCEL"),
    ("RebootForRepair", "rebootForRepair"),
];
pub(crate) const DRA_EFA: &str = "DRAEFA";
pub(crate) const DRA_NVIDIA_GPU: &str = "DRANVIDIAGPU";
/// Gate of CEL expressions in an EC2NodeClass's kubelet settings.
pub const NODE_CLASS_CEL: &str = "NodeClassCEL";

const SETTING: &str = "featureGates";
const AWS_SETTING: &str = "awsFeatureGates";

/// A gate whose value is neither on nor off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: expected {expected}")]
pub struct FeatureGateError {
    /// Path within the settings, such as `featureGates.nodeRepair`.
    pub field: String,
    pub value: Value,
    pub expected: &'static str,
}

/// The gate with this name in the option or the chart, as `FEATURE_GATES` names it.
pub fn feature_gate(name: &str) -> Option<&'static str> {
    gate(&FEATURE_GATES, name)
}

/// The AWS provider's gate with this name in the option or the chart, as `AWS_FEATURE_GATES` names it.
pub fn aws_feature_gate(name: &str) -> Option<&'static str> {
    gate(&AWS_FEATURE_GATES, name)
}

fn gate(known: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    let mut gates = known.iter();
    let found = gates.find(|(option, chart)| *option == name || *chart == name);
    found.map(|(option, _)| *option)
}

/// The gates that a cluster's settings set (in `featureGates` and `awsFeatureGates`), with their names in
/// `FEATURE_GATES` and `AWS_FEATURE_GATES`. `true` and `false` may be strings. Unknown names have no effect, as in
/// Karpenter.
///
/// # Errors
///
/// The first value that is neither true nor false, or a gate whose two names have different values.
pub fn feature_gates(settings: &Value) -> Result<BTreeMap<String, bool>, FeatureGateError> {
    let mut gates = below(settings, SETTING, &FEATURE_GATES)?;
    gates.extend(aws_feature_gates(settings)?);
    Ok(gates)
}

/// The AWS provider's part of [`feature_gates`].
pub(crate) fn aws_feature_gates(
    settings: &Value,
) -> Result<BTreeMap<String, bool>, FeatureGateError> {
    below(settings, AWS_SETTING, &AWS_FEATURE_GATES)
}

fn below(
    settings: &Value,
    setting: &str,
    known: &[(&'static str, &'static str)],
) -> Result<BTreeMap<String, bool>, FeatureGateError> {
    let refused = |field: String, value: &Value, expected| FeatureGateError {
        field,
        value: value.clone(),
        expected,
    };
    let gates = match settings.get(setting) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(gates)) => gates,
        Some(other) => {
            let expected = "a JSON object such as {\"nodeRepair\": true}";
            return Err(refused(setting.to_owned(), other, expected));
        }
    };
    let mut read = BTreeMap::new();
    for (name, value) in gates {
        let field = || format!("{setting}.{name}");
        let Some(gate) = gate(known, name) else {
            continue;
        };
        let on = match (value, value.as_str()) {
            (Value::Null, _) | (_, Some("")) => continue,
            (Value::Bool(on), _) => *on,
            (_, Some("true")) => true,
            (_, Some("false")) => false,
            _ => return Err(refused(field(), value, "true or false")),
        };
        if read
            .insert(gate.to_owned(), on)
            .is_some_and(|other| other != on)
        {
            let expected = "the same value under both of its names";
            return Err(refused(field(), value, expected));
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn formatted(gates: Value) -> String {
        match feature_gates(&json!({ "featureGates": gates })) {
            Ok(gates) => format!("{gates:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn gates_are_set_by_chart_and_option_names() {
        for (option, chart) in FEATURE_GATES {
            let on = format!("{{{option:?}: true}}");
            assert_eq!(formatted(json!({ chart: true })), on);
            assert_eq!(formatted(json!({ option: "true" })), on);
            assert_eq!(formatted(json!({ chart: true, option: true })), on);
        }
        assert_eq!(
            formatted(json!({"nodeRepair": "false"})),
            r#"{"NodeRepair": false}"#
        );
    }

    #[test]
    fn aws_gates_have_their_own_setting() {
        let gates = |settings| feature_gates(&settings).unwrap();
        for (option, chart) in AWS_FEATURE_GATES {
            let on = BTreeMap::from([(option.to_owned(), true)]);
            for switched in [json!({ chart: "true" }), json!({ option: true })] {
                assert_eq!(gates(json!({ "awsFeatureGates": switched })), on);
            }
        }
        assert_eq!(
            gates(json!({"featureGates": {"rebootForRepair": true}})),
            BTreeMap::new()
        );
        let refused = feature_gates(&json!({"awsFeatureGates": {"rebootForRepair": "on"}}));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "awsFeatureGates.rebootForRepair is \"on\": expected true or false"
        );
    }

    #[test]
    fn missing_or_unknown_gates_have_no_effect() {
        for gates in [
            json!(null),
            json!({}),
            json!({"nodeRepair": null, "nodeOverlay": "", "dynamicResources": 7}),
        ] {
            assert_eq!(formatted(gates), "{}");
        }
        assert_eq!(feature_gates(&Value::Null), Ok(BTreeMap::new()));
    }

    #[test]
    fn invalid_gate_values_are_reported() {
        assert_eq!(
            formatted(json!("NodeRepair=true")),
            r#"featureGates is "NodeRepair=true": expected a JSON object such as {"nodeRepair": true}"#
        );
        assert_eq!(
            formatted(json!({"nodeRepair": "on"})),
            r#"featureGates.nodeRepair is "on": expected true or false"#
        );
        assert_eq!(
            formatted(json!({"nodeRepair": false, "NodeRepair": true})),
            "featureGates.nodeRepair is false: expected the same value under both of its names"
        );
    }
}
