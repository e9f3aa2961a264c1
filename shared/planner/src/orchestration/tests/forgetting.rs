//! Commands that may be deleted from the ledger.

use jiff::SignedDuration;
use model::{
    Snapshot,
    ledger::{Command, CommandState, Method},
};

use super::judging::world;
use crate::orchestration::spent;

/// A finished command without NodeClaims, an hour later.
fn over() -> Snapshot {
    let mut snapshot = world(Method::SingleNode);
    let command = snapshot.commands.first_mut().unwrap();
    command.state = CommandState::Done;
    let target = command.delete.first().unwrap().uid.clone();
    snapshot.node_claims.retain(|claim| claim.uid != target);
    snapshot.now += Command::CAP_WINDOW;
    snapshot
}

fn count(snapshot: &Snapshot) -> usize {
    spent(snapshot).count()
}

#[test]
fn finished_command_is_forgotten_when_no_cap_counts_it() {
    let mut snapshot = over();
    assert_eq!(count(&snapshot), 1);
    for (state, forgotten) in [
        (CommandState::RolledBack, 1),
        (CommandState::Proposed, 0),
        (CommandState::Replacing, 0),
        (CommandState::Deleting, 0),
        (CommandState::Newer, 0),
    ] {
        snapshot.commands[0].state = state;
        assert_eq!(count(&snapshot), forgotten, "{state:?}");
    }
    let mut sooner = over();
    sooner.now -= SignedDuration::from_secs(1);
    assert_eq!(count(&sooner), 0, "its evictions count");
}

/// A pause suspends the drains of a command, however long they take.
#[test]
fn command_is_kept_while_one_of_its_node_claims_exists() {
    let mut snapshot = over();
    let claims = world(Method::SingleNode).node_claims;
    snapshot.node_claims.extend(claims.into_iter().take(1));
    assert_eq!(count(&snapshot), 0);
}
