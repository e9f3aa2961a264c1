use std::collections::BTreeMap;

use api::{duration::parse_go_duration, names::label};
use jiff::{SignedDuration, Timestamp};
use model::{
    NanosPerHour,
    caps::Caps,
    interruption::Course,
    ledger::Mode,
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings},
    taint::TaintEffect,
};
use planner::{Foreign, Timeouts};
use serde_json::Value;
use thiserror::Error;

use crate::{
    notifications::{self, Destination},
    reach,
};

/// A cluster's registry entry, as far as turns need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Active or shadow; pauses are the ledger's.
    pub mode: Mode,
    /// From where its API server is reached: `public` or `vpc:<id>`.
    pub reach: String,
    pub settings: Settings,
    /// `settings.enableZonalShift`: zones that ARC shifts traffic away from get no new nodes.
    pub zonal_shift: bool,
    /// `isolatedVPC`: the Price List is not asked.
    pub isolated_vpc: bool,
    /// `approvals.collectUntil`: a person has looked at what garbage collection held back, and lets it go on until then.
    pub collect_until: Option<Timestamp>,
    /// `settings.launchTimeout` and `settings.registrationTimeout`.
    pub timeouts: Timeouts,
    /// `settings.nodeTerminationHandler`: nodes that no NodePool made.
    pub foreign: Foreign,
    /// `settings.notifications`: who is told of decisions outside the cluster; nobody by default.
    pub(crate) destinations: Vec<Destination>,
    /// `settings.guards`: what the cluster's nodes may cost and number.
    pub caps: Caps,
    /// `settings.guards.approveAbove`: what one turn may launch, and one disruption evict, without a person's approval.
    pub approve_above: Caps,
    /// The entry's `settings` as written, for those who know more of its keys.
    pub raw_settings: Value,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field} is {value}: expected {expected}")]
pub struct EntryError {
    field: String,
    value: String,
    expected: &'static str,
}

impl Entry {
    /// Reads an entry; keys that are not known here are left to others.
    pub fn read(entry: &Value) -> Result<Self, EntryError> {
        if !entry.is_object() {
            return Err(error("the entry", entry, "a JSON object"));
        }
        let mode = match entry.get("mode").map(Value::as_str) {
            None | Some(Some("shadow")) => Mode::Shadow,
            Some(Some("active")) => Mode::Active,
            Some(_) => return Err(error("mode", &entry["mode"], "\"active\" or \"shadow\"")),
        };
        let raw_settings = entry
            .get("settings")
            .cloned()
            .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let reach = reach::read(entry)
            .ok_or_else(|| error("reach", &entry["reach"], reach::EXPECTED))?
            .to_owned();
        let (caps, approve_above) = guards(&raw_settings)?;
        Ok(Self {
            mode,
            reach,
            settings: settings(&raw_settings)?,
            zonal_shift: switch(&raw_settings, "enableZonalShift")?,
            isolated_vpc: switch(&raw_settings, "isolatedVPC")?,
            timeouts: timeouts(&raw_settings)?,
            foreign: foreign(&raw_settings)?,
            destinations: notifications::destinations(&raw_settings)?,
            collect_until: collect_until(entry)?,
            caps,
            approve_above,
            raw_settings,
        })
    }
}

/// The API server of an entry that names one, in the form in which two of the same are equal. Those of EKS are known by the names
/// of their entries, of which there are no two.
pub fn endpoint(entry: &Value) -> Option<&str> {
    let is_named = entry.get("type").and_then(Value::as_str) == Some("endpoint");
    let endpoint = entry.get("endpoint").and_then(Value::as_str);
    endpoint
        .filter(|_| is_named)
        .map(|endpoint| endpoint.trim_end_matches('/'))
}

