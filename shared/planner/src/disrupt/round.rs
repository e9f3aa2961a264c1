//! A round over all candidates of a method, in as many evaluations as needed: an evaluation that has used up its share leaves
//! the rest to the next (docs/adr/0013-disruption-evaluations-resume-from-a-cursor.md).

use model::ledger::Cursor;

use super::context::DisruptionContext;

/// First command found by a search through candidates one by one, and the position at which the search continues.
pub(super) struct Searched<T> {
    pub(super) found: Option<T>,
    /// Position at which the next evaluation continues; `None` starts a new round.
    pub(super) cursor: Option<Cursor>,
    /// Number of candidates left to the next evaluation.
    pub(super) left: usize,
}

impl<T> Searched<T> {
    /// All candidates were considered.
    pub(super) fn all_considered() -> Self {
        Self {
            found: None,
            cursor: None,
            left: 0,
        }
    }

    /// The share was used up before all candidates were considered.
    pub(super) fn share_used_up(cursor: Cursor, left: usize) -> Self {
        Self {
            found: None,
            cursor: Some(cursor),
            left,
        }
    }

    /// The search ended at a candidate, whether or not its command was valid. A round that fits one evaluation starts again, as
    /// in Karpenter, so that the best candidates come first. A longer one continues, so that later candidates are not starved.
    pub(super) fn ended_at(
        context: &DisruptionContext<'_>,
        found: Option<T>,
        cursor: Cursor,
    ) -> Self {
        let began = context
            .snapshot
            .cursor
            .as_ref()
            .is_some_and(Cursor::is_unfinished);
        Self {
            found,
            cursor: began.then_some(cursor),
            left: 0,
        }
    }
}
