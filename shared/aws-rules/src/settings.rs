//! Cluster settings that concern EC2 (the keys of `settings` in Karpenter's chart; docs/spec/aws.md#settings).

use api::{DeviceSettings, NODE_CLASS_CEL, duration::parse_go_duration};
use jiff::SignedDuration;
use model::snapshot::MinValuesPolicy;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderSettings {
    /// `vmMemoryOverheadPercent`: the part of a type's memory that the hypervisor reserves.
    pub vm_memory_overhead: Millionths,
    /// `reservedENIs`: network interfaces that pods cannot use.
    pub reserved_enis: u32,
    /// Feature gate `ReservedCapacity`.
    pub reserved_capacity: bool,
    /// AWS feature gate `NodeClassCEL`: expressions in kubelet settings.
    pub node_class_cel: bool,
    /// The drivers whose resource claims count, and whose devices instance types have.
    pub devices: DeviceSettings,
    pub min_values_policy: MinValuesPolicy,
    /// `isolatedVPC`: the Price List cannot be reached.
    pub isolated_vpc: bool,
    /// Whether EC2 is asked by dry runs if it would allow launches; `disableDryRun` switches this off.
    pub dry_runs: bool,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            vm_memory_overhead: Millionths(75_000),
            reserved_enis: 0,
            reserved_capacity: true,
            node_class_cel: false,
            devices: DeviceSettings::default(),
            min_values_policy: MinValuesPolicy::Strict,
            isolated_vpc: false,
            dry_runs: true,
        }
    }
}

/// Settings of Karpenter's that have no effect here, since discovery queries EC2 each time. Values that Karpenter refuses are refused.
const REFRESH_INTERVALS: [&str; 3] = [
    "amiRefreshInterval",
    "securityGroupRefreshInterval",
    "subnetRefreshInterval",
];
/// Shortest interval that Karpenter accepts.
const REFRESH_INTERVAL_MIN: SignedDuration = SignedDuration::from_mins(1);

/// All errors in a cluster's settings, each with name, value and expectation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster's settings are not usable: {}", .0.join("; "))]
pub struct SettingsError(pub Vec<String>);

impl ProviderSettings {
    /// Parses the `settings` of a registry entry; keys of other readers are ignored. Numbers may be written as text, as in the chart.
    pub fn read(settings: &Value) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        let mut read = Self::default();
        let text = |name: &str| match settings.get(name)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            Value::Null => None,
            value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Some(value.to_string())
            }
        };
        if let Some(percent) = text("vmMemoryOverheadPercent") {
            match percent.parse() {
                Ok(fraction) => read.vm_memory_overhead = fraction,
                Err(error) => problems.push(format!("vmMemoryOverheadPercent {error}")),
            }
        }
        if let Some(enis) = text("reservedENIs") {
            match enis.parse() {
                Ok(count) => read.reserved_enis = count,
                Err(_) => {
                    problems.push(format!("reservedENIs \"{enis}\": expected a number from 0"))
                }
            }
        }
        match text("minValuesPolicy").as_deref() {
            None | Some("Strict") => {}
            Some("BestEffort") => read.min_values_policy = MinValuesPolicy::BestEffort,
            Some(other) => problems.push(format!(
                "minValuesPolicy \"{other}\": expected Strict or BestEffort"
            )),
        }
        match api::feature_gates(settings) {
            Ok(gates) => {
                read.reserved_capacity = gates.get("ReservedCapacity") != Some(&false);
                read.node_class_cel = gates.get(NODE_CLASS_CEL) == Some(&true);
            }
            Err(error) => problems.push(error.to_string()),
        }
        match DeviceSettings::read(settings) {
            Ok(devices) => read.devices = devices,
            Err(error) => problems.push(error.to_string()),
        }
        // Feature gates of devices are also among the gates above.
        problems.dedup();
        for name in REFRESH_INTERVALS {
            let Some(interval) = text(name) else { continue };
            let read = parse_go_duration(&interval);
            if read.is_none_or(|interval| interval < REFRESH_INTERVAL_MIN) {
                problems.push(format!(
                    "{name} \"{interval}\": expected a duration from 1m, such as 5m"
                ));
            }
        }
        let mut disable_dry_run = false;
        let switches = [
            ("disableDryRun", &mut disable_dry_run),
            ("isolatedVPC", &mut read.isolated_vpc),
        ];
        for (name, switch) in switches {
            match text(name).as_deref() {
                None => {}
                Some("true") => *switch = true,
                Some("false") => *switch = false,
                Some(other) => {
                    problems.push(format!("{name} \"{other}\": expected true or false"));
                }
            }
        }
        read.dry_runs = !disable_dry_run;
        if problems.is_empty() {
            Ok(read)
        } else {
            Err(SettingsError(problems))
        }
    }
}

