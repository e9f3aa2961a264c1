//! Changes of settings: new values by path, misspelt names, and the difference.

use std::collections::{BTreeMap, BTreeSet};

use model::spelling::nearest;
use serde_json::{Map, Value, json};

use super::{
    command::Assignment,
    known::{KNOWN, WITHOUT_EFFECT},
    refusal,
};

/// The settings after the assignments; or why functions would refuse them, or ignore one.
pub(crate) fn changed(settings: &Value, assignments: &[Assignment]) -> Result<Value, String> {
    let mut settings = settings.clone();
    for assignment in assignments {
        // A misspelt setting that is there can be removed.
        let path = assignment.path.join(".");
        let is_removal = assignment.value.is_none() && at(&settings, &path).is_some();
        if !is_removal {
            check_name(&assignment.path)?;
        }
        settings = apply(&settings, assignment)?;
    }
    match refusal(&json!({ "settings": settings })) {
        None => Ok(settings),
        Some(refusal) => Err(refusal),
    }
}

/// Refuses names that have no effect.
fn check_name(path: &[String]) -> Result<(), String> {
    let (Some(first), second) = (path.first(), path.get(1)) else {
        return Ok(());
    };
    let elsewhere = WITHOUT_EFFECT.iter().find(|(name, _)| name == first);
    if let Some((name, instead)) = elsewhere {
        return Err(format!("setting {name} has no effect here: {instead}"));
    }
    if !KNOWN.contains(&first.as_str()) {
        return Err(unknown("setting", first, KNOWN.iter().copied()));
    }
    let gate = second.map(String::as_str);
    match (first.as_str(), gate) {
        ("featureGates", Some(gate)) if api::feature_gate(gate).is_none() => {
            let names = api::FEATURE_GATES.map(|(_, name)| name);
            Err(unknown("feature gate", gate, names))
        }
        ("awsFeatureGates", Some(gate)) if api::aws_feature_gate(gate).is_none() => {
            let names = api::AWS_FEATURE_GATES.map(|(_, name)| name);
            Err(unknown("feature gate", gate, names))
        }
        _ => Ok(()),
    }
}

fn unknown<'k>(what: &str, name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    match nearest(name, known) {
        Some(meant) => format!("there is no {what} {name} (did you mean {meant}?)"),
        None => format!("there is no {what} {name}: docs/settings.md lists all settings"),
    }
}

/// Applies one assignment. A value is read as JSON, or as text if functions refuse the JSON. A number that functions accept as text stays
/// text, as in Karpenter's chart: `kubernetesVersion` 1.30 is not 1.3.
fn apply(settings: &Value, assignment: &Assignment) -> Result<Value, String> {
    let Assignment { path, value } = assignment;
    let Some(text) = value else {
        return with(settings, path, None);
    };
    let as_text = Value::from(text.as_str());
    let Ok(as_json) = serde_json::from_str::<Value>(text) else {
        return with(settings, path, Some(as_text));
    };
    // Other settings may be refused, too, so that the value is judged alone.
    let is_accepted = |value: &Value| {
        let alone = with(&Value::Null, path, Some(value.clone()));
        alone.is_ok_and(|settings| refusal(&json!({ "settings": settings })).is_none())
    };
    let prefers_text = as_json.is_number() || !is_accepted(&as_json);
    let value = match prefers_text && is_accepted(&as_text) {
        true => as_text,
        false => as_json,
    };
    with(settings, path, Some(value))
}

/// The settings with another value at a path, or without any. An object that becomes empty is removed.
fn with(settings: &Value, path: &[String], value: Option<Value>) -> Result<Value, String> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(value.unwrap_or_default());
    };
    let mut object = match settings.as_object() {
        Some(object) => object.clone(),
        None if settings.is_null() => Map::new(),
        None => return Err(format!("{first} cannot be set within {settings}")),
    };
    let below = object.get(first).cloned().unwrap_or_default();
    let changed = with(&below, rest, value)?;
    let is_empty = changed.is_null() || changed.as_object().is_some_and(Map::is_empty);
    match is_empty {
        true => object.remove(first),
        false => object.insert(first.clone(), changed),
    };
    Ok(Value::Object(object))
}

