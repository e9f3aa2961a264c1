//! Disruption taint and condition of nodes.

use api::conditions::types::DISRUPTION_REASON;
use model::{
    Action, Snapshot,
    ledger::{CommandState, Method, Notice},
    taint::{Taint, TaintEffect},
};

use super::judging::{apply_marks, step, words, world};
use crate::orchestration::{advance, forgotten_marks};

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: String::new(),
        effect,
    }
}

#[test]
fn taints_of_others_are_kept() {
    let mut snapshot = world(Method::SingleNode);
    let disrupted = "karpenter.sh/disrupted";
    snapshot.nodes[0].taints = vec![
        taint("gpu", TaintEffect::NoSchedule),
        taint(disrupted, TaintEffect::NoExecute),
    ];
    let (_, actions, _) = step(&snapshot);
    assert_eq!(actions[0], "node a [\"gpu\", \"karpenter.sh/disrupted\"]");
    let actions = advance(&snapshot).remove(0).1.actions;
    let Action::UpdateNode(update) = &actions[0].action else {
        panic!("{actions:?}")
    };
    assert_eq!(update.resource_version, "1", "of the node that was read");
    apply_marks(&mut snapshot);
    let effects = snapshot.nodes[0].taints.iter().map(|taint| taint.effect);
    assert_eq!(effects.collect::<Vec<_>>(), [TaintEffect::NoSchedule; 2]);
    snapshot.commands[0].state = CommandState::RolledBack;
    assert_eq!(words(&forgotten_marks(&snapshot))[0], "node a [\"gpu\"]");
}

/// The taint keeps new pods away, and the condition other commands.
#[test]
fn deletion_requires_taint_and_condition() {
    let mut marked = world(Method::SingleNode);
    apply_marks(&mut marked);
    assert_eq!(step(&marked).0, CommandState::Deleting);
    let mut untainted = marked.clone();
    untainted.nodes[0].taints.clear();
    let (state, actions, _) = step(&untainted);
    assert_eq!(state, CommandState::Replacing);
    assert_eq!(actions, ["node a [\"karpenter.sh/disrupted\"]"]);
    let mut unsaid = marked;
    let conditions = &mut unsaid.node_claims[0].status.conditions;
    conditions.retain(|condition| condition.kind != DISRUPTION_REASON);
    let (state, actions, _) = step(&unsaid);
    assert_eq!(state, CommandState::Replacing);
    assert_eq!(actions, ["claim a-claim [\"Underutilized\"] []"]);
}

#[test]
fn existing_disruption_reason_is_kept() {
    let mut snapshot = world(Method::SingleNode);
    apply_marks(&mut snapshot);
    snapshot.nodes[0].taints.clear();
    snapshot.commands[0].reason = "Drifted".to_owned();
    assert_eq!(step(&snapshot).1, ["node a [\"karpenter.sh/disrupted\"]"]);
}

fn forgotten() -> Snapshot {
    let mut snapshot = world(Method::SingleNode);
    apply_marks(&mut snapshot);
    snapshot.commands.clear();
    snapshot
}

#[test]
fn marks_of_an_interrupted_node_stay_while_its_notice_is_open() {
    let mut snapshot = forgotten();
    let notice = |instance: &str, done| Notice {
        instance: instance.into(),
        kind: "spot_interrupted".to_owned(),
        deadline: None,
        at: None,
        action: model::interruption::InterruptionAction::Drain,
        unmanaged: false,
        hook: None,
        event: String::new(),
        reboots: false,
        done,
    };
    for (instance, done, stay) in [
        ("i-a-claim", false, true),
        ("i-a-claim", true, false),
        ("i-other", false, false),
    ] {
        snapshot.notices = vec![notice(instance, done)];
        assert_eq!(
            forgotten_marks(&snapshot).is_empty(),
            stay,
            "{instance} {done}"
        );
    }
}

#[test]
fn marks_of_a_node_being_deleted_are_kept() {
    let mut snapshot = forgotten();
    assert_eq!(forgotten_marks(&snapshot).len(), 2);
    snapshot.nodes[0].deleted_at = Some(snapshot.now);
    assert_eq!(forgotten_marks(&snapshot), []);
}
