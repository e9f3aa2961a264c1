//! What keeps a pod away that does not tolerate it.

use model::taint::TaintEffect;

use super::Tolerance;
use crate::test_cluster::{taint, toleration};

#[test]
fn a_pod_that_gave_up_its_dislike_minds_only_what_forbids() {
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
