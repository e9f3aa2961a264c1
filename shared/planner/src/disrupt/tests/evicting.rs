//! Caps on evictions per hour, of the cluster and of a NodePool.

use model::{
    caps::Caps,
    ledger::{self, Choice, CommandState},
};

use super::*;

/// Two drifted nodes, with two pods and with one.
fn drifted() -> TestCluster {
    TestCluster::new()
        .node("a", "large", &[100, 100])
        .node("b", "large", &[100])
        .with(|snapshot| drift(snapshot, "a-claim", 20))
        .with(|snapshot| drift(snapshot, "b-claim", 10))
}

/// Adds a command that was committed this many minutes ago and evicts this many pods.
fn chosen(state: CommandState, minutes_ago: i64, pods: u32) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        snapshot.commands.push(ledger::Command {
            id: format!("chosen-{minutes_ago}"),
            state,
            committed_at: snapshot.now - SignedDuration::from_mins(minutes_ago),
            choice: Some(Choice {
                method: Method::Drift,
                validate_at: None,
                instance_types: Vec::new(),
                others: Vec::new(),
                wanted: Vec::new(),
                evicts: [("default".into(), pods)].into(),
                repair: None,
                terminate_first: false,
                freed: None,
            }),
            ..ledger::Command::default()
        });
    }
}

fn capped(most: u32) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| snapshot.caps.evictions = Some(most)
}

#[test]
fn node_is_removed_only_if_the_eviction_cap_covers_all_its_pods() {
    let removes = |cluster: TestCluster| cluster.removes();
    assert_eq!(removes(drifted()), ["a"], "the one that drifted first");
    assert_eq!(removes(drifted().with(capped(2))), ["a"]);
    assert_eq!(removes(drifted().with(capped(1))), ["b"]);
    let before = |state, minutes| drifted().with(capped(3)).with(chosen(state, minutes, 2));
    assert_eq!(removes(before(CommandState::Done, 59)), ["b"]);
    assert_eq!(removes(before(CommandState::Deleting, 1)), ["b"]);
    assert_eq!(removes(before(CommandState::Done, 60)), ["a"], "long ago");
    assert_eq!(removes(before(CommandState::RolledBack, 1)), ["a"]);
    assert_eq!(removes(before(CommandState::Proposed, 1)), ["a"]);
}

#[test]
fn node_pool_may_have_its_own_eviction_cap() {
    let cluster = drifted().with(|snapshot| {
        let annotations = &mut snapshot.node_pools[0].annotations;
        annotations.insert(Caps::EVICTIONS_ANNOTATION.to_owned(), "1".to_owned());
    });
    assert_eq!(cluster.removes(), ["b"]);
}

#[test]
fn command_records_its_evictions() {
    let command = disrupt(&drifted().0).commands.remove(0);
    assert_eq!(command.evicts, [("default".into(), 2)].into());
    let empty = disrupt(&TestCluster::new().node("n", "small", &[]).0);
    assert_eq!(empty.commands[0].evicts, BTreeMap::new());
}

#[test]
fn merged_nodes_stay_within_the_eviction_cap_together() {
    let three = || {
        TestCluster::new()
            .node("a", "small", &[100])
            .node("b", "small", &[100])
            .node("c", "small", &[100])
    };
    assert!(three().removes().len() > 1);
    assert_eq!(three().with(capped(1)).removes().len(), 1);
    assert_eq!(three().with(capped(0)).removes(), Vec::<String>::new());
    let empty = TestCluster::new().node("n", "small", &[]).with(capped(0));
    assert_eq!(empty.removes(), ["n"], "it evicts no pod");
}

#[test]
fn proposal_beyond_the_eviction_cap_is_rejected_as_budget() {
    let cluster = TestCluster::new().node("n", "large", &[1_500]);
    let proposal = validating::proposal(&cluster);
    let rejection = validate(&cluster.with(capped(0)).0, &proposal).unwrap_err();
    assert_eq!(rejection.class, "budget");
}

#[test]
fn evictions_that_reach_the_cap_exactly_are_allowed() {
    let reported = |cluster: TestCluster| disrupt(&cluster.0).exhausted.len();
    assert_eq!(reported(drifted().with(capped(2))), 0);
    assert_eq!(reported(drifted().with(capped(1))), 1);
    let idle = TestCluster::new().node("n", "small", &[]).with(capped(0));
    assert_eq!(reported(idle), 0, "it evicts no pod");
}

#[test]
fn message_names_the_cap_its_use_and_the_next_check() {
    let cluster = drifted()
        .with(capped(2))
        .with(chosen(CommandState::Done, 20, 2));
    let result = disrupt(&cluster.0);
    assert!(result.commands.is_empty());
    let opens = cluster.0.now + SignedDuration::from_mins(40);
    assert_eq!(result.due, Some(opens));
    let reported: Vec<String> = result
        .exhausted
        .into_iter()
        .map(|(_, reported)| reported)
        .collect();
    let expected = format!(
        "Evictions in the cluster are capped at 2 an hour, and 2 were decided within the last hour: a node with more than 0 pods to evict waits until {opens:.0}"
    );
    assert_eq!(reported, [expected]);
    let never = disrupt(&drifted().with(capped(1)).0).exhausted;
    let mut never = never.into_iter().map(|(_, reported)| reported);
    assert!(never.any(|reported| {
        reported.contains("node a has 2 pods to evict: it waits until the cap is raised")
    }));
}
