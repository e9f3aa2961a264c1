//! Command that reboots a node in place. It requests the reboot on the NodeClaim, and is done once the request is observed. The
//! terminator performs the reboot (`terminate::reboot`).

use api::{
    conditions::{
        ConditionStatus as Status,
        types::{DISRUPTION_REASON, REBOOT_REQUESTED, REBOOTING},
    },
    duration::{go_duration, parse_go_duration},
    names::annotation::{REBOOT_GRACE_PERIOD, REBOOTS},
};
use model::{
    Action,
    ledger::{Command, CommandState},
    node::ConditionStatus,
    node_claim::NodeClaim,
    plan::{NodeClaimUpdate, Planned, Target},
};

use super::advance::{Advance, CommandView, TIMEOUT_MIN};
use crate::{claim_conditions::changed, repair::with_another};

pub(super) fn advance(view: &CommandView<'_>, command: &Command, target: &Target) -> Advance {
    let mut advance = Advance {
        state: CommandState::Done,
        actions: Vec::new(),
        notes: Vec::new(),
        problems: Vec::new(),
        due: None,
        initialized: Vec::new(),
    };
    let claim = view.claims.get(&target.name);
    let claim = claim.filter(|claim| claim.uid == target.uid && claim.deleted_at.is_none());
    let Some(claim) = claim.filter(|claim| !is_requested(claim, command)) else {
        return advance;
    };
    let node = view.nodes.only(&claim.status.provider_id);
    let kept = view
        .pause(command.state, claim)
        .or_else(|| view.reason_to_keep_under_repair(claim, node?));
    if let Some(kept) = kept {
        advance.state = CommandState::RolledBack;
        advance.problems.push(kept);
        return advance;
    }
    let until = command.committed_at.saturating_add(TIMEOUT_MIN);
    if until.is_ok_and(|until| until <= view.snapshot.now) {
        advance.state = CommandState::RolledBack;
        let minutes = TIMEOUT_MIN.as_mins();
        let problem = format!("its NodeClaim could not be updated within {minutes} minutes");
        advance.problems.push(problem);
        return advance;
    }
    advance.state = command.state;
    advance.actions.push(Planned {
        action: Action::UpdateNodeClaim(request(view, command, claim)),
        because: format!(
            "NodeClaim {} is marked for a reboot: {}",
            claim.name, command.reason
        ),
    });
    advance.recheck_at(view.snapshot.now);
    advance
}

/// Whether the reboot was requested on the NodeClaim since the command was committed, regardless of its present state.
fn is_requested(claim: &NodeClaim, command: &Command) -> bool {
    let rebooting = claim.condition(REBOOTING);
    rebooting.is_some_and(|rebooting| {
        rebooting.status == ConditionStatus::True
            || rebooting.last_transition >= command.committed_at
    })
}

fn request(view: &CommandView<'_>, command: &Command, claim: &NodeClaim) -> NodeClaimUpdate {
    let now = view.snapshot.now;
    let choice = command.choice.as_ref();
    let repair = choice.and_then(|choice| choice.repair.as_ref());
    let cause = repair.map(|repair| match repair.reason.as_str() {
        "" => repair.condition.clone(),
        reason => format!("{}/{reason}", repair.condition),
    });
    let own = claim.spec.termination_grace_period.as_deref();
    let own = own.and_then(parse_go_duration);
    let bounds = [repair.and_then(|repair| repair.drain_bound), own];
    let bound = bounds.into_iter().flatten().min();
    let mut update = changed(claim, now, |conditions| {
        let reason = command.reason.as_str();
        conditions.set(DISRUPTION_REASON, Status::True, reason, reason);
        let message = format!("rebooting for {}", cause.unwrap_or_default());
        conditions.set(REBOOTING, Status::True, REBOOT_REQUESTED, &message);
    });
    match bound {
        Some(bound) => {
            let text = go_duration(bound);
            update
                .set_annotations
                .insert(REBOOT_GRACE_PERIOD.to_owned(), text);
        }
        None => update
            .remove_annotations
            .push(REBOOT_GRACE_PERIOD.to_owned()),
    }
    let counted = with_another(claim, command.committed_at, now);
    update.set_annotations.insert(REBOOTS.to_owned(), counted);
    update
}