fn settings(raw: &Value) -> Result<Settings, EntryError> {
    if !raw.is_object() {
        return Err(error("settings", raw, "a JSON object"));
    }
    let choice = |key: &str, expected: &'static str| match raw.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(error(&format!("settings.{key}"), other, expected)),
    };
    let preference_policy = match choice("preferencePolicy", "\"Respect\" or \"Ignore\"")? {
        None | Some("Respect") => PreferencePolicy::Respect,
        Some("Ignore") => PreferencePolicy::Ignore,
        Some(_) => {
            return Err(error(
                "settings.preferencePolicy",
                &raw["preferencePolicy"],
                "\"Respect\" or \"Ignore\"",
            ));
        }
    };
    let min_values_policy = match choice("minValuesPolicy", "\"Strict\" or \"BestEffort\"")? {
        None | Some("Strict") => MinValuesPolicy::Strict,
        Some("BestEffort") => MinValuesPolicy::BestEffort,
        Some(_) => {
            return Err(error(
                "settings.minValuesPolicy",
                &raw["minValuesPolicy"],
                "\"Strict\" or \"BestEffort\"",
            ));
        }
    };
    let optimize = match choice("optimize", "\"cost\" or \"upstream\"")? {
        None | Some("cost") => Optimize::Cost,
        Some("upstream") => Optimize::Upstream,
        Some(_) => {
            return Err(error(
                "settings.optimize",
                &raw["optimize"],
                "\"cost\" or \"upstream\"",
            ));
        }
    };
    let gates = raw.get("featureGates").and_then(Value::as_object);
    let feature_gates: BTreeMap<String, bool> = gates
        .into_iter()
        .flatten()
        .filter_map(|(gate, on)| Some((gate.clone(), on.as_bool()?)))
        .collect();
    let known = label::WELL_KNOWN_AWS
        .iter()
        .chain(label::WELL_KNOWN_IN_AWS_DOMAIN);
    Ok(Settings {
        preference_policy,
        min_values_policy,
        reserved_offering_mode: ReservedOfferingMode::Strict,
        optimize,
        feature_gates,
        well_known_labels: known.map(|key| (*key).to_owned()).collect(),
        restricted_domains: vec![api::names::group::KARPENTER_AWS.to_owned()],
        reservation_id_label: label::CAPACITY_RESERVATION_ID.to_owned(),
        default_topology_spread: Vec::new(),
    })
}

/// As text too, as in the chart.
fn switch(raw: &Value, key: &str) -> Result<bool, EntryError> {
    let given = raw.get(key).unwrap_or(&Value::Null);
    match (given, given.as_str()) {
        (Value::Bool(on), _) => Ok(*on),
        (Value::Null, _) | (_, Some("" | "false")) => Ok(false),
        (_, Some("true")) => Ok(true),
        _ => Err(error(&format!("settings.{key}"), given, "true or false")),
    }
}

fn collect_until(entry: &Value) -> Result<Option<Timestamp>, EntryError> {
    let Some(value) = entry.pointer("/approvals/collectUntil") else {
        return Ok(None);
    };
    let read = value.as_str().and_then(|text| text.parse().ok());
    let expected = "a time such as \"2026-01-31T12:00:00Z\"";
    read.map(Some)
        .ok_or_else(|| error("approvals.collectUntil", value, expected))
}

/// What caps the cluster, and above what a person is asked. A key that is not known may be meant to hold something back, so it
/// is refused.
fn guards(raw: &Value) -> Result<(Caps, Caps), EntryError> {
    const FIELD: &str = "settings.guards";
    let (mut caps, mut approve_above) = (Caps::default(), Caps::default());
    for (key, value) in object(FIELD, raw.get("guards"))? {
        let field = format!("{FIELD}.{key}");
        match key.as_str() {
            "evictionsPerHour" => caps.evictions = Some(whole(&field, value, PODS)?),
            "approveAbove" => {
                for (key, value) in object(&field, Some(value))? {
                    let field = format!("{field}.{key}");
                    match key.as_str() {
                        "evictions" => approve_above.evictions = Some(whole(&field, value, PODS)?),
                        _ => of_launches(&field, key, value, &mut approve_above)?,
                    }
                }
            }
            _ => of_launches(&field, key, value, &mut caps)?,
        }
    }
    Ok((caps, approve_above))
}

const PODS: &str = "a number of pods";

fn object<'a>(
    field: &str,
    value: Option<&'a Value>,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, EntryError> {
    let object = match value {
        None => None,
        Some(Value::Object(object)) => Some(object),
        Some(other) => return Err(error(field, other, "a JSON object")),
    };
    Ok(object.into_iter().flatten())
}