/// A fraction in millionths, exact: `0.075` is 75,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millionths(pub u32);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a fraction: expected a decimal number from 0 with at most six decimals, such as 0.075"
)]
pub struct FractionError(String);

impl Millionths {
    /// The fraction of `amount`, rounded up.
    pub(crate) fn of(self, amount: i64) -> i64 {
        let product = i128::from(amount) * i128::from(self.0);
        i64::try_from(-(-product).div_euclid(1_000_000)).unwrap_or(i64::MAX)
    }
}

impl std::str::FromStr for Millionths {
    type Err = FractionError;

    fn from_str(text: &str) -> Result<Self, FractionError> {
        let parse = || {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 6 {
                return None;
            }
            let whole: u32 = whole.parse().ok()?;
            let fraction: u32 = format!("{fraction:0<6}").parse().ok()?;
            whole.checked_mul(1_000_000)?.checked_add(fraction)
        };
        parse()
            .map(Self)
            .ok_or_else(|| FractionError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        for (text, millionths) in [("0.075", 75_000), ("0", 0), ("1.5", 1_500_000), ("0.", 0)] {
            assert_eq!(text.parse(), Ok(Millionths(millionths)), "{text}");
        }
        for text in ["", ".5", "-0.1", "7%", "0.0000001", "5000"] {
            assert!(text.parse::<Millionths>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_parse_in_the_charts_format() {
        let settings = serde_json::json!({
            "vmMemoryOverheadPercent": 0.05, "reservedENIs": "1", "minValuesPolicy": "BestEffort",
            "featureGates": { "reservedCapacity": false, "nodeRepair": true }, "batchIdleDuration": "1s",
            "awsFeatureGates": { "NodeClassCEL": "true", "draEFA": true }, "disableDryRun": true, "isolatedVPC": "true",
            "securityGroupRefreshInterval": "1m", "amiRefreshInterval": "",
        });
        let expected = ProviderSettings {
            vm_memory_overhead: Millionths(50_000),
            reserved_enis: 1,
            reserved_capacity: false,
            node_class_cel: true,
            devices: DeviceSettings {
                claims: true,
                nvidia_gpu: false,
                efa: true,
            },
            min_values_policy: MinValuesPolicy::BestEffort,
            isolated_vpc: true,
            dry_runs: false,
        };
        assert_eq!(ProviderSettings::read(&settings), Ok(expected));
        assert_eq!(
            ProviderSettings::read(&Value::Null),
            Ok(ProviderSettings::default())
        );
    }

    #[test]
    fn all_errors_in_settings_are_reported_together() {
        let settings = serde_json::json!({
            "vmMemoryOverheadPercent": "7%", "reservedENIs": -1, "minValuesPolicy": "strict",
            "featureGates": {"reservedCapacity": 1}, "awsFeatureGates": {"nodeClassCEL": 1},
            "securityGroupRefreshInterval": "30s", "subnetRefreshInterval": 60,
        });
        let problems = ProviderSettings::read(&settings).unwrap_err().0;
        let names = [
            "vmMemoryOverheadPercent",
            "reservedENIs",
            "minValuesPolicy",
            "featureGates.reservedCapacity",
            "awsFeatureGates.nodeClassCEL",
            "securityGroupRefreshInterval \"30s\"",
            "subnetRefreshInterval \"60\"",
        ];
        for (name, problem) in names.iter().zip(&problems) {
            assert!(problem.starts_with(name), "{problem}");
        }
        assert_eq!(problems.len(), names.len());
    }

    #[test]
    fn fraction_of_an_amount_rounds_up() {
        assert_eq!(Millionths(75_000).of(8192), 615);
        assert_eq!(Millionths(75_000).of(40_960), 3072);
    }
}
