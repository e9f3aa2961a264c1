//! Changes between the decision on a command and its validation.

use super::*;

/// Marks the last node as leaving. Its pod may be moved after ten seconds, or after a hundred.
fn last_leaves(snapshot: &mut Snapshot, moves: bool) {
    snapshot.node_claims.last_mut().unwrap().deleted_at = Some(snapshot.now);
    let pod = snapshot.pods.last_mut().unwrap();
    let annotation = (DO_NOT_DISRUPT.to_owned(), "10m".to_owned());
    pod.annotations.extend([annotation]);
    let ago = SignedDuration::from_secs(if moves { 590 } else { 500 });
    pod.started_at = Some(snapshot.now - ago);
}

#[test]
fn capacity_taken_before_validation_blocks_the_command() {
    // Pods of the leaving node take the remaining capacity.
    let cluster = |moves: bool| {
        TestCluster::new()
            .node("a", "small", &[500])
            .node("b", "small", &[1_400])
            .node("leaving", "small", &[550])
            .with(|snapshot| last_leaves(snapshot, moves))
            .removes()
    };
    assert_eq!(cluster(false), ["a"]);
    assert!(cluster(true).is_empty());
}

#[test]
fn need_for_a_larger_replacement_blocks_the_command() {
    let cluster = |moves: bool| {
        TestCluster::new()
            .node("n", "large", &[1_500])
            .node("leaving", "small", &[1_000])
            .with(|snapshot| last_leaves(snapshot, moves))
            .removes()
    };
    assert_eq!(cluster(false), ["n"]);
    assert!(cluster(true).is_empty());
}

#[test]
fn budget_that_closes_before_validation_blocks_consolidation() {
    let at = |now: &str| {
        let now = now.parse().unwrap();
        TestCluster::new()
            .node("n", "large", &[1_500])
            .with(|snapshot| {
                snapshot.now = now;
                snapshot.node_pools[0].disruption.budgets = vec![Budget {
                    schedule: Some("0 0 * * *".into()),
                    duration: Some("1h".into()),
                    ..budget("0")
                }];
            })
            .removes()
    };
    assert_eq!(at("2026-01-01T23:59:40Z"), ["n"]);
    assert!(at("2026-01-01T23:59:50Z").is_empty());
}