/// What launches may cost and number.
fn of_launches(field: &str, key: &str, value: &Value, caps: &mut Caps) -> Result<(), EntryError> {
    match key {
        "dollarsPerHour" => {
            let price = value.as_str().and_then(NanosPerHour::from_dollars);
            let expected = "dollars as text, such as \"12.50\"";
            caps.price = Some(price.ok_or_else(|| error(field, value, expected))?);
        }
        "nodes" => caps.nodes = Some(whole(field, value, "a number of nodes")?),
        _ => {
            let expected = "no such guard: docs/operations.md has them all";
            return Err(error(field, value, expected));
        }
    }
    Ok(())
}

fn whole(field: &str, value: &Value, expected: &'static str) -> Result<u32, EntryError> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| error(field, value, expected))
}

/// A launch is looked for and repeated within its first two minutes (PROTOCOL A3), so it has at least three.
const SHORTEST_TIMEOUT: SignedDuration = SignedDuration::from_mins(3);

fn timeouts(raw: &Value) -> Result<Timeouts, EntryError> {
    let upstream = Timeouts::default();
    let read = |key: &str, default| match raw.get(key) {
        None => Ok(default),
        Some(value) => value
            .as_str()
            .and_then(parse_go_duration)
            .filter(|timeout| *timeout >= SHORTEST_TIMEOUT)
            .ok_or_else(|| {
                let expected = "a duration of at least three minutes, such as \"5m\"";
                error(&format!("settings.{key}"), value, expected)
            }),
    };
    Ok(Timeouts {
        launch: read("launchTimeout", upstream.launch)?,
        registration: read("registrationTimeout", upstream.registration)?,
    })
}

/// A day: no pod that is to leave its node takes longer.
const MOST_GRACE: i64 = 86_400;

/// The options of NTH that concern nodes of groups (spec/migrate §4.2). One that is not known may be meant to hold something
/// back, so it is refused.
fn foreign(raw: &Value) -> Result<Foreign, EntryError> {
    const FIELD: &str = "nodeTerminationHandler";
    let Some(options) = raw.get(FIELD) else {
        return Ok(Foreign::default());
    };
    let refused = |key: &str, value: &Value, expected| {
        error(&format!("settings.{FIELD}.{key}"), value, expected)
    };
    let Some(options) = options.as_object() else {
        return Err(error(
            &format!("settings.{FIELD}"),
            options,
            "a JSON object",
        ));
    };
    let mut foreign = Foreign::default();
    let (mut taints, mut effect) = (false, TaintEffect::NoSchedule);
    for (key, value) in options {
        let switch = || {
            let on = value.as_bool();
            on.ok_or_else(|| refused(key, value, "true or false"))
        };
        match key.as_str() {
            "managedTag" => match value.as_str() {
                Some(tag) if !tag.is_empty() => foreign.managed_tag = tag.to_owned(),
                _ => return Err(refused(key, value, "the key of a tag")),
            },
            "dryRun" => foreign.dry_run = switch()?,
            "cordonOnly" => foreign.cordon_only = switch()?,
            "enableOutOfServiceTaint" => foreign.out_of_service_taint = switch()?,
            "podTerminationGracePeriod" => {
                foreign.pod_grace_seconds = match value.as_i64() {
                    Some(-1) => None,
                    Some(seconds @ 0..=MOST_GRACE) => Some(seconds),
                    _ => return Err(refused(key, value, "seconds, at most 86400, or -1")),
                }
            }
            "taintNode" => taints = switch()?,
            "taintEffect" => {
                effect = match value.as_str() {
                    Some("NoSchedule") => TaintEffect::NoSchedule,
                    Some("PreferNoSchedule") => TaintEffect::PreferNoSchedule,
                    Some("NoExecute") => TaintEffect::NoExecute,
                    _ => {
                        return Err(refused(
                            key,
                            value,
                            "NoSchedule, PreferNoSchedule or NoExecute",
                        ));
                    }
                }
            }
            "rebalance" => {
                foreign.rebalance = match value.as_str() {
                    Some("ignore") => None,
                    Some("cordon") => Some(Course::Cordon),
                    Some("drain") => Some(Course::Drain),
                    _ => return Err(refused(key, value, "\"ignore\", \"cordon\" or \"drain\"")),
                }
            }
            "checkTagBeforeDraining" if *value == Value::Bool(true) => {}
            "checkTagBeforeDraining" => {
                return Err(refused(
                    key,
                    value,
                    "true: nodes of groups are opted in one by one",
                ));
            }
            _ => {
                return Err(refused(
                    key,
                    value,
                    "no such option: docs/node-termination-handler.md has them all",
                ));
            }
        }
    }
    foreign.taint = taints.then_some(effect);
    Ok(foreign)
}

