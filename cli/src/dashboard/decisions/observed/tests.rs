use serde_json::json;

use super::*;
use crate::cluster;

fn event(kind: &str, name: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": if reason == "InsufficientCapacityError" { "Warning" } else { "Normal" },
        "lastTimestamp": "2026-11-28T12:00:00Z",
        "involvedObject": {"kind": kind, "namespace": "default", "name": name},
        "reason": reason,
        "message": message,
    })
}

#[test]
fn launches_and_deletions_have_reasons_and_events_are_words() {
    let at = "2026-11-28T11:59:00Z".parse().ok();
    let mut snapshot = cluster::empty(
        "2026-11-28T12:00:00Z".parse().unwrap(),
        cluster::aws_settings(),
    );
    let mut claim = NodeClaim {
        name: "web-1".into(),
        created_at: at,
        ..NodeClaim::default()
    };
    for (key, value) in [
        (INSTANCE_TYPE, "m7g.large"),
        (CAPACITY_TYPE, "spot"),
        (ZONE, "us-east-1a"),
    ] {
        claim.labels.insert(key.to_owned(), value.to_owned());
    }
    let leaving = NodeClaim {
        name: "web-2".into(),
        deleted_at: at,
        ..NodeClaim::default()
    };
    snapshot.node_claims = vec![claim, leaving];
    let disrupting = "Disrupting NodeClaim: Underutilized/Delete";
    let events = [
        event(
            "Pod",
            "b",
            "Nominated",
            "Pod should schedule on: nodeclaim/web-1",
        ),
        event(
            "Pod",
            "a",
            "Nominated",
            "Pod should schedule on: nodeclaim/web-1, node/x",
        ),
        event("NodeClaim", "web-2", TERMINATING, disrupting),
        event("Node", "node-2", TERMINATING, disrupting),
        event("NodeClaim", "gone", TERMINATING, disrupting),
        event(
            "Node",
            "node-3",
            "Unconsolidatable",
            "cannot be replaced by a cheaper node",
        ),
        event(
            "NodeClaim",
            "web-4",
            "InsufficientCapacityError",
            "no spot capacity",
        ),
        event(
            "NodeClaim",
            "web-1",
            "Launched",
            "Status condition transitioned",
        ),
    ];
    let shown: Vec<String> = decisions(&snapshot, &events)
        .iter()
        .map(|decision| format!("{} {}: {}", decision.act, decision.subject, decision.why))
        .collect();
    assert_eq!(
        shown,
        [
            "launch web-1: m7g.large spot in us-east-1a; for default/a, default/b",
            "delete web-2: Underutilized/Delete",
            "delete gone: Underutilized/Delete",
            "keep node-3: cannot be replaced by a cheaper node",
            "launch failed web-4: no spot capacity",
        ]
    );
}
