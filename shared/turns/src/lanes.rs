//! The turns of the lanes. Each reads, plans, has its plan checked, commits it and acts.

mod buffers;
pub(crate) mod disruption;
pub(crate) mod lifecycle;
pub(crate) mod provisioner;
mod shadow;
pub(crate) mod terminator;

use jiff::SignedDuration;
use model::{
    Snapshot,
    ledger::{Cursor, RelayCounter},
};

use crate::{Report, observe::Observed, report::PodsFrom};

/// Delay after which a turn that lost every race for the generation tries again.
const RETRY_AFTER_LOST_RACE: SignedDuration = SignedDuration::from_secs(5);

/// Report, snapshot and progress that the turn of a lane returns.
pub(crate) struct TurnResult {
    pub(crate) report: Report,
    /// The relay's counter as read before the lists, if the turn was a full look (docs/protocol.md#l6).
    pub(crate) full_look: Option<RelayCounter>,
    /// The snapshot of the plan, if planning can be repeated from it.
    pub(crate) snapshot: Option<Snapshot>,
    /// Position at which the next evaluation continues.
    pub(crate) cursor: Option<Cursor>,
}

/// Records the sizes and problems of the snapshot.
pub(crate) fn record_snapshot(observed: &Observed, report: &mut Report) {
    report.generation = observed.snapshot.generation;
    report.pods = observed.snapshot.pods.len();
    report.nodes = observed.snapshot.nodes.len();
    report.node_claims = observed.snapshot.node_claims.len();
    report.reads.pods = observed.view.map_or(PodsFrom::ApiServer, PodsFrom::View);
    report.problems.extend(observed.problems.iter().cloned());
    let of_gates = observed.gated.warnings.iter();
    report.warnings = observed
        .price_warnings
        .iter()
        .chain(&observed.view_problem)
        .chain(of_gates)
        .cloned()
        .collect();
}
