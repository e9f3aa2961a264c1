//! Settings of an entry that are invalid, or that have no effect (docs/settings.md).

use aws_rules::ProviderSettings;
use serde_json::Value;

use crate::{
    finding::Finding,
    settings::known::{KNOWN, WITHOUT_EFFECT},
};

/// Invalid settings. The entry is registered all the same.
pub(super) fn unusable(entry: &Value) -> Finding {
    let settings = entry.get("settings").unwrap_or(&Value::Null);
    let read = ProviderSettings::read(settings);
    Finding::new(
        "settings of the entry keep its EC2NodeClasses from being used",
        read.err().map(|error| error.0).unwrap_or_default(),
        "correct them in the parameter: docs/settings.md lists the valid values",
    )
}

pub(super) fn without_effect(entry: &Value) -> Finding {
    let below = |pointer: &str| {
        let object = entry.pointer(pointer).and_then(Value::as_object);
        object.into_iter().flatten().map(|(key, _)| key.as_str())
    };
    let settings = below("/settings").filter(|key| !KNOWN.contains(key));
    let settings = settings.map(|key| {
        let known = WITHOUT_EFFECT.iter().find(|(name, _)| *name == key);
        match known {
            Some((_, instead)) => format!("settings.{key}: {instead}"),
            None => format!("settings.{key}: unknown name"),
        }
    });
    let gates = below("/settings/featureGates").filter(|gate| api::feature_gate(gate).is_none());
    let gates = gates.map(|gate| format!("settings.featureGates.{gate}: unknown name"));
    let aws_gates =
        below("/settings/awsFeatureGates").filter(|gate| api::aws_feature_gate(gate).is_none());
    let aws_gates = aws_gates.map(|gate| format!("settings.awsFeatureGates.{gate}: unknown name"));
    Finding::new(
        "settings of the entry have no effect",
        settings.chain(gates).chain(aws_gates).collect(),
        "correct their names, or remove them: docs/settings.md lists all settings",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::refusal;

    const PAGE: &str = include_str!("../../../../docs/settings.md");

    #[test]
    fn page_has_every_setting_and_feature_gate() {
        let elsewhere = WITHOUT_EFFECT.iter().map(|(name, _)| *name);
        let gates = api::FEATURE_GATES.map(|(_, name)| name);
        let aws_gates = api::AWS_FEATURE_GATES.map(|(_, name)| name);
        let elsewhere = elsewhere.chain(aws_gates);
        for name in KNOWN.iter().copied().chain(elsewhere).chain(gates) {
            assert!(PAGE.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn examples_on_the_page_are_accepted() {
        let mut shown = 0;
        for block in PAGE.split("```json\n").skip(1) {
            let (sample, _) = block.split_once("```").unwrap();
            let entry: Value = serde_json::from_str(sample).unwrap();
            assert_eq!(refusal(&entry), None, "{sample}");
            assert_eq!(without_effect(&entry).objects, [""; 0], "{sample}");
            shown += 1;
        }
        assert!(shown > 0);
    }

    #[test]
    fn invalid_launch_settings_are_reported() {
        let entry = json!({"settings": {"reservedENIs": "some", "disableDryRun": "no"}});
        assert_eq!(
            unusable(&entry).objects,
            [
                "reservedENIs \"some\": expected a number from 0",
                "disableDryRun \"no\": expected true or false",
            ]
        );
        assert_eq!(unusable(&json!({})).objects, [""; 0]);
    }

    #[test]
    fn settings_without_effect_are_reported() {
        let entry = json!({"settings": {
            "batchIdleDuration": "1s", "preferencePolcy": "Ignore", "featureGates": {"nodeRepair": true, "nodeRepairs": true, "podDeletionCostManagement": true, "terminateFirstDrift": true},
            "awsFeatureGates": {"nodeClassCEL": true, "draEFA": true, "draAMD": true, "RebootForRepair": true}, "ignoreDRARequests": false,
        }});
        assert_eq!(
            without_effect(&entry).objects,
            [
                "settings.batchIdleDuration: a value of the relay's chart",
                "settings.preferencePolcy: unknown name",
                "settings.featureGates.nodeRepairs: unknown name",
                "settings.awsFeatureGates.draAMD: unknown name",
            ]
        );
    }
}
