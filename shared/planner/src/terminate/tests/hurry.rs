//! Boundary cases of the remaining time.

use super::*;

fn decide(snapshot: &Snapshot) -> Vec<(String, &'static str, Option<i64>)> {
    evicted_and_deleted(&terminate(snapshot, &InstanceStatuses::default()))
}

#[test]
fn pod_that_needs_exactly_the_remaining_time_keeps_its_grace_period() {
    let mut snapshot = world(draining(), vec![with_grace(pod("web"), 30)]);
    // 5 s are the margin for the kubelet.
    noticed(&mut snapshot, 35, 1);
    assert_eq!(decide(&snapshot), [("web".into(), "evict", None)]);
    noticed(&mut snapshot, 34, 2);
    assert_eq!(decide(&snapshot), [("web".into(), "evict", Some(29))]);
}

#[test]
fn open_notice_sets_a_deadline_unless_overdue() {
    let mut snapshot = world(draining(), vec![held(pod("job"))]);
    noticed(&mut snapshot, 20, 100);
    let forced = [("job".into(), "delete", Some(15))];
    assert_eq!(decide(&snapshot), forced);
    let with = |change: fn(&mut model::ledger::Notice)| {
        let mut snapshot = snapshot.clone();
        change(&mut snapshot.notices[0]);
        decide(&snapshot)
    };
    assert_eq!(with(|notice| notice.done = true), []);
    assert_eq!(with(|notice| notice.instance = "i-other".into()), []);
    noticed(&mut snapshot, -120, 240);
    assert_eq!(decide(&snapshot), [("job".into(), "delete", Some(1))]);
}

#[test]
fn due_evictions_are_not_delayed() {
    let mut critical = pod("dns");
    critical.critical = true;
    let mut snapshot = world(draining(), vec![critical, with_grace(held(pod("job")), 5)]);
    noticed(&mut snapshot, 45, 71);
    let due = terminate(&snapshot, &InstanceStatuses::default()).due;
    let soon = fixtures::now() + SignedDuration::from_secs(5);
    assert_eq!(due, Some(soon));
}

#[test]
fn drain_completes_exactly_after_five_seconds() {
    for (millis, is_trusted) in [(4_999, false), (5_000, true)] {
        let (mut claim, node) = draining();
        let draining = claim.status.conditions.last_mut().unwrap();
        draining.last_transition = fixtures::now() - SignedDuration::from_millis(millis);
        let decision = terminate(
            &world((claim, node), Vec::new()),
            &InstanceStatuses::default(),
        );
        assert_eq!(terminates(&decision), is_trusted, "{millis} ms");
    }
}

#[test]
fn terminating_pod_is_shortened_only_beyond_the_deadline() {
    for (seconds, expected) in [
        (60, vec![]),
        (61, vec![("web".to_owned(), "delete", Some(60))]),
    ] {
        let (mut claim, node) = draining();
        claim.spec.termination_grace_period = Some("60s".to_owned());
        let mut leaving = pod("web");
        leaving.deletion = Some(model::pod::Deletion {
            at: fixtures::now() + SignedDuration::from_secs(seconds),
            grace_seconds: seconds,
        });
        assert_eq!(decide(&world((claim, node), vec![leaving])), expected);
    }
}
