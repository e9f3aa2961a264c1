use model::node::{ConditionStatus, NodeCondition, Ready};

use super::*;
use crate::fixtures::{self, claim, now};

fn minutes_ago(minutes: i64) -> Option<Timestamp> {
    Some(now() - SignedDuration::from_mins(minutes))
}

/// Verdict on the first of these nodes. The first `unhealthy` ones are not ready for an hour.
fn verdict(nodes: usize, unhealthy: usize, change: impl Fn(&mut Snapshot)) -> String {
    let mut snapshot = fixtures::snapshot();
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert("NodeRepair".to_owned(), true);
    snapshot.settings.legacy_node_repair = true;
    for at in 0..nodes {
        let claim = claim(&format!("c-{at}"), &[]);
        let mut node = fixtures::node(&format!("n-{at}"), &claim);
        if at < unhealthy {
            node.ready = Ready {
                status: ConditionStatus::False,
                since: minutes_ago(60),
            };
        }
        snapshot.nodes.push(node);
        snapshot.node_claims.push(claim);
    }
    change(&mut snapshot);
    let forced_repair = ForcedRepair::new(&snapshot);
    match forced_repair.judge(&snapshot.node_claims[0], &snapshot.nodes[0], now()) {
        Verdict::Well => "well".to_owned(),
        Verdict::At(at) => format!("in {} minutes", at.duration_since(now()).as_mins()),
        Verdict::Blocked(notes, again) => {
            let again = again.duration_since(now()).as_mins();
            format!("{}, again in {again} minutes", notes[0].message)
        }
        Verdict::Due(condition) => format!("due for {condition}"),
    }
}

#[test]
fn node_is_due_after_its_toleration() {
    assert_eq!(verdict(1, 1, |_| {}), "due for Ready");
    assert_eq!(verdict(1, 0, |_| {}), "well");
    assert_eq!(verdict(1, 1, |w| w.settings.feature_gates.clear()), "well");
    let voluntary = |w: &mut Snapshot| w.settings.legacy_node_repair = false;
    assert_eq!(verdict(1, 1, voluntary), "well");
    let refused = |w: &mut Snapshot| {
        let annotations = &mut w.nodes[0].annotations;
        annotations.insert("karpenter.sh/do-not-repair".to_owned(), "true".to_owned());
    };
    assert_eq!(
        verdict(1, 1, refused),
        "due for Ready",
        "the annotation is not for this mode"
    );
    assert_eq!(
        verdict(1, 1, |w| w.nodes[0].ready.since = minutes_ago(30)),
        "due for Ready"
    );
    assert_eq!(
        verdict(1, 1, |w| w.nodes[0].ready.since = minutes_ago(10)),
        "in 20 minutes"
    );
    // The earliest condition counts.
    let accelerator = |w: &mut Snapshot| {
        w.nodes[0].ready.since = minutes_ago(10);
        w.nodes[0].conditions = vec![NodeCondition {
            kind: "AcceleratedHardwareReady".to_owned(),
            status: ConditionStatus::False,
            reason: "NvidiaXID79Error".to_owned(),
            since: minutes_ago(5),
        }];
    };
    assert_eq!(verdict(1, 1, accelerator), "in 5 minutes");
    let longer = |w: &mut Snapshot| {
        accelerator(w);
        w.nodes[0].conditions[0].since = minutes_ago(10);
    };
    let due = "due for AcceleratedHardwareReady";
    assert_eq!(verdict(1, 1, longer), due);
    let of_another_reason = |w: &mut Snapshot| {
        accelerator(w);
        w.nodes[0].conditions[0].reason = "Unheard".to_owned();
    };
    assert_eq!(verdict(1, 1, of_another_reason), "in 20 minutes");
    let unknown = |w: &mut Snapshot| {
        w.nodes[0].conditions = vec![NodeCondition {
            kind: "StorageReady".to_owned(),
            status: ConditionStatus::Unknown,
            reason: String::new(),
            since: minutes_ago(60),
        }];
    };
    assert_eq!(verdict(1, 0, unknown), "well");
}

#[test]
fn errors_repaired_by_reboot_fall_back_to_the_general_policy() {
    let failing = |minutes: i64, reboots: bool| {
        verdict(1, 0, |w| {
            let gates = &mut w.settings.feature_gates;
            gates.insert("RebootForRepair".to_owned(), reboots);
            w.nodes[0].conditions = vec![NodeCondition {
                kind: "AcceleratedHardwareReady".to_owned(),
                status: ConditionStatus::False,
                reason: "NvidiaXID46Error".to_owned(),
                since: minutes_ago(minutes),
            }];
        })
    };
    let due = "due for AcceleratedHardwareReady";
    assert_eq!(failing(11, false), due);
    assert_eq!(failing(11, true), "in 19 minutes");
    assert_eq!(failing(31, true), due);
}

#[test]
fn forced_repair_stops_above_a_fifth_of_unhealthy_nodes_rounded_up() {
    assert_eq!(verdict(5, 1, |_| {}), "due for Ready");
    assert_eq!(verdict(6, 2, |_| {}), "due for Ready");
    let blocked = "more than 20% nodes are unhealthy in the nodepool, again in 5 minutes";
    assert_eq!(verdict(5, 2, |_| {}), blocked);
    // Nodes whose condition is still tolerated count, too.
    let tolerated = |w: &mut Snapshot| w.nodes[1].ready.since = minutes_ago(1);
    assert_eq!(verdict(5, 2, tolerated), blocked);
    // Nodes of another NodePool do not count.
    let elsewhere = |w: &mut Snapshot| {
        w.nodes[1]
            .labels
            .insert(NODE_POOL.to_owned(), "other".to_owned());
    };
    assert_eq!(verdict(5, 2, elsewhere), "due for Ready");
    let of_no_pool = |w: &mut Snapshot| {
        w.node_claims[0].labels.remove(NODE_POOL);
    };
    assert_eq!(
        verdict(5, 2, of_no_pool),
        "more then 20% nodes are unhealthy in the cluster, again in 5 minutes"
    );
}

#[test]
fn forced_deletion_is_allowed_from_now_on() {
    let hastened = |written: Option<&str>| {
        let mut claim = claim("a", &[]);
        let of = written.map(|at| (TERMINATION_TIMESTAMP.to_owned(), at.to_owned()));
        claim.annotations.extend(of);
        let update = allow_forced_deletion(&claim, now())?;
        assert_eq!(update.resource_version, "", "its deletion changes it");
        update.set_annotations.get(TERMINATION_TIMESTAMP).cloned()
    };
    let from_now = Some("2026-01-01T00:00:00Z".to_owned());
    assert_eq!(hastened(None), from_now);
    assert_eq!(hastened(Some("2026-01-01T00:00:01Z")), from_now);
    assert_eq!(hastened(Some("soon")), from_now);
    assert_eq!(hastened(Some("2026-01-01T00:00:00Z")), None);
    assert_eq!(hastened(Some("2025-12-31T00:00:00Z")), None);
}
