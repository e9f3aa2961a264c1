mod guards;
mod unmanaged;

use api::{DeviceSettings, duration::parse_go_duration, names::label};
use jiff::{SignedDuration, Timestamp};
use model::{
    NanosPerHour,
    caps::Caps,
    ledger::{Meta, Mode},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings},
};
use planner::{Timeouts, UnmanagedNodeSettings};
use serde_json::Value;
use thiserror::Error;

use self::{guards::guards, unmanaged::unmanaged_settings};
use super::{
    destinations::{self, Destination},
    reach,
};

/// A cluster's registry entry, as far as turns need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Active or shadow; pauses are kept in the ledger.
    pub mode: Mode,
    /// Network from which the cluster's API server is reached: `public` or `vpc:<id>`.
    pub reach: String,
    pub settings: Settings,
    /// `settings.enableZonalShift`: zones that ARC shifts traffic away from get no new nodes.
    pub zonal_shift: bool,
    /// `isolatedVPC`: the Price List is not queried.
    pub isolated_vpc: bool,
    /// `approvals.collectUntil`: time until which a person lets garbage collection terminate the instances that the brake held back.
    pub collect_until: Option<Timestamp>,
    /// `settings.launchTimeout` and `settings.registrationTimeout`.
    pub timeouts: Timeouts,
    /// `settings.nodeTerminationHandler`: nodes that no NodePool made.
    pub unmanaged: UnmanagedNodeSettings,
    /// `settings.notifications`: destinations outside the cluster that are notified of decisions; none by default.
    pub(crate) destinations: Vec<Destination>,
    /// `settings.guards`: caps on the price and number of the cluster's nodes.
    pub caps: Caps,
    /// `settings.guards.approveAbove`: upper bounds on the launches of one turn and the evictions of one disruption without a
    /// person's approval.
    pub approve_above: Caps,
    /// The entry's `settings` as written, for readers that know more of its keys.
    pub raw_settings: Value,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct EntryError(String);

impl Entry {
    /// Reads an entry; unknown keys are ignored.
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
            unmanaged: unmanaged_settings(&raw_settings)?,
            destinations: destinations::destinations(&raw_settings)?,
            collect_until: collect_until(entry)?,
            caps,
            approve_above,
            raw_settings,
        })
    }
}

/// The API server's endpoint of an entry that names one, normalized for case, the default port and a slash at the end. Whether
/// two entries with different texts lead to one API server is shown by the uid of its namespace `kube-system`.
pub fn endpoint(entry: &Value) -> Option<String> {
    const DEFAULT_PORT: &str = ":443";
    let is_named = entry.get("type").and_then(Value::as_str) == Some("endpoint");
    let endpoint = entry.get("endpoint").and_then(Value::as_str);
    let endpoint = endpoint.filter(|_| is_named)?.to_ascii_lowercase();
    let endpoint = endpoint.trim_end_matches('/');
    let endpoint = endpoint.strip_suffix(DEFAULT_PORT).unwrap_or(endpoint);
    Some(endpoint.to_owned())
}

/// Key in META's mirror of a registry entry: time since which the registry has had no such entry. An entry that is added again
/// replaces the mirror.
const UNLISTED_SINCE: &str = "unlistedSince";

/// Time since which the registry has had no entry for a cluster, by META's mirror of the last one.
pub fn unlisted_since(registry: &Value) -> Option<Timestamp> {
    registry.get(UNLISTED_SINCE)?.as_str()?.parse().ok()
}

/// The mirror of an entry that was removed from the registry.
pub(crate) fn unlisted(registry: &Value, since: Timestamp) -> Value {
    let mut registry = registry.as_object().cloned().unwrap_or_default();
    registry.insert(UNLISTED_SINCE.to_owned(), since.to_string().into());
    Value::Object(registry)
}

