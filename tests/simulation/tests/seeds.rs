//! Two hundred seeds and a burst break no law, and their clusters converge. `make sim` runs other seeds.

use simulation::{run, shrink};

/// Runs this many seeds; shrinks the first that breaks a law.
fn assert_laws_hold(first: u64, count: u64) {
    for seed in first..first + count {
        if let Err(failure) = run(seed, None) {
            panic!(
                "{}\nagain with: SIM_SEED={seed} make sim",
                shrink(failure, None)
            );
        }
    }
}

#[test]
fn laws_hold_from_0() {
    assert_laws_hold(0, 25);
}

#[test]
fn laws_hold_from_25() {
    assert_laws_hold(25, 25);
}

#[test]
fn laws_hold_from_50() {
    assert_laws_hold(50, 25);
}

#[test]
fn laws_hold_from_75() {
    assert_laws_hold(75, 25);
}

#[test]
fn laws_hold_from_100() {
    assert_laws_hold(100, 25);
}

#[test]
fn laws_hold_from_125() {
    assert_laws_hold(125, 25);
}

#[test]
fn laws_hold_from_150() {
    assert_laws_hold(150, 25);
}

#[test]
fn laws_hold_from_175() {
    assert_laws_hold(175, 25);
}

/// The first seed in which hundreds of nodes are created and removed at once.
#[test]
fn laws_hold_through_a_burst() {
    assert_laws_hold(345, 1);
}

#[test]
fn seed_determines_run() {
    let twice =
        [run(11, None), run(11, None)].map(|played| played.map_err(|failure| failure.broken));
    assert!(twice[0].is_ok());
    assert_eq!(twice[0], twice[1]);
}
