//! Observations about commands, from snapshots.

use api::{conditions::types::INITIALIZED, names::annotation::DO_NOT_DISRUPT};
use jiff::SignedDuration;
use model::{
    Action, Snapshot,
    ledger::{Choice, Command, CommandState, IntentState, Method, Pause, PauseLevel, PauseScope},
    node::ConditionStatus,
    plan::Planned,
};

use crate::{
    fixtures,
    lifecycle::target,
    orchestration::{advance, forgotten_marks},
};

/// A cluster of nodes `a` and `b`, and a command that replaces `a` by NodeClaim `new`.
pub(super) fn world(method: Method) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    for name in ["a", "b"] {
        let claim = fixtures::claim(&format!("{name}-claim"), &[INITIALIZED]);
        snapshot.nodes.push(fixtures::node(name, &claim));
        snapshot.node_claims.push(claim);
    }
    snapshot
        .node_claims
        .push(fixtures::claim("new", &[INITIALIZED]));
    snapshot.commands = vec![Command {
        reboot: None,
        id: "c".to_owned(),
        reason: "Underutilized".to_owned(),
        delete: vec![target(&snapshot.node_claims[0])],
        replacements: vec!["new".into()],
        state: CommandState::Replacing,
        committed_at: snapshot.now,
        choice: Some(Choice {
            method,
            validate_at: None,
            instance_types: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: std::collections::BTreeMap::new(),
            repair: None,
            terminate_first: false,
            freed: None,
        }),
        initialized: Vec::new(),
    }];
    snapshot
}

pub(super) fn step(snapshot: &Snapshot) -> (CommandState, Vec<String>, Vec<String>) {
    let all = advance(snapshot);
    let (_, one) = all.first().unwrap();
    (one.state, words(&one.actions), one.problems.clone())
}

pub(super) fn words(actions: &[Planned]) -> Vec<String> {
    let actions = actions.iter().map(|planned| match &planned.action {
        Action::UpdateNode(update) => {
            let taints = update.taints.iter().flatten();
            let taints: Vec<&str> = taints.map(|taint| taint.key.as_str()).collect();
            format!("node {} {taints:?}", update.name)
        }
        Action::UpdateNodeClaim(update) => {
            let set = update
                .conditions
                .iter()
                .map(|condition| condition.reason.as_str());
            let set: Vec<&str> = set.filter(|reason| *reason == "Underutilized").collect();
            format!(
                "claim {} {set:?} {:?}",
                update.name, update.clear_conditions
            )
        }
        Action::DeleteNodeClaim(target) => format!("delete {}", target.name),
        other @ (Action::Launch(_)
        | Action::Reboot(_)
        | Action::Evict { .. }
        | Action::DeletePod { .. }
        | Action::Terminate { .. }) => format!("{other}"),
    });
    actions.collect()
}

/// Applies updates of marks as the API server would.
pub(super) fn apply_marks(snapshot: &mut Snapshot) {
    let actions: Vec<Planned> = {
        let all = advance(snapshot);
        all.into_iter().flat_map(|(_, one)| one.actions).collect()
    };
    for planned in actions {
        match planned.action {
            Action::UpdateNode(update) => {
                let mut nodes = snapshot.nodes.iter_mut();
                let node = nodes.find(|node| node.name == update.name).unwrap();
                node.taints = update.taints.unwrap();
            }
            Action::UpdateNodeClaim(update) => {
                let mut claims = snapshot.node_claims.iter_mut();
                let claim = claims.find(|claim| claim.name == update.name).unwrap();
                claim.status.conditions.extend(update.conditions);
            }
            Action::Launch(_)
            | Action::Reboot(_)
            | Action::DeleteNodeClaim(_)
            | Action::Evict { .. }
            | Action::DeletePod { .. }
            | Action::Terminate { .. } => {}
        }
    }
}

#[test]
fn nodes_are_marked_first_and_deleted_after_replacements_are_initialized() {
    let mut snapshot = world(Method::SingleNode);
    let (state, actions, _) = step(&snapshot);
    assert_eq!(state, CommandState::Replacing);
    assert_eq!(
        actions,
        [
            "node a [\"karpenter.sh/disrupted\"]",
            "claim a-claim [\"Underutilized\"] []"
        ]
    );
    apply_marks(&mut snapshot);
    let (state, actions, _) = step(&snapshot);
    assert_eq!(
        (state, actions),
        (CommandState::Deleting, vec!["delete a-claim".to_owned()])
    );
    snapshot.node_claims[2].status.conditions.clear();
    let (state, actions, _) = step(&snapshot);
    assert_eq!(
        (state, actions),
        (CommandState::Replacing, Vec::new()),
        "one waits"
    );
}

#[test]
fn check_is_due_after_every_action() {
    let mut snapshot = world(Method::SingleNode);
    let due = |snapshot: &Snapshot| advance(snapshot)[0].1.due;
    assert_eq!(due(&snapshot), Some(snapshot.now), "marks, at once");
    apply_marks(&mut snapshot);
    let soon = snapshot.now + SignedDuration::from_secs(5);
    assert_eq!(due(&snapshot), Some(soon), "deletions, in a while");
}