/// Whether a cluster is in shadow mode because its registry entry has been missing for too long: no function works for it.
pub(crate) fn is_unregistered(meta: &Meta) -> bool {
    meta.mode == Mode::Shadow && unlisted_since(&meta.registry).is_some()
}

fn settings(raw: &Value) -> Result<Settings, EntryError> {
    if !raw.is_object() {
        return Err(error("settings", raw, "a JSON object"));
    }
    let feature_gates = api::feature_gates(raw).map_err(|wrong| {
        error(
            &format!("settings.{}", wrong.field),
            &wrong.value,
            wrong.expected,
        )
    })?;
    let known = label::WELL_KNOWN_AWS
        .iter()
        .chain(label::WELL_KNOWN_IN_AWS_DOMAIN);
    Ok(Settings {
        preference_policy: choice(
            raw,
            "preferencePolicy",
            [
                ("Respect", PreferencePolicy::Respect),
                ("Ignore", PreferencePolicy::Ignore),
            ],
            "\"Respect\" or \"Ignore\"",
        )?,
        min_values_policy: choice(
            raw,
            "minValuesPolicy",
            [
                ("Strict", MinValuesPolicy::Strict),
                ("BestEffort", MinValuesPolicy::BestEffort),
            ],
            "\"Strict\" or \"BestEffort\"",
        )?,
        reserved_offering_mode: ReservedOfferingMode::Strict,
        optimize: choice(
            raw,
            "optimize",
            [("cost", Optimize::Cost), ("upstream", Optimize::Upstream)],
            "\"cost\" or \"upstream\"",
        )?,
        preference_worth: dollars(raw, "preferenceWorth", Settings::preference_worth())?,
        node_price: dollars(raw, "nodePrice", NanosPerHour(0))?,
        feature_gates,
        well_known_labels: known.map(|key| (*key).to_owned()).collect(),
        restricted_domains: vec![api::names::group::KARPENTER_AWS.to_owned()],
        reservation_id_label: label::CAPACITY_RESERVATION_ID.to_owned(),
        default_topology_spread: api::default_topology_spread(raw)
            .map_err(|wrong| EntryError(format!("settings.{wrong}")))?,
        registration_timeout: Some(timeouts(raw)?.registration),
        legacy_node_repair: switch(raw, "legacyNodeRepair")?,
        device_claims: DeviceSettings::read(raw)
            .map_err(|wrong| EntryError(format!("settings.{wrong}")))?
            .claims,
    })
}

/// Reads dollars per hour, as text.
fn dollars(raw: &Value, key: &str, default: NanosPerHour) -> Result<NanosPerHour, EntryError> {
    let given = raw.get(key).unwrap_or(&Value::Null);
    if given.is_null() || given.as_str() == Some("") {
        return Ok(default);
    }
    let price = given.as_str().and_then(NanosPerHour::from_dollars);
    let expected = "dollars per hour as text, such as \"0.005\"";
    price.ok_or_else(|| error(&format!("settings.{key}"), given, expected))
}

/// Reads one of two values, of which the first is the default.
fn choice<T>(
    raw: &Value,
    key: &str,
    [(first, default), (second, other)]: [(&str, T); 2],
    expected: &'static str,
) -> Result<T, EntryError> {
    let given = raw.get(key).unwrap_or(&Value::Null);
    match (given, given.as_str()) {
        (Value::Null, _) | (_, Some("")) => Ok(default),
        (_, Some(text)) if text == first => Ok(default),
        (_, Some(text)) if text == second => Ok(other),
        _ => Err(error(&format!("settings.{key}"), given, expected)),
    }
}

/// Reads a boolean; text is accepted too, as in the chart.
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

/// Lower bound of both timeouts: a launch is looked for and repeated within its first two minutes (docs/protocol.md#a3).
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

pub(crate) fn error(field: &str, value: &Value, expected: &'static str) -> EntryError {
    EntryError(format!("{field} is {value}: expected {expected}"))
}

#[cfg(test)]
mod tests;
