//! What two hundred seeds and a wave decide breaks no law, and the cluster comes to rest. `make sim` runs others.

use simulation::{run, shrink};

/// So many seeds from this one on; what breaks a law is cut down to what matters.
fn hold(first: u64, count: u64) {
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
    hold(0, 25);
}

#[test]
fn laws_hold_from_25() {
    hold(25, 25);
}

#[test]
fn laws_hold_from_50() {
    hold(50, 25);
}

#[test]
fn laws_hold_from_75() {
    hold(75, 25);
}

#[test]
fn laws_hold_from_100() {
    hold(100, 25);
}

#[test]
fn laws_hold_from_125() {
    hold(125, 25);
}

#[test]
fn laws_hold_from_150() {
    hold(150, 25);
}

#[test]
fn laws_hold_from_175() {
    hold(175, 25);
}

/// The first seed in which hundreds of nodes come and go at once.
#[test]
fn laws_hold_through_a_wave() {
    hold(345, 1);
}

#[test]
fn a_seed_decides_everything() {
    let twice =
        [run(11, None), run(11, None)].map(|played| played.map_err(|failure| failure.broken));
    assert!(twice[0].is_ok());
    assert_eq!(twice[0], twice[1]);
}
