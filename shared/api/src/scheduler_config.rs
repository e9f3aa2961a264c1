//! Configuration of a cluster's kube-scheduler, from Karpenter's setting `schedulerConfig`
//! (docs/spec/v1.15.md#default-spread).

use std::collections::BTreeSet;

use model::pod::{NodeInclusionPolicy, TopologySpread, WhenUnsatisfiable};
use serde::Deserialize;
use serde_json::Value;

use crate::syntax::{QUALIFIED_NAME, is_qualified_name};

const SETTING: &str = "schedulerConfig";
const CONSTRAINTS: &str = "schedulerConfig.podTopologySpread.defaultConstraints";

/// Reason why a `schedulerConfig` is invalid, with the field, the value and the expected values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchedulerConfigError(String);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct SchedulerConfig {
    pod_topology_spread: PodTopologySpread,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PodTopologySpread {
    default_constraints: Vec<DefaultConstraint>,
}

/// A constraint without a selector: each pod gets its own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DefaultConstraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: WhenUnsatisfiable,
    #[serde(default)]
    min_domains: Option<i32>,
    #[serde(default)]
    node_affinity_policy: Option<NodeInclusionPolicy>,
    #[serde(default)]
    node_taints_policy: Option<NodeInclusionPolicy>,
}

/// Default spread constraints for pods without any, from a cluster's settings: an object, or JSON or YAML text. Empty
/// if not set; kube-scheduler's built-in defaults are not assumed, as in Karpenter.
///
/// # Errors
///
/// The first value that kube-scheduler would reject.
pub fn default_topology_spread(
    settings: &Value,
) -> Result<Vec<TopologySpread>, SchedulerConfigError> {
    let wrong = |what: String| SchedulerConfigError(what);
    let config: SchedulerConfig = match settings.get(SETTING) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => serde_saphyr::from_str(text)
            .map_err(|error| wrong(format!("{SETTING} cannot be read: {error}")))?,
        Some(object) => serde_path_to_error::deserialize(object)
            .map_err(|error| wrong(format!("{SETTING}.{error}")))?,
    };
    let mut seen = BTreeSet::new();
    let mut read = Vec::new();
    let constraints = config.pod_topology_spread.default_constraints.into_iter();
    for (at, constraint) in constraints.enumerate() {
        let key = &constraint.topology_key;
        if let Some(problem) = problem(&constraint) {
            return Err(wrong(format!("{CONSTRAINTS}[{at}].{problem}")));
        }
        if !seen.insert((key.clone(), constraint.when_unsatisfiable)) {
            return Err(wrong(format!(
                "{CONSTRAINTS}[{at}] is for topologyKey \"{key}\" and whenUnsatisfiable \"{:?}\", like an earlier one: expected one constraint",
                constraint.when_unsatisfiable
            )));
        }
        read.push(TopologySpread {
            topology_key: constraint.topology_key,
            max_skew: constraint.max_skew,
            when_unsatisfiable: constraint.when_unsatisfiable,
            selector: None,
            min_domains: constraint.min_domains,
            node_affinity_policy: constraint.node_affinity_policy,
            node_taints_policy: constraint.node_taints_policy,
            match_label_keys: Vec::new(),
        });
    }
    Ok(read)
}

fn problem(constraint: &DefaultConstraint) -> Option<String> {
    let key = &constraint.topology_key;
    if constraint.max_skew < 1 {
        let skew = constraint.max_skew;
        return Some(format!("maxSkew is {skew}: expected a number from 1"));
    }
    if !is_qualified_name(key) {
        return Some(format!(
            "topologyKey is \"{key}\": expected {QUALIFIED_NAME}"
        ));
    }
    let is_soft = constraint.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
    match constraint.min_domains {
        Some(domains) if domains < 1 => {
            Some(format!("minDomains is {domains}: expected a number from 1"))
        }
        Some(domains) if is_soft => Some(format!(
            "minDomains is {domains}: expected none with whenUnsatisfiable \"ScheduleAnyway\""
        )),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<Vec<TopologySpread>, String> {
        let settings = json!({ "schedulerConfig": config });
        default_topology_spread(&settings).map_err(|error| error.to_string())
    }

    fn refusal(constraints: Value) -> String {
        read(json!({ "podTopologySpread": { "defaultConstraints": constraints } })).unwrap_err()
    }

    #[test]
    fn constraints_parse_from_objects_and_text() {
        let zone = json!({ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway" });
        let config = json!({ "podTopologySpread": { "defaultConstraints": [zone] } });
        let read_one = read(config.clone()).unwrap();
        assert_eq!(read_one.len(), 1);
        assert_eq!(read(config.to_string().into()).unwrap(), read_one);
        let yaml = "podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}\n";
        assert_eq!(read(yaml.into()).unwrap(), read_one);
    }

    #[test]
    fn settings_without_constraints_have_none() {
        for config in [
            json!({}),
            json!(null),
            json!(""),
            json!({ "podTopologySpread": {} }),
        ] {
            assert_eq!(read(config.clone()), Ok(Vec::new()), "{config}");
        }
        assert_eq!(default_topology_spread(&json!({})), Ok(Vec::new()));
    }

    #[test]
    fn constraints_rejected_by_kube_scheduler_are_rejected() {
        let with = |field: &str, value: Value| {
            let mut constraint = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" });
            constraint[field] = value;
            refusal(json!([constraint]))
        };
        let at = "schedulerConfig.podTopologySpread.defaultConstraints[0]";
        assert_eq!(
            with("maxSkew", json!(0)),
            format!("{at}.maxSkew is 0: expected a number from 1")
        );
        assert!(
            with("topologyKey", json!("no key"))
                .starts_with(&format!("{at}.topologyKey is \"no key\": expected"))
        );
        assert!(with("whenUnsatisfiable", json!("Never")).contains("unknown variant `Never`"));
        assert!(with("labelSelector", json!({})).contains("unknown field `labelSelector`"));
        assert!(with("matchLabelKeys", json!([])).contains("unknown field `matchLabelKeys`"));
        assert!(with("minDomains", json!(0)).contains("minDomains is 0"));
        let twice =
            json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" });
        assert!(refusal(json!([twice, twice])).contains("like an earlier one: expected one"));
        let soft = json!([{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2 }]);
        assert!(refusal(soft).contains("expected none with whenUnsatisfiable"));
        assert!(
            read(json!({ "profiles": [] }))
                .unwrap_err()
                .contains("unknown field `profiles`")
        );
    }
}
