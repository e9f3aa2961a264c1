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
    let bad = serde_json::json!({"settings": {"featureGates": {"nodeOverlay": "on"}}});
    assert_eq!(
        Entry::read(&bad).unwrap_err().to_string(),
        "settings.featureGates.nodeOverlay is \"on\": expected true or false"
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
