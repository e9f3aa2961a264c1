//! Settings of dynamic resource allocation: `ignoreDRARequests`, `enableDRA` and the feature gates of drivers, as in
//! Karpenter's chart (docs/spec/v1.15.md#chart-settings, docs/spec/v1.15.md#dra-switches).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::feature_gates::{DRA_EFA, DRA_NVIDIA_GPU, aws_feature_gates};

/// Effective settings of dynamic resource allocation, with settings that imply others resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSettings {
    /// Whether pods with resource claims are planned.
    pub claims: bool,
    /// Whether instance types have the devices of `gpu.nvidia.com`.
    pub nvidia_gpu: bool,
    /// Whether instance types have the EFA interfaces that `dra.net` publishes.
    pub efa: bool,
}

/// A setting that is invalid or contradicts another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceSettingsError(String);

const NVIDIA_GPU: &str = "awsFeatureGates.draNVIDIAGPU";
const EFA: &str = "awsFeatureGates.draEFA";
const ENABLE: &str = "enableDRA";
const IGNORE: &str = "ignoreDRARequests";

impl DeviceSettings {
    /// Reads the `settings` of a registry entry. Switches may be strings, as in the chart, and feature gates have their
    /// names in the chart or in the option.
    ///
    /// # Errors
    ///
    /// The first setting that is neither true nor false, or that `enableDRA` makes redundant.
    pub fn read(settings: &Value) -> Result<Self, DeviceSettingsError> {
        let enable = switch(settings, ENABLE)?.unwrap_or(false);
        let ignore = switch(settings, IGNORE)?;
        let gates = aws_feature_gates(settings);
        let gates = gates.map_err(|error| DeviceSettingsError(error.to_string()))?;
        let is_on = |gate| gates.get(gate) == Some(&true);
        let (nvidia_gpu, efa) = (is_on(DRA_NVIDIA_GPU), is_on(DRA_EFA));
        let redundant = [
            (NVIDIA_GPU, nvidia_gpu),
            (EFA, efa),
            (IGNORE, ignore.is_some()),
        ];
        if let Some((name, _)) = redundant.iter().find(|(_, is_set)| enable && *is_set) {
            return Err(DeviceSettingsError(format!(
                "{ENABLE} true: expected no {name} beside it, because it sets {name}"
            )));
        }
        // A driver's feature gate enables claims even if `ignoreDRARequests` is set.
        Ok(Self {
            claims: enable || nvidia_gpu || efa || ignore == Some(false),
            nvidia_gpu: enable || nvidia_gpu,
            efa: enable || efa,
        })
    }
}

fn switch(settings: &Value, name: &str) -> Result<Option<bool>, DeviceSettingsError> {
    let value = settings.get(name).unwrap_or(&Value::Null);
    match (value, value.as_str()) {
        (Value::Null, _) | (_, Some("")) => Ok(None),
        (Value::Bool(on), _) => Ok(Some(*on)),
        (_, Some("true")) => Ok(Some(true)),
        (_, Some("false")) => Ok(Some(false)),
        _ => Err(DeviceSettingsError(format!(
            "{name} {value}: expected true or false"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: Value) -> Result<[bool; 3], String> {
        let read = DeviceSettings::read(&settings).map_err(|error| error.to_string())?;
        Ok([read.claims, read.nvidia_gpu, read.efa])
    }

    #[test]
    fn claims_are_ignored_by_default() {
        assert_eq!(read(json!({})), Ok([false; 3]));
        assert_eq!(read(json!({"ignoreDRARequests": true})), Ok([false; 3]));
        assert_eq!(
            read(json!({"ignoreDRARequests": "false"})),
            Ok([true, false, false])
        );
        assert_eq!(read(json!({"enableDRA": true})), Ok([true; 3]));
    }

    #[test]
    fn driver_gate_enables_claims_despite_ignore_setting() {
        let settings = json!({"ignoreDRARequests": true, "awsFeatureGates": {"draEFA": true}});
        assert_eq!(read(settings), Ok([true, false, true]));
        let settings = json!({"awsFeatureGates": {"DRANVIDIAGPU": "true"}});
        assert_eq!(read(settings), Ok([true, true, false]));
    }

    #[test]
    fn enable_dra_excludes_redundant_settings() {
        for settings in [
            json!({"enableDRA": true, "ignoreDRARequests": true}),
            json!({"enableDRA": true, "awsFeatureGates": {"draNVIDIAGPU": true}}),
            json!({"enableDRA": true, "awsFeatureGates": {"draEFA": true}}),
        ] {
            let refused = read(settings.clone()).unwrap_err();
            assert!(
                refused.starts_with("enableDRA true: expected no "),
                "{settings}"
            );
        }
        assert_eq!(
            read(json!({"enableDRA": "yes"})),
            Err("enableDRA \"yes\": expected true or false".to_owned())
        );
    }
}
