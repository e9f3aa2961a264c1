//! The simulation finds bugs: each rule of PROTOCOL that is switched off here breaks a law within sixty seeds.

use simulation::{Bug, run};

const SEEDS: u64 = 60;

fn found(bugs: &[Bug]) {
    for bug in bugs {
        let broken = (0..SEEDS).any(|seed| run(seed, Some(*bug)).is_err());
        assert!(broken, "{bug:?} goes unnoticed for {SEEDS} seeds");
    }
}

#[test]
fn in_lanes_and_commits() {
    found(&[
        Bug::IgnoreLease,
        Bug::NeverSweep,
        Bug::ForgetInFlight,
        Bug::NeverReread,
        Bug::IgnoreLeader,
        Bug::IgnorePauses,
        Bug::ActForWatchedPools,
        Bug::NoJournal,
    ]);
}

#[test]
fn in_launching() {
    found(&[
        Bug::NeverFreeze,
        Bug::ForgetTag,
        Bug::NeverOwn,
        Bug::IgnoreLimits,
    ]);
}

#[test]
fn in_collecting() {
    found(&[
        Bug::ReleaseEarly,
        Bug::NeverCollect,
        Bug::NeverClose,
        Bug::NeverForget,
        Bug::NoBrake,
        Bug::TerminateNeighbour,
    ]);
}

#[test]
fn in_disrupting_and_draining() {
    found(&[
        Bug::DeleteBeforeReplaced,
        Bug::NoPreconditions,
        Bug::IgnoreBudgets,
        Bug::IgnoreDoNotDisrupt,
        Bug::DeleteForEvict,
        Bug::NeverDrain,
        Bug::NeverFinishNotices,
    ]);
}
