//! Bounds of drains that no policy of the table leaves out, so that no cluster shows them missing.

use super::*;
use crate::test_world;

#[test]
fn node_whose_pods_block_a_drain_without_bound_is_not_repaired() {
    let told = "repair requires a termination grace period to bypass blocking pods";
    let message = |bound: Option<i64>, period: Option<&str>, blocks: bool| {
        let mut claim = test_world::claim("n", &[]);
        claim.spec.termination_grace_period = period.map(str::to_owned);
        unbounded(bound.map(SignedDuration::from_mins), &claim, || blocks)
    };
    assert_eq!(message(None, None, true), Some(told));
    assert_eq!(message(None, None, false), None, "no pod is in the way");
    assert_eq!(message(Some(10), None, true), None);
    assert_eq!(message(None, Some("1h"), true), None);
    assert_eq!(message(None, Some("soon"), true), Some(told));
}
