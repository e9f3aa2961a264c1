//! Header of a generation's row.

use model::{
    ClusterName,
    ids::PlanId,
    ledger::{Command, Notice},
};
use ports::LedgerError;
use serde::{Deserialize, Serialize};

use crate::{store::Store, table::Key};

/// Content of one generation, as stored in its row.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Header {
    Plan {
        id: PlanId,
        chunks: usize,
    },
    Unfenced {
        commands: Vec<Command>,
        notices: Vec<Notice>,
    },
}

/// Outcome of a plan that was to be committed at a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanOutcome {
    Committed,
    /// The generation holds another record, so the plan can never be committed.
    Lost,
    Open,
}

pub(crate) async fn plan_outcome(
    table: &Store,
    cluster: &ClusterName,
    generation: u64,
    id: &PlanId,
) -> Result<PlanOutcome, LedgerError> {
    let Some(row) = table.get(&Key::plan(cluster, generation)).await? else {
        return Ok(PlanOutcome::Open);
    };
    Ok(match row.json("header")? {
        Header::Plan { id: found, .. } if found == *id => PlanOutcome::Committed,
        Header::Plan { .. } | Header::Unfenced { .. } => PlanOutcome::Lost,
    })
}
