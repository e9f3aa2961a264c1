//! Nodes that stay unhealthy are replaced, one at a time and before anything else is disrupted (docs/disruption.md).

mod patients;

use model::ledger;

pub(super) use self::patients::{Patient, Patients};
use super::{
    Method, Pass, Reason,
    budgets::Budgets,
    candidates::{Blocked, Candidate},
    command::{self, Command},
    drift::{Room, room},
    methods::Methods,
    scene::Scene,
    simulate::Freedom,
    terminate_first,
};
use crate::{
    decision::{About, Note},
    repair::{Breaker, Held, RepairAction},
};

const KIND: (Reason, Method) = (Reason::Unhealthy, Method::Repair);

/// The most urgent repair that is possible now. What keeps others is added to the pass, and when there will be more to look at.
pub(super) fn choose(methods: &Methods<'_, '_>, pass: &mut Pass) -> Option<Command> {
    let scene = methods.now;
    let patients = Patients::of(scene);
    pass.blocked.extend(patients.blocked);
    pass.due = patients.next;
    if patients.due.is_empty() {
        return None;
    }
    let breaker = Breaker::of(scene.snapshot);
    let held = Held::of(scene.snapshot);
    let budgets = methods.budgets(scene, Reason::Unhealthy);
    let mut found = None;
    for patient in &patients.due {
        let candidate = &patient.candidate;
        if let Some(told) = budgets.closed(candidate.pool) {
            pass.exhausted.insert((candidate.pool.name.clone(), told));
            let opens = budgets.opens(candidate.pool);
            pass.due = pass.due.into_iter().chain(opens).min();
        }
        if breaker.blocks(&candidate.pool.name) {
            pass.notes
                .extend(blocked_notes(candidate, &too_many(candidate)));
        } else if let Some(told) = patient.held_back(&held) {
            pass.notes.extend(blocked_notes(candidate, &told));
            pass.exhausted.insert((candidate.pool.name.clone(), told));
        } else if found.is_none() && budgets.allows(candidate) {
            match decide(scene, patient, &budgets) {
                Ok(command) => found = command,
                Err(message) => pass.blocked.push(Blocked {
                    node: candidate.node.name.to_string(),
                    message,
                }),
            }
        }
    }
    found
}

/// Repairs a node, or says why that cannot be; `None` where its static NodePool has more nodes than it wants, of which some go first.
pub(super) fn decide<'a>(
    scene: &Scene<'a>,
    patient: &Patient<'a>,
    budgets: &Budgets,
) -> Result<Option<Command>, String> {
    let candidate = &patient.candidate;
    let candidates = std::slice::from_ref(candidate);
    let command = if patient.due.action == RepairAction::Reboot {
        Some(command::of_reboot(KIND, candidate))
    } else if candidate.pool.replicas.is_some() {
        match room(scene, candidate.pool) {
            Room::Surplus => return Ok(None),
            Room::For(0) => Some(terminate_first::of_static(scene, KIND, candidate, budgets)?),
            Room::For(_) => command::of_static(scene, KIND, candidates).pop(),
        }
    } else {
        let mut simulation = scene.simulate(&[candidate], Freedom::Drift);
        Some(match simulation.obstacle() {
            None => {
                let replacements = std::mem::take(&mut simulation.new_nodes);
                command::of_simulation(scene, KIND, candidates, &simulation, &replacements)
            }
            Some(message) => {
                terminate_first::of_dynamic(scene, KIND, candidate, budgets).ok_or(message)?
            }
        })
    };
    let due = &patient.due;
    Ok(command.map(|command| Command {
        repair: Some(ledger::Repair {
            condition: due.condition.to_owned(),
            reason: due.reason.to_owned(),
            drain_bound: due.drain_bound,
        }),
        because: format!("{}; {}", command.because, patient.diagnosis()),
        ..command
    }))
}

/// Tells users of a node that it is not repaired because many others are unhealthy, too.
fn blocked_notes(candidate: &Candidate<'_>, message: &str) -> [Note; 3] {
    let pool = candidate.pool;
    let pool = About::NodePool(pool.name.clone(), pool.uid.clone());
    [candidate.node.into(), candidate.claim.into(), pool]
        .map(|about: About| Note::warning(about, "NodeRepairBlocked", message.to_owned()))
}

fn too_many(candidate: &Candidate<'_>) -> String {
    let pool = &candidate.pool.name;
    format!("more than 20% of nodes in nodepool \"{pool}\" are unhealthy")
}

/// Failures of other nodes that keep this one from being repaired.
pub(super) fn held_back(
    breaker: &Breaker,
    held: &Held<'_>,
    patient: &Patient<'_>,
) -> Option<String> {
    let candidate = &patient.candidate;
    match breaker.blocks(&candidate.pool.name) {
        true => Some(too_many(candidate)),
        false => patient.held_back(held),
    }
}