#[test]
fn only_a_rolled_back_command_has_a_problem() {
    let mut snapshot = world(Method::SingleNode);
    assert_eq!(step(&snapshot).2, Vec::<String>::new(), "it begins");
    apply_marks(&mut snapshot);
    snapshot.now += SignedDuration::from_mins(10);
    let (state, _, problems) = step(&snapshot);
    let deletes = (CommandState::Deleting, Vec::new());
    assert_eq!((state, problems), deletes, "late, but ready");
    snapshot.node_claims.pop();
    let (state, _, problems) = step(&snapshot);
    assert_eq!(state, CommandState::RolledBack);
    assert_eq!(
        problems,
        ["replacement new was not launched, or no longer exists"]
    );
}

#[test]
fn all_replacements_must_be_initialized_and_losing_one_rolls_back() {
    let mut snapshot = world(Method::MultiNode);
    apply_marks(&mut snapshot);
    let second = fixtures::claim("new-2", &[]);
    snapshot.commands[0].replacements.push("new-2".into());
    assert_eq!(step(&snapshot).0, CommandState::RolledBack, "one is lost");
    snapshot.node_claims.push(second);
    assert_eq!(step(&snapshot).0, CommandState::Replacing, "one waits");
    snapshot.node_claims[3] = fixtures::claim("new-2", &[INITIALIZED]);
    assert_eq!(step(&snapshot).0, CommandState::Deleting);
}

#[test]
fn missing_or_deleted_replacement_rolls_back() {
    let mut snapshot = world(Method::Drift);
    apply_marks(&mut snapshot);
    let new = snapshot.node_claims.pop().unwrap();
    let (state, actions, problems) = step(&snapshot);
    assert_eq!(state, CommandState::RolledBack);
    assert_eq!(
        actions,
        ["node a []", "claim a-claim [] [\"DisruptionReason\"]"]
    );
    assert_eq!(
        problems,
        ["replacement new was not launched, or no longer exists"]
    );

    let mut coming = snapshot.clone();
    coming.intents.push(fixtures::intent("new"));
    assert_eq!(step(&coming).0, CommandState::Replacing, "PROTOCOL O2");
    let why = "no capacity".to_owned();
    coming.intents[0].state = IntentState::Failed { why };
    coming.intents.push(fixtures::intent("another"));
    assert_eq!(step(&coming).0, CommandState::RolledBack);

    let mut coming = fixtures::claim("new", &[]);
    coming.deleted_at = Some(snapshot.now);
    snapshot.node_claims.push(coming);
    assert_eq!(step(&snapshot).0, CommandState::RolledBack);
    snapshot.node_claims[2] = new;
    snapshot.node_claims[2].deleted_at = Some(snapshot.now);
    assert_eq!(step(&snapshot).0, CommandState::Deleting, "it has come");
}

#[test]
fn replacement_lost_after_initialization_does_not_delay() {
    let mut snapshot = world(Method::MultiNode);
    apply_marks(&mut snapshot);
    snapshot.commands[0].replacements.push("new-2".into());
    snapshot.node_claims.push(fixtures::claim("new-2", &[]));
    let remembered = advance(&snapshot)[0].1.initialized.clone();
    assert_eq!(remembered, ["new".into()]);
    snapshot.node_claims.remove(2);
    let mut forgetful = snapshot.clone();
    snapshot.commands[0].initialized = remembered;
    let [(_, waits)] = advance(&snapshot).try_into().unwrap();
    assert_eq!(waits.state, CommandState::Replacing);
    assert_eq!(waits.initialized, [], "recorded replacements are not new");
    for world in [&mut snapshot, &mut forgetful] {
        world.node_claims[2] = fixtures::claim("new-2", &[INITIALIZED]);
    }
    let (state, actions, _) = step(&snapshot);
    assert_eq!(state, CommandState::Deleting);
    assert_eq!(actions, ["delete a-claim"]);
    assert_eq!(step(&forgetful).0, CommandState::RolledBack);
}

#[test]
fn replacements_time_out_after_ten_minutes_and_later_for_many_nodes() {
    let mut snapshot = world(Method::SingleNode);
    apply_marks(&mut snapshot);
    snapshot.node_claims[2].status.conditions.clear();
    snapshot.now += SignedDuration::from_secs(599);
    assert_eq!(step(&snapshot).0, CommandState::Replacing);
    snapshot.now += SignedDuration::from_secs(1);
    let (state, _, problems) = step(&snapshot);
    assert_eq!(state, CommandState::RolledBack);
    assert_eq!(
        problems,
        ["its replacements were not ready within 10 minutes"]
    );
    let one = snapshot.commands[0].delete[0].clone();
    snapshot.commands[0].delete.resize(10_000, one);
    assert_eq!(
        step(&snapshot).0,
        CommandState::Replacing,
        "80 ms each: over 13 minutes"
    );
}

