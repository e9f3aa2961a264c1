use serde_json::json;

use super::*;

#[test]
fn cluster_is_in_shadow_mode_unless_its_entry_is_active() {
    let mode = |entry| Entry::read(&entry).unwrap().mode;
    assert_eq!(mode(json!({})), Mode::Shadow);
    assert_eq!(mode(json!({"mode": "active"})), Mode::Active);
}

fn refused(entry: &Value, expected: &str) {
    assert_eq!(Entry::read(entry).unwrap_err().to_string(), expected);
}

#[test]
fn invalid_value_is_reported_with_the_expected_one() {
    for (entry, expected) in [
        (
            json!({"mode": "on"}),
            "mode is \"on\": expected \"active\" or \"shadow\"",
        ),
        (
            json!({"reach": "vpc-1"}),
            "reach is \"vpc-1\": expected \"public\" or \"vpc:<id of the VPC>\"",
        ),
        (
            json!({"approvals": {"collectUntil": "tomorrow"}}),
            "approvals.collectUntil is \"tomorrow\": expected a time such as \"2026-01-31T12:00:00Z\"",
        ),
    ] {
        refused(&entry, expected);
    }
    for (settings, expected) in [
        (
            json!({"optimize": 7}),
            "optimize is 7: expected \"cost\" or \"upstream\"",
        ),
        (
            json!({"preferenceWorth": 0.02}),
            "preferenceWorth is 0.02: expected dollars per hour as text, such as \"0.005\"",
        ),
        (
            json!({"featureGates": {"nodeOverlay": "on"}}),
            "featureGates.nodeOverlay is \"on\": expected true or false",
        ),
        (
            json!({"enableZonalShift": "yes"}),
            "enableZonalShift is \"yes\": expected true or false",
        ),
        (
            json!({"legacyNodeRepair": "yes"}),
            "legacyNodeRepair is \"yes\": expected true or false",
        ),
        (
            json!({"schedulerConfig": {"profiles": []}}),
            "schedulerConfig.profiles: unknown field `profiles`, expected `podTopologySpread`",
        ),
        (
            json!({"launchTimeout": "30s"}),
            "launchTimeout is \"30s\": expected a duration of at least three minutes, such as \"5m\"",
        ),
        (
            json!({"nodeTerminationHandler": {"dryrun": true}}),
            "nodeTerminationHandler.dryrun is true: expected one of the options that docs/node-termination-handler.md lists",
        ),
        (
            json!({"nodeTerminationHandler": {"checkTagBeforeDraining": false}}),
            "nodeTerminationHandler.checkTagBeforeDraining is false: expected true: nodes of groups are opted in one by one",
        ),
        (
            json!({"nodeTerminationHandler": {"taintEffect": "Never"}}),
            "nodeTerminationHandler.taintEffect is \"Never\": expected NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            json!({"guards": {"dollarsPerHour": 12.5}}),
            "guards.dollarsPerHour is 12.5: expected dollars as text, such as \"12.50\"",
        ),
        (
            json!({"guards": {"nodes": -1}}),
            "guards.nodes is -1: expected a number of nodes",
        ),
        (
            json!({"guards": {"evictionsPerHour": "many"}}),
            "guards.evictionsPerHour is \"many\": expected a number of pods",
        ),
        (
            json!({"guards": {"terminationsPerHour": "many"}}),
            "guards.terminationsPerHour is \"many\": expected a number of nodes",
        ),
        (
            json!({"guards": {"approveAbove": {"pods": 1}}}),
            "guards.approveAbove.pods is 1: expected one of the guards that docs/operations.md lists",
        ),
        (
            json!({"guards": {"node": 1}}),
            "guards.node is 1: expected one of the guards that docs/operations.md lists",
        ),
    ] {
        refused(
            &json!({ "settings": settings }),
            &format!("settings.{expected}"),
        );
    }
}
