//! Repair commands.

use api::names::annotation::DO_NOT_DISRUPT;
use jiff::SignedDuration;
use model::{
    Snapshot,
    ledger::{CommandState, Method},
    node::{ConditionStatus, Ready},
};

use super::judging::{apply_marks, step, world};
use crate::fixtures::now;

/// A repair of a node that is not ready for an hour, with an initialized replacement.
fn repairing() -> Snapshot {
    let mut snapshot = world(Method::Repair);
    snapshot.commands[0].reason = "Unhealthy".to_owned();
    let since = Some(now() - SignedDuration::from_hours(1));
    snapshot.nodes[0].created_at = since;
    snapshot.nodes[0].ready = Ready {
        status: ConditionStatus::False,
        since,
    };
    apply_marks(&mut snapshot);
    snapshot
}

#[test]
fn unhealthy_node_is_deleted_despite_do_not_disrupt() {
    let mut snapshot = repairing();
    let annotations = &mut snapshot.nodes[0].annotations;
    annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
    let (state, actions, _) = step(&snapshot);
    assert_eq!(state, CommandState::Deleting);
    assert_eq!(actions, ["delete a-claim"]);
}

#[test]
fn recovered_or_refusing_node_is_kept() {
    type Change = fn(&mut Snapshot);
    let changes: [(Change, &str); 2] = [
        (
            |snapshot| snapshot.nodes[0].ready.status = ConditionStatus::True,
            "node a has recovered",
        ),
        (
            |snapshot| {
                let annotations = &mut snapshot.node_claims[0].annotations;
                annotations.insert("karpenter.sh/do-not-repair".into(), "true".into());
            },
            "node a has annotation karpenter.sh/do-not-repair now",
        ),
    ];
    for (change, reported) in changes {
        let mut snapshot = repairing();
        change(&mut snapshot);
        let (state, _, problems) = step(&snapshot);
        assert_eq!(
            (state, &*problems),
            (CommandState::RolledBack, &[reported.to_owned()][..])
        );
    }
}