/// The value at a path with dots.
pub(crate) fn at<'v>(settings: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('.')
        .try_fold(settings, |value, name| value.get(name))
}

/// The differing settings, one line each: `-` before the old value, `+` before the new one.
pub(crate) fn difference(before: &Value, after: &Value) -> Vec<String> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten("", before, &mut old);
    flatten("", after, &mut new);
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut lines = Vec::new();
    for key in keys
        .into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
    {
        lines.extend(old.get(key).map(|value| format!("- {key}: {value}")));
        lines.extend(new.get(key).map(|value| format!("+ {key}: {value}")));
    }
    lines
}

fn flatten<'v>(key: &str, value: &'v Value, all: &mut BTreeMap<String, &'v Value>) {
    if let Some(object) = value.as_object() {
        for (name, value) in object {
            let key = match key {
                "" => name.clone(),
                key => format!("{key}.{name}"),
            };
            flatten(&key, value, all);
        }
    } else if !value.is_null() {
        all.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::command::assignment, *};

    fn set(settings: &Value, texts: &[&str]) -> Result<Value, String> {
        let read = texts.iter().map(|text| assignment(text).unwrap());
        changed(settings, &read.collect::<Vec<_>>())
    }

    #[test]
    fn values_have_the_type_that_the_setting_expects() {
        let settings = json!({"optimize": "upstream", "guards": {"nodes": 5}});
        let texts = [
            "guards.nodes=20",
            "guards.dollarsPerHour=100",
            "featureGates.nodeRepair=true",
            "optimize=",
        ];
        let changed = set(&settings, &texts).unwrap();
        assert_eq!(
            changed,
            json!({"guards": {"nodes": 20, "dollarsPerHour": "100"}, "featureGates": {"nodeRepair": true}})
        );
        assert_eq!(
            difference(&settings, &changed),
            [
                "+ featureGates.nodeRepair: true",
                "+ guards.dollarsPerHour: \"100\"",
                "- guards.nodes: 5",
                "+ guards.nodes: 20",
                "- optimize: \"upstream\"",
            ]
        );
        let without = set(&changed, &["featureGates.nodeRepair="]).unwrap();
        assert_eq!(without.get("featureGates"), None);
        assert_eq!(at(&changed, "guards.nodes"), Some(&json!(20)));
    }

    #[test]
    fn numbers_are_text_where_functions_read_text() {
        let texts = ["kubernetesVersion=1.30", "guards.nodes=20"];
        let expected = json!({"kubernetesVersion": "1.30", "guards": {"nodes": 20}});
        assert_eq!(set(&Value::Null, &texts), Ok(expected.clone()));
        let invalid = json!({"guards": {"nodes": "many"}});
        assert_eq!(
            set(&invalid, &texts),
            Ok(expected),
            "though the entry is refused before the last assignment"
        );
    }

    #[test]
    fn misspelt_setting_can_be_removed() {
        let settings = json!({"preferencePolcy": "Ignore", "featureGates": {"nodeRepairs": true}});
        let texts = ["preferencePolcy=", "featureGates.nodeRepairs="];
        assert_eq!(set(&settings, &texts), Ok(json!({})));
        let refused = set(&json!({}), &texts).unwrap_err();
        assert!(refused.contains("did you mean"), "{refused}");
    }

    #[test]
    fn refused_value_and_unknown_names_are_errors() {
        for (text, expected) in [
            ("guards.nodes=many", "settings.guards.nodes is \"many\""),
            (
                "preferencePolcy=Ignore",
                "there is no setting preferencePolcy (did you mean preferencePolicy?)",
            ),
            (
                "featureGates.nodeRepairs=true",
                "(did you mean nodeRepair?)",
            ),
            (
                "batchIdleDuration=1s",
                "has no effect here: a value of the relay's chart",
            ),
            ("optimize.fast=true", "fast cannot be set within \"cost\""),
        ] {
            let refused = set(&json!({"optimize": "cost"}), &[text]).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        for text in ["guards", "=1", "guards..nodes=1"] {
            assert!(assignment(text).is_err(), "{text}");
        }
    }
}