pub(crate) fn error(field: &str, value: &Value, expected: &'static str) -> EntryError {
    EntryError {
        field: field.to_owned(),
        value: value.to_string(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_in_shadow_until_its_entry_says_active() {
        assert_eq!(
            Entry::read(&serde_json::json!({})).unwrap().mode,
            Mode::Shadow
        );
        assert_eq!(
            Entry::read(&serde_json::json!({"mode": "active"}))
                .unwrap()
                .mode,
            Mode::Active
        );
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        let bad = serde_json::json!({"mode": "on"});
        assert_eq!(
            Entry::read(&bad).unwrap_err().to_string(),
            "mode is \"on\": expected \"active\" or \"shadow\""
        );
        let bad = serde_json::json!({"reach": "vpc-1"});
        assert_eq!(
            Entry::read(&bad).unwrap_err().to_string(),
            "reach is \"vpc-1\": expected \"public\" or \"vpc:<id of the VPC>\""
        );
        let bad = serde_json::json!({"settings": {"optimize": 7}});
        assert_eq!(
            Entry::read(&bad).unwrap_err().to_string(),
            "settings.optimize is 7: expected \"cost\" or \"upstream\""
        );
        let bad = serde_json::json!({"settings": {"enableZonalShift": "yes"}});
        assert_eq!(
            Entry::read(&bad).unwrap_err().to_string(),
            "settings.enableZonalShift is \"yes\": expected true or false"
        );
        for (options, told) in [
            (
                serde_json::json!({"dryrun": true}),
                "settings.nodeTerminationHandler.dryrun is true: expected no such option: \
                 docs/node-termination-handler.md has them all",
            ),
            (
                serde_json::json!({"checkTagBeforeDraining": false}),
                "settings.nodeTerminationHandler.checkTagBeforeDraining is false: expected true: nodes of groups are \
                 opted in one by one",
            ),
            (
                serde_json::json!({"taintEffect": "Never"}),
                "settings.nodeTerminationHandler.taintEffect is \"Never\": expected NoSchedule, PreferNoSchedule or \
                 NoExecute",
            ),
        ] {
            let bad = serde_json::json!({"settings": {"nodeTerminationHandler": options}});
            assert_eq!(Entry::read(&bad).unwrap_err().to_string(), told);
        }
        for (guards, told) in [
            (
                serde_json::json!({"dollarsPerHour": 12.5}),
                "settings.guards.dollarsPerHour is 12.5: expected dollars as text, such as \"12.50\"",
            ),
            (
                serde_json::json!({"nodes": -1}),
                "settings.guards.nodes is -1: expected a number of nodes",
            ),
            (
                serde_json::json!({"evictionsPerHour": "many"}),
                "settings.guards.evictionsPerHour is \"many\": expected a number of pods",
            ),
            (
                serde_json::json!({"approveAbove": {"pods": 1}}),
                "settings.guards.approveAbove.pods is 1: expected no such guard: docs/operations.md has them all",
            ),
            (
                serde_json::json!({"node": 1}),
                "settings.guards.node is 1: expected no such guard: docs/operations.md has them all",
            ),
        ] {
            let bad = serde_json::json!({"settings": {"guards": guards}});
            assert_eq!(Entry::read(&bad).unwrap_err().to_string(), told);
        }
        let bad = serde_json::json!({"approvals": {"collectUntil": "tomorrow"}});
        assert_eq!(
            Entry::read(&bad).unwrap_err().to_string(),
            "approvals.collectUntil is \"tomorrow\": expected a time such as \"2026-01-31T12:00:00Z\""
        );
        let bad = serde_json::json!({"settings": {"launchTimeout": "30s"}});
        assert_eq!(
            Entry::read(&bad).unwrap_err().to_string(),
            "settings.launchTimeout is \"30s\": expected a duration of at least three minutes, such as \"5m\""
        );
    }
}
