//! Validation of proposals after fifteen seconds (docs/spec/lifecycle.md#validation).

use model::ledger::{self, Choice, CommandState};

use super::*;

/// First command of a world as a proposal.
pub(super) fn proposal(cluster: &TestCluster) -> ledger::Command {
    let command = disrupt(&cluster.0).commands.remove(0);
    let types = command.replacements.iter();
    let mut types = types.map(|launch| launch.instance_types.clone());
    ledger::Command {
        reboot: None,
        id: "p".to_owned(),
        reason: command.reason.as_str().to_owned(),
        delete: command.delete,
        replacements: Vec::new(),
        state: CommandState::Proposed,
        committed_at: cluster.0.now,
        choice: Some(Choice {
            method: command.method,
            validate_at: None,
            instance_types: types.next().unwrap_or_default(),
            others: types.collect(),
            wanted: command.wanted.clone(),
            evicts: std::collections::BTreeMap::new(),
            repair: None,
            terminate_first: false,
            freed: None,
        }),
        initialized: Vec::new(),
    }
}

/// Validates the first command of a world after a change.
fn after(
    cluster: TestCluster,
    change: impl FnOnce(&mut Snapshot),
) -> Result<(Vec<String>, usize), &'static str> {
    let proposal = proposal(&cluster);
    let cluster = cluster.with(|snapshot| snapshot.commands.push(proposal.clone()));
    let cluster = cluster.with(change);
    let left = validate(&cluster.0, &proposal);
    left.map(|command| (command.nodes, command.replacements.len()))
        .map_err(|rejection| rejection.class)
}

fn oversized() -> TestCluster {
    TestCluster::new().node("n", "large", &[1_500])
}

#[test]
fn unchanged_proposal_is_valid() {
    assert_eq!(after(oversized(), |_| {}), Ok((vec!["n".into()], 1)));
}

#[test]
fn node_that_is_no_longer_a_candidate_is_rejected_as_churn() {
    let result = after(oversized(), |snapshot| {
        let claim = &mut snapshot.node_claims[0];
        claim
            .status
            .conditions
            .retain(|condition| condition.kind != CONSOLIDATABLE);
    });
    assert_eq!(result, Err("churn"));
    let result = after(oversized(), |snapshot| {
        snapshot.node_claims[0].uid = "another".into();
    });
    assert_eq!(result, Err("churn"), "one of the same name");
}

#[test]
fn reduced_budget_is_rejected_as_budget() {
    let result = after(oversized(), |snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![budget("0")];
    });
    assert_eq!(result, Err("budget"));
}

#[test]
fn larger_replacement_is_rejected_as_scheduling() {
    let result = after(oversized(), |snapshot| {
        snapshot.pods.push(pod("more", 3_000, "n"));
    });
    assert_eq!(result, Err("scheduling"));
}

#[test]
fn unneeded_replacement_is_rejected_as_scheduling() {
    let proposal = proposal(&oversized());
    let cluster = oversized().node("room", "medium", &[100]);
    let rejected = validate(&cluster.0, &proposal).map(|_| ()).unwrap_err();
    assert_eq!(rejected.class, "scheduling", "{rejected:?}");
}

#[test]
fn empty_nodes_within_budgets_remain_valid_by_price() {
    let empty = || {
        TestCluster::new()
            .node("a", "small", &[])
            .node("b", "medium", &[])
            .node("c", "large", &[])
    };
    let result = after(empty(), |snapshot| {
        snapshot.pods.push(pod("late", 100, "c"));
        snapshot.node_pools[0].disruption.budgets = vec![budget("1")];
    });
    assert_eq!(result, Ok((vec!["b".into()], 0)));
    let result = after(empty(), |snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![budget("0")];
    });
    assert_eq!(result, Err("budget"));
    let result = after(empty(), |snapshot| {
        snapshot.pods = ["a", "b", "c"].map(|node| pod(node, 100, node)).to_vec();
    });
    assert_eq!(result, Err("churn"));
}

#[test]
fn empty_node_expected_by_other_pods_is_dropped() {
    let cluster = TestCluster::new()
        .node("leaving", "small", &[1_500])
        .node("new", "small", &[])
        .node("spare", "small", &[]);
    let result = after(cluster, |snapshot| {
        snapshot.settings.optimize = Optimize::Cost;
        snapshot.node_claims[0].deleted_at = Some(snapshot.now);
    });
    assert_eq!(result.map(|(nodes, _)| nodes.len()), Ok(1));
}

#[test]
fn empty_node_no_longer_consolidatable_is_rejected_as_churn() {
    let result = after(TestCluster::new().node("n", "small", &[]), |snapshot| {
        snapshot.node_claims[0].status.conditions.pop();
    });
    assert_eq!(result, Err("churn"));
}

#[test]
fn new_replacement_is_rejected_as_scheduling() {
    let cluster = || {
        TestCluster::new()
            .node("n", "large", &[1_500])
            .node("room", "small", &[100])
            .with(|snapshot| {
                let kept = snapshot.pods.last_mut().unwrap();
                let annotation = (DO_NOT_DISRUPT.to_owned(), "true".to_owned());
                kept.annotations.extend([annotation]);
            })
    };
    assert_eq!(after(cluster(), |_| {}), Ok((vec!["n".into()], 0)));
    let result = after(cluster(), |snapshot| {
        snapshot.pods.push(pod("more", 1_900, "room"));
    });
    assert_eq!(result, Err("scheduling"));
}

#[test]
fn different_number_of_replacements_is_rejected_as_scheduling() {
    let cluster = oversized();
    let mut proposal = proposal(&cluster);
    let choice = proposal.choice.as_mut().unwrap();
    choice.others = vec![choice.instance_types.clone()];
    let rejected = validate(&cluster.0, &proposal).unwrap_err();
    assert_eq!(rejected.class, "scheduling");
    assert!(
        rejected.message.contains("different number"),
        "{rejected:?}"
    );
}

/// Removing all but one of the nodes is the better move.
#[test]
fn several_nodes_are_not_replaced_by_their_own_instance_type() {
    let cluster = TestCluster::new()
        .node("a", "medium", &[1_900])
        .node("b", "medium", &[1_900]);
    let mut proposal = proposal(&cluster);
    let targets = cluster.0.node_claims.iter();
    proposal.delete = targets.map(crate::lifecycle::target).collect();
    let choice = proposal.choice.as_mut().unwrap();
    choice.method = Method::MultiNode;
    choice.instance_types = vec!["medium".into()];
    let rejected = validate(&cluster.0, &proposal).unwrap_err();
    assert_eq!(
        rejected.message,
        "no cheaper replacement is available any more"
    );
}
