//! The simulation finds bugs: each planted bug breaks a law within a bounded number of seeds.

use simulation::{Bug, run};

/// Seeds tried per bug, from seed 0. Most bugs are found within five; each seed takes a fraction of a second.
const SEEDS: u64 = 60;
/// Seeds tried for bugs that matter only while two turns commit concurrently, while a budget is exhausted, or for one machine that fails
/// permanently: few seeds reach that.
const SEEDS_OF_RARE_BUGS: u64 = 300;

/// Groups of bugs. Each group is one test, and tests run in parallel.
#[derive(PartialEq)]
enum Group {
    Lanes,
    Commits,
    Pauses,
    Launching,
    Calls,
    Collecting,
    Disrupting,
    Draining,
    Gated,
}

/// Without a wildcard: a new bug does not compile until it belongs to a test.
fn group(bug: Bug) -> Group {
    match bug {
        Bug::IgnoreLease
        | Bug::ForgetDue
        | Bug::SwallowFailures
        | Bug::AcknowledgeFirst
        | Bug::NeverSweep
        | Bug::NoJournal => Group::Lanes,
        Bug::ForgetInFlight
        | Bug::NoFence
        | Bug::ForgetIntents
        | Bug::ForgetNotices
        | Bug::NeverReread => Group::Commits,
        Bug::IgnoreMode | Bug::IgnoreLeader | Bug::IgnorePauses | Bug::ActForWatchedPools => {
            Group::Pauses
        }
        Bug::NeverFreeze | Bug::ForgetTag | Bug::NeverOwn | Bug::IgnoreLimits => Group::Launching,
        Bug::NewTokenEachTime | Bug::NeverResume | Bug::IgnoreMissingCapacity => Group::Calls,
        Bug::ReleaseEarly
        | Bug::NeverCollect
        | Bug::NeverClose
        | Bug::NeverForget
        | Bug::NoBrake
        | Bug::TerminateNeighbour => Group::Collecting,
        Bug::DeleteBeforeReplaced
        | Bug::NoPreconditions
        | Bug::IgnoreBudgets
        | Bug::IgnoreDoNotDisrupt => Group::Disrupting,
        Bug::NeverRepair
        | Bug::RepairTogether
        | Bug::MiscountReplicas
        | Bug::OvercommitReservations => Group::Gated,
        Bug::DeleteForEvict
        | Bug::DeleteWithinGracePeriod
        | Bug::EndWithinGracePeriod
        | Bug::NeverDrain
        | Bug::NeverFinishNotices => Group::Draining,
    }
}

fn seeds(bug: Bug) -> u64 {
    let is_rare = matches!(bug, Bug::NoFence | Bug::IgnoreBudgets | Bug::NeverRepair);
    if is_rare { SEEDS_OF_RARE_BUGS } else { SEEDS }
}

fn assert_found(of: Group) {
    let bugs = Bug::ALL.iter().filter(|bug| group(**bug) == of);
    let unnoticed = bugs.filter(|bug| (0..seeds(**bug)).all(|seed| run(seed, Some(**bug)).is_ok()));
    let unnoticed: Vec<_> = unnoticed.collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} break no law");
}

#[test]
fn bugs_in_lanes_are_found() {
    assert_found(Group::Lanes);
}

#[test]
fn bugs_in_commits_are_found() {
    assert_found(Group::Commits);
}

#[test]
fn bugs_in_pauses_and_modes_are_found() {
    assert_found(Group::Pauses);
}

#[test]
fn bugs_in_launching_are_found() {
    assert_found(Group::Launching);
}

#[test]
fn bugs_in_repeated_calls_are_found() {
    assert_found(Group::Calls);
}

#[test]
fn bugs_in_collecting_are_found() {
    assert_found(Group::Collecting);
}

#[test]
fn bugs_in_disrupting_are_found() {
    assert_found(Group::Disrupting);
}

#[test]
fn bugs_behind_gates_are_found() {
    assert_found(Group::Gated);
}

#[test]
fn bugs_in_draining_are_found() {
    assert_found(Group::Draining);
}
