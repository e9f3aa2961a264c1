//! `settings.nodeTerminationHandler` of an entry.

use model::{interruption::InterruptionAction, taint::TaintEffect};
use planner::UnmanagedNodeSettings;
use serde_json::Value;

use super::{EntryError, error};

/// Upper bound on a pod's grace period, in seconds: a day.
const GRACE_SECONDS_MAX: i64 = 86_400;

/// Reads the options of NTH that concern nodes of Auto Scaling groups (docs/spec/migrate.md#nth-options). An unknown option is
/// refused, because it may be a misspelt one.
pub(super) fn unmanaged_settings(raw: &Value) -> Result<UnmanagedNodeSettings, EntryError> {
    const FIELD: &str = "nodeTerminationHandler";
    let Some(options) = raw.get(FIELD) else {
        return Ok(UnmanagedNodeSettings::default());
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
    let mut unmanaged = UnmanagedNodeSettings::default();
    let (mut taints, mut effect) = (false, TaintEffect::NoSchedule);
    for (key, value) in options {
        let switch = || {
            let on = value.as_bool();
            on.ok_or_else(|| refused(key, value, "true or false"))
        };
        match key.as_str() {
            "managedTag" => match value.as_str() {
                Some(tag) if !tag.is_empty() => unmanaged.managed_tag = tag.to_owned(),
                _ => return Err(refused(key, value, "the key of a tag")),
            },
            "dryRun" => unmanaged.dry_run = switch()?,
            "cordonOnly" => unmanaged.cordon_only = switch()?,
            "enableOutOfServiceTaint" => unmanaged.out_of_service_taint = switch()?,
            "podTerminationGracePeriod" => {
                unmanaged.pod_grace_seconds = match value.as_i64() {
                    Some(-1) => None,
                    Some(seconds @ 0..=GRACE_SECONDS_MAX) => Some(seconds),
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
                unmanaged.rebalance = match value.as_str() {
                    Some("ignore") => None,
                    Some("cordon") => Some(InterruptionAction::Cordon),
                    Some("drain") => Some(InterruptionAction::Drain),
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
                    "one of the options that docs/node-termination-handler.md lists",
                ));
            }
        }
    }
    unmanaged.taint = taints.then_some(effect);
    Ok(unmanaged)
}
