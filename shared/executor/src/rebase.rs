//! Rebase after losing the race for a generation (docs/protocol.md#c2): plans that others committed in the meantime are applied to this
//! turn's snapshot, and its own plan keeps what still holds.

use std::collections::BTreeSet;

use model::{
    Action, NodeClaimName, Plan, Snapshot,
    ids::PlanId,
    ledger::{Command, CommandState, Intent, IntentState},
    plan::{Launch, PodRef, Target},
};
use ports::ledger::Record;

/// Applies these records to the snapshot.
pub(crate) fn apply(snapshot: &mut Snapshot, records: &[Record]) {
    for record in records {
        match record {
            Record::Plan { generation, plan } => {
                snapshot.generation = *generation;
                snapshot.intents.extend(
                    launches(plan).map(|launch| intended(launch, *generation, snapshot.now)),
                );
                let delete: Vec<Target> = deletions(plan).cloned().collect();
                let reboot = reboots(plan).next().cloned();
                if !delete.is_empty() || reboot.is_some() {
                    snapshot.commands.push(Command {
                        reboot,
                        id: format!("generation-{generation}"),
                        reason: "committed meanwhile".into(),
                        delete,
                        replacements: Vec::new(),
                        state: CommandState::Replacing,
                        committed_at: snapshot.now,
                        choice: None,
                        initialized: Vec::new(),
                    });
                }
            }
            Record::Unfenced {
                generation,
                commands,
                notices,
            } => {
                snapshot.generation = *generation;
                commands
                    .iter()
                    .for_each(|command| add_command(&mut snapshot.commands, command));
                snapshot.notices.extend(notices.iter().cloned());
            }
        }
    }
}

/// Adds a recorded command. A command that was rolled back may be known under its own id, or by the plan that it was committed
/// with.
fn add_command(commands: &mut Vec<Command>, recorded: &Command) {
    let is_over = recorded.state.is_over();
    let is_same = |known: &Command| known.targets().eq(recorded.targets());
    commands.retain(|known| known.id != recorded.id && !(is_over && is_same(known)));
    if !is_over {
        commands.push(recorded.clone());
    }
}

/// Takes out of a plan what these records have done already: launches for pods that got a place, deletions under way.
pub(crate) fn keep_what_holds(plan: &mut Plan, records: &[Record]) {
    let mut served: BTreeSet<PodRef> = BTreeSet::new();
    let mut leaving: BTreeSet<NodeClaimName> = BTreeSet::new();
    for record in records {
        match record {
            Record::Plan { plan, .. } => {
                served.extend(launches(plan).flat_map(|launch| launch.pods.iter().cloned()));
                served.extend(
                    plan.nominations
                        .iter()
                        .map(|nomination| nomination.pod.clone()),
                );
                let taken = deletions(plan).chain(reboots(plan));
                leaving.extend(taken.map(|target| target.name.clone()));
            }
            Record::Unfenced { commands, .. } => {
                leaving.extend(
                    commands
                        .iter()
                        .filter(|command| command.state.is_open())
                        .flat_map(Command::targets)
                        .map(|target| target.name.clone()),
                );
            }
        }
    }
    drop_pods(plan, |pod| served.contains(pod));
    plan.actions.retain(|planned| {
        let taken = planned.action.deletion().or(planned.action.reboot());
        taken.is_none_or(|target| !leaving.contains(&target.name))
    });
}

/// Drops pods from a plan, and the launches that were only for them. Launches without pods (static NodePools) stay.
pub(crate) fn drop_pods(plan: &mut Plan, gone: impl Fn(&PodRef) -> bool) {
    plan.nominations.retain(|nomination| !gone(&nomination.pod));
    plan.actions
        .retain_mut(|planned| match &mut planned.action {
            Action::Launch(launch) if !launch.pods.is_empty() => {
                launch.pods.retain(|pod| !gone(pod));
                !launch.pods.is_empty()
            }
            Action::Launch(_)
            | Action::DeleteNodeClaim(_)
            | Action::Reboot(_)
            | Action::UpdateNode(_)
            | Action::UpdateNodeClaim(_)
            | Action::Evict { .. }
            | Action::DeletePod { .. }
            | Action::Terminate { .. } => true,
        });
}

pub(crate) fn launches(plan: &Plan) -> impl Iterator<Item = &Launch> {
    let actions = plan.actions.iter();
    actions.filter_map(|planned| planned.action.launch())
}

