//! A round over all candidates of a method, in as many looks as that takes: a look that has simulated its share leaves the rest
//! to the next (docs/adr/0013-a-look-goes-on-from-a-cursor.md).

use model::ledger::Cursor;

use super::context::DisruptionContext;

/// What a search through candidates one by one came to.
pub(super) struct Searched<T> {
    pub(super) found: Option<T>,
    /// Where the next look goes on; `None` where it begins anew.
    pub(super) cursor: Option<Cursor>,
    /// How many candidates are left to it, because this one has done its share.
    pub(super) left: usize,
}

impl<T> Searched<T> {
    /// All were considered.
    pub(super) fn through() -> Self {
        Self {
            found: None,
            cursor: None,
            left: 0,
        }
    }

    /// The share is done before all were considered.
    pub(super) fn cut(cursor: Cursor, left: usize) -> Self {
        Self {
            found: None,
            cursor: Some(cursor),
            left,
        }
    }

    /// The search ends with a candidate, whatever became of it. A round that fits one look begins anew then, as upstream's: what
    /// is worth most is first. One that does not goes on, so that nobody waits for those before it to be done with.
    pub(super) fn ended(context: &DisruptionContext<'_>, found: Option<T>, cursor: Cursor) -> Self {
        let began = context
            .snapshot
            .cursor
            .as_ref()
            .is_some_and(Cursor::goes_on);
        Self {
            found,
            cursor: began.then_some(cursor),
            left: 0,
        }
    }
}
