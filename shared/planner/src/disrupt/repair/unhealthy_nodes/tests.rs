//! Unbounded drains. Every policy in the table has a bound, so no cluster-level test covers them.

use super::*;
use crate::fixtures;

#[test]
fn node_with_blocking_pods_and_unbounded_drain_is_not_repaired() {
    let reported = "repair requires a termination grace period to bypass blocking pods";
    let message = |bound: Option<i64>, period: Option<&str>, blocks: bool| {
        let mut claim = fixtures::claim("n", &[]);
        claim.spec.termination_grace_period = period.map(str::to_owned);
        unbounded_drain(bound.map(SignedDuration::from_mins), &claim, || blocks)
    };
    assert_eq!(message(None, None, true), Some(reported));
    assert_eq!(message(None, None, false), None, "no pod blocks the drain");
    assert_eq!(message(Some(10), None, true), None);
    assert_eq!(message(None, Some("1h"), true), None);
    assert_eq!(message(None, Some("soon"), true), Some(reported));
}
