//! The edges of what time is left.

use super::*;

fn decide(snapshot: &Snapshot) -> Vec<(String, &'static str, Option<i64>)> {
    asked_and_forced(&terminate(snapshot, &InstanceStatuses::default()))
}

#[test]
fn a_pod_that_needs_just_the_time_left_has_its_own_grace_period() {
    let mut snapshot = world(draining(), vec![with_grace(pod("web"), 30)]);
    // 5 s are for the kubelet's last words.
    noticed(&mut snapshot, 35, 1);
    assert_eq!(decide(&snapshot), [("web".into(), "asked", None)]);
    noticed(&mut snapshot, 34, 2);
    assert_eq!(decide(&snapshot), [("web".into(), "asked", Some(29))]);
}

#[test]
fn an_announcement_counts_for_its_instance_while_it_is_open_and_not_long_past() {
    let mut snapshot = world(draining(), vec![held(pod("job"))]);
    noticed(&mut snapshot, 20, 100);
    let forced = [("job".into(), "forced", Some(15))];
    assert_eq!(decide(&snapshot), forced);
    let with = |change: fn(&mut model::ledger::Notice)| {
        let mut snapshot = snapshot.clone();
        change(&mut snapshot.notices[0]);
        decide(&snapshot)
    };
    assert_eq!(with(|notice| notice.done = true), []);
    assert_eq!(with(|notice| notice.instance = "i-other".into()), []);
    noticed(&mut snapshot, -120, 240);
    assert_eq!(decide(&snapshot), [("job".into(), "forced", Some(1))]);
}

#[test]
fn what_is_due_now_is_not_waited_for() {
    let mut critical = pod("dns");
    critical.critical = true;
    let mut snapshot = world(draining(), vec![critical, with_grace(held(pod("job")), 5)]);
    noticed(&mut snapshot, 45, 71);
    let due = terminate(&snapshot, &InstanceStatuses::default()).due;
    let soon = test_world::now() + SignedDuration::from_secs(5);
    assert_eq!(due, Some(soon));
}

#[test]
fn a_node_is_trusted_as_soon_as_it_has_been_empty_for_five_seconds() {
    for (millis, is_trusted) in [(4_999, false), (5_000, true)] {
        let (mut claim, node) = draining();
        let draining = claim.status.conditions.last_mut().unwrap();
        draining.last_transition = test_world::now() - SignedDuration::from_millis(millis);
        let decision = terminate(
            &world((claim, node), Vec::new()),
            &InstanceStatuses::default(),
        );
        assert_eq!(terminates(&decision), is_trusted, "{millis} ms");
    }
}

#[test]
fn a_pod_on_its_way_out_is_hurried_only_if_it_would_outlive_the_deadline() {
    for (seconds, expected) in [
        (60, vec![]),
        (61, vec![("web".to_owned(), "forced", Some(60))]),
    ] {
        let (mut claim, node) = draining();
        claim.spec.termination_grace_period = Some("60s".to_owned());
        let mut leaving = pod("web");
        leaving.deletion = Some(model::pod::Deletion {
            at: test_world::now() + SignedDuration::from_secs(seconds),
            grace_seconds: seconds,
        });
        assert_eq!(decide(&world((claim, node), vec![leaving])), expected);
    }
}
