//! Taints that keep pods away.

use model::taint::TaintEffect;

use super::Tolerance;
use crate::test_cluster::{taint, toleration};

#[test]
fn relaxed_pod_tolerates_prefer_no_schedule_only() {
    let (soft, hard) = (
        taint(TaintEffect::PreferNoSchedule),
        taint(TaintEffect::NoSchedule),
    );
    let mut tolerance = Tolerance::default();
    let both = tolerance.taints(vec![&soft, &hard]);
    let of_soft = tolerance.taints(vec![&soft]);
    let (strict, lenient) = (
        tolerance.tolerations(&[], false),
        tolerance.tolerations(&[], true),
    );
    assert_eq!(tolerance.intolerable(strict, both), Some(&soft));
    assert_eq!(tolerance.intolerable(lenient, both), Some(&hard));
    assert!(!tolerance.tolerates(strict, of_soft));
    assert!(tolerance.tolerates(lenient, of_soft));
    let all = [toleration()];
    let all = tolerance.tolerations(&all, false);
    assert_eq!(tolerance.intolerable(all, both), None);
}