#[test]
fn new_do_not_disrupt_keeps_the_node_except_for_eventual_disruption() {
    let mut snapshot = world(Method::Drift);
    apply_marks(&mut snapshot);
    snapshot.pods.push(fixtures::pod("guarded", "a"));
    let guard = |text: &str| [(DO_NOT_DISRUPT.to_owned(), text.to_owned())];
    snapshot.pods[0].annotations.extend(guard("true"));
    let (state, _, problems) = step(&snapshot);
    assert_eq!(state, CommandState::RolledBack);
    assert_eq!(
        problems,
        ["pod default/guarded on node a has annotation karpenter.sh/do-not-disrupt now"]
    );
    let mut eventual = snapshot.clone();
    eventual.node_claims[0].spec.termination_grace_period = Some("1h".to_owned());
    assert_eq!(step(&eventual).0, CommandState::Deleting);
    eventual.nodes[0].annotations.extend(guard("true"));
    assert_eq!(step(&eventual).0, CommandState::RolledBack);
    snapshot.commands[0].choice = None;
    assert_eq!(
        step(&snapshot).0,
        CommandState::Deleting,
        "the deletion is involuntary"
    );
}

#[test]
fn recorded_expiration_waits_during_a_pause() {
    let mut snapshot = world(Method::Drift);
    let command = &mut snapshot.commands[0];
    (command.choice, command.state) = (None, CommandState::Deleting);
    command.replacements.clear();
    snapshot.node_claims[0].spec.expire_after = Some("1h".to_owned());
    snapshot.now += SignedDuration::from_hours(1);
    let goes = |snapshot: &Snapshot| step(snapshot).1 == ["delete a-claim"];
    for (level, is_held) in [(PauseLevel::Voluntary, false), (PauseLevel::All, true)] {
        snapshot.pauses = vec![Pause {
            scope: PauseScope::Cluster,
            owner: "ann".to_owned(),
            level,
            reason: "a release".to_owned(),
            since: snapshot.now,
            until: snapshot.now + SignedDuration::from_hours(1),
        }];
        assert_eq!(goes(&snapshot), !is_held, "{level}");
    }
    let mut young = snapshot.clone();
    young.node_claims[0].spec.expire_after = None;
    assert!(goes(&young), "it was recorded for another reason");
    snapshot.nodes[0].ready.status = ConditionStatus::Unknown;
    assert!(goes(&snapshot), "the kubelet does not report");
}

#[test]
fn empty_nodes_that_got_pods_are_kept_and_others_deleted() {
    let mut snapshot = world(Method::Emptiness);
    snapshot.commands[0].replacements.clear();
    let second = target(&snapshot.node_claims[1]);
    snapshot.commands[0].delete.push(second);
    apply_marks(&mut snapshot);
    snapshot.pods.push(fixtures::pod("late", "a"));
    let (state, actions, problems) = step(&snapshot);
    assert_eq!(state, CommandState::Deleting);
    assert_eq!(
        actions,
        [
            "delete b-claim",
            "node a []",
            "claim a-claim [] [\"DisruptionReason\"]"
        ]
    );
    assert_eq!(problems, ["node a is no longer empty"]);
    snapshot.pods.push(fixtures::pod("later", "b"));
    assert_eq!(step(&snapshot).0, CommandState::RolledBack, "none is empty");
}

#[test]
fn marks_without_a_command_are_removed() {
    let mut snapshot = world(Method::SingleNode);
    apply_marks(&mut snapshot);
    assert_eq!(forgotten_marks(&snapshot), []);
    snapshot.commands[0].state = CommandState::RolledBack;
    assert_eq!(
        words(&forgotten_marks(&snapshot)),
        ["node a []", "claim a-claim [] [\"DisruptionReason\"]"]
    );
    snapshot.node_claims[0].deleted_at = Some(snapshot.now);
    assert_eq!(forgotten_marks(&snapshot), [], "what goes stays marked");
}

/// A NodeClaim that joined after its launch time-out was recorded (the deletion was refused, or the turn failed) is kept.
#[test]
fn timeout_of_a_node_claim_that_has_joined_is_dropped() {
    let of = |reason: &str, conditions: &[&str]| {
        let mut snapshot = fixtures::snapshot();
        let claim = fixtures::claim("late", conditions);
        let command = Command {
            reason: format!("{reason}: it did not come in time"),
            delete: vec![target(&claim)],
            replacements: Vec::new(),
            state: CommandState::Deleting,
            choice: None,
            ..world(Method::SingleNode).commands.remove(0)
        };
        snapshot.node_claims.push(claim);
        snapshot.commands.push(command);
        step(&snapshot).1
    };
    let (launched, registered) = (&["Launched"][..], &["Launched", "Registered"][..]);
    assert_eq!(of("launch_timeout", &[]), ["delete late"]);
    assert_eq!(of("launch_timeout", launched), [""; 0]);
    assert_eq!(of("registration_timeout", launched), ["delete late"]);
    assert_eq!(of("registration_timeout", registered), [""; 0]);
    assert_eq!(of("expired", registered), ["delete late"]);
}
