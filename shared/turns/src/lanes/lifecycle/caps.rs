//! Caps that existing nodes exceed: reported to users, without any other action (docs/operations.md).

use model::journal::{Line, Subject};
use ports::cluster::{Event, EventKind, EventTarget};

use crate::{Report, context::Turn, observe::Observed, report::events};

/// Reports exceeded caps in the journal, and on the NodePools that may launch nothing because of them.
pub(crate) async fn report_exceeded(turn: &Turn<'_>, observed: &Observed, report: &mut Report) {
    let snapshot = &observed.snapshot;
    let exceeded = planner::exceeded(snapshot);
    let about = |exceeded: &planner::Exceeded| exceeded.node_pool.clone().map(Subject::NodePool);
    let lines = exceeded.iter();
    let lines = lines.map(|exceeded| Line::new(exceeded.message.as_str(), about(exceeded)));
    report.over_caps.extend(lines);
    if !turn.may_act() {
        return;
    }
    let emitted = snapshot.node_pools.iter().flat_map(|pool| {
        let concerns = |exceeded: &&planner::Exceeded| {
            let own = exceeded.node_pool.as_ref();
            own.is_none_or(|name| *name == pool.name)
        };
        exceeded
            .iter()
            .filter(concerns)
            .take(1)
            .map(|exceeded| Event {
                about: EventTarget::NodePool(pool.name.clone(), pool.uid.clone()),
                kind: EventKind::Warning,
                reason: events::CAP_EXCEEDED.to_owned(),
                message: exceeded.message.clone(),
                at: turn.now,
            })
    });
    let emitted: Vec<Event> = emitted.collect();
    events::post(turn, &emitted, report).await;
}
