//! What changes in the seconds that a command waits until it binds.

use super::*;

/// The last node is to go, and its pod may be moved in ten seconds, or in a hundred.
fn last_leaves(snapshot: &mut Snapshot, moves: bool) {
    snapshot.node_claims.last_mut().unwrap().deleted_at = Some(snapshot.now);
    let pod = snapshot.pods.last_mut().unwrap();
    let annotation = (DO_NOT_DISRUPT.to_owned(), "10m".to_owned());
    pod.annotations.extend([annotation]);
    let ago = SignedDuration::from_secs(if moves { 590 } else { 500 });
    pod.started_at = Some(snapshot.now - ago);
}

#[test]
fn what_takes_a_room_while_a_command_waits_holds_it_back() {
    // What leaves takes what is left.
    let world = |moves: bool| {
        World::new()
            .node("a", "small", &[500])
            .node("b", "small", &[1_400])
            .node("leaving", "small", &[550])
            .with(|snapshot| last_leaves(snapshot, moves))
            .removes()
    };
    assert_eq!(world(false), ["a"]);
    assert!(world(true).is_empty());
}

#[test]
fn so_does_what_needs_a_larger_replacement_than_was_planned() {
    let world = |moves: bool| {
        World::new()
            .node("n", "large", &[1_500])
            .node("leaving", "small", &[1_000])
            .with(|snapshot| last_leaves(snapshot, moves))
            .removes()
    };
    assert_eq!(world(false), ["n"]);
    assert!(world(true).is_empty());
}

#[test]
fn a_budget_that_closes_while_a_command_waits_holds_back_what_consolidates() {
    let at = |now: &str| {
        let now = now.parse().unwrap();
        World::new()
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