pub(crate) fn deletions(plan: &Plan) -> impl Iterator<Item = &Target> {
    let actions = plan.actions.iter();
    actions.filter_map(|planned| planned.action.deletion())
}

pub(crate) fn reboots(plan: &Plan) -> impl Iterator<Item = &Target> {
    let actions = plan.actions.iter();
    actions.filter_map(|planned| planned.action.reboot())
}

fn intended(launch: &Launch, generation: u64, now: jiff::Timestamp) -> Intent {
    Intent {
        plan: PlanId::default(),
        generation,
        launch: launch.clone(),
        state: IntentState::Intended,
        lease: None,
        committed_at: now,
    }
}

#[cfg(test)]
mod tests {
    use fakes::settings;
    use model::plan::Expected;

    use super::*;
    use crate::test_plans::{launch, nomination, planned, target};

    fn command(id: &str, delete: &str, state: CommandState) -> Command {
        Command {
            id: id.to_owned(),
            delete: vec![target(delete)],
            state,
            ..Command::default()
        }
    }

    #[test]
    fn d1_rolled_back_command_is_removed_from_snapshot() {
        use CommandState::{Deleting, Replacing, RolledBack};
        let mut commands = vec![
            command("seen", "a", Replacing),
            command("generation-7", "b", Replacing),
            command("other", "c", Deleting),
        ];
        for (id, delete) in [("seen", "a"), ("committed-as-7", "b")] {
            add_command(&mut commands, &command(id, delete, RolledBack));
        }
        assert_eq!(commands, [command("other", "c", Deleting)]);
    }

    #[test]
    fn c3_command_recorded_twice_is_added_once() {
        let mut commands = Vec::new();
        for _ in 0..2 {
            add_command(
                &mut commands,
                &command("ended-a", "a", CommandState::Deleting),
            );
        }
        assert_eq!(commands.len(), 1);
    }

    fn deletion(claim: &str) -> model::plan::Planned {
        planned(Action::DeleteNodeClaim(target(claim)))
    }

    fn committed() -> [Record; 2] {
        let plan = Plan {
            actions: vec![
                launch("default", "theirs", &["served"]),
                deletion("leaving"),
            ],
            nominations: vec![nomination("nominated", Expected::Node("n".into()))],
            ..Plan::default()
        };
        [
            Record::Plan {
                generation: 8,
                plan: Box::new(plan),
            },
            Record::Unfenced {
                generation: 9,
                commands: vec![
                    command("c", "under-command", CommandState::Deleting),
                    command("d", "given-up", CommandState::RolledBack),
                ],
                notices: Vec::new(),
            },
        ]
    }

    #[test]
    fn c2_records_of_others_are_applied_to_snapshot() {
        let mut snapshot = Snapshot::empty("demo".into(), jiff::Timestamp::UNIX_EPOCH, settings());
        apply(&mut snapshot, &committed());
        assert_eq!(snapshot.generation, 9);
        let launching: Vec<_> = snapshot.intents.iter().map(Intent::name).collect();
        assert_eq!(launching, [&NodeClaimName::from("theirs")]);
        let leaving = snapshot.commands.iter().flat_map(|command| &command.delete);
        let leaving: Vec<&str> = leaving.map(|target| target.name.as_str()).collect();
        assert_eq!(leaving, ["leaving", "under-command"]);
        // A plan without deletions adds no command.
        let record = Record::Plan {
            generation: 10,
            plan: Box::default(),
        };
        apply(&mut snapshot, &[record]);
        assert_eq!((snapshot.generation, snapshot.commands.len()), (10, 2));
    }

    #[test]
    fn c2_plan_drops_what_others_committed() {
        let mut plan = Plan {
            actions: vec![
                launch("default", "for-both", &["served", "waiting"]),
                launch("default", "no-longer-needed", &["nominated"]),
                launch("default", "of-a-static-pool", &[]),
                deletion("leaving"),
                deletion("under-command"),
                deletion("given-up"),
            ],
            nominations: ["served", "free"]
                .map(|name| nomination(name, Expected::Node("n".into())))
                .into(),
            ..Plan::default()
        };
        keep_what_holds(&mut plan, &committed());
        let left = Plan {
            actions: vec![
                launch("default", "for-both", &["waiting"]),
                launch("default", "of-a-static-pool", &[]),
                deletion("given-up"),
            ],
            nominations: vec![nomination("free", Expected::Node("n".into()))],
            ..Plan::default()
        };
        assert_eq!(plan, left);
    }
}
