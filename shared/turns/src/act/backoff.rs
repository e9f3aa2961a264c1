//! Calls that one object refuses: each object is tried again at growing intervals, so that repetitions cost next to nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ports::LedgerError;

use super::terminations::retry_after;
use crate::{Report, context::Turn};

/// Objects that refused a kind of call a short while ago.
pub(crate) struct Backoff<'t> {
    turn: &'t Turn<'t>,
    /// Prefix of the ledger keys of this kind of call, before the object's id.
    prefix: &'static str,
    refused: BTreeSet<String>,
}

impl<'t> Backoff<'t> {
    pub(crate) async fn read(
        turn: &'t Turn<'t>,
        prefix: &'static str,
    ) -> Result<Self, LedgerError> {
        let keys = turn.world.ledger.said(turn.cluster, prefix, turn.now);
        Ok(Self {
            turn,
            prefix,
            refused: keys.await?,
        })
    }

    /// Whether the object refused too recently to be called again, in which case a later turn calls it. The call has been due
    /// since `since`.
    pub(crate) fn holds(&self, id: &str, since: Timestamp, report: &mut Report) -> bool {
        let is_held = self.refused.contains(&self.key(id));
        if is_held {
            report.run_again_at(self.retry_at(since));
        }
        is_held
    }

    pub(crate) async fn record_refusal(
        &mut self,
        id: &str,
        since: Timestamp,
    ) -> Result<(), LedgerError> {
        let (key, until) = (self.key(id), self.retry_at(since));
        let Turn {
            world,
            cluster,
            now,
            ..
        } = self.turn;
        world.ledger.once(cluster, &key, *now, until).await?;
        self.refused.insert(key);
        Ok(())
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    fn retry_at(&self, since: Timestamp) -> Timestamp {
        let now = self.turn.now;
        let wait = retry_after(now.duration_since(since));
        now.saturating_add(wait).unwrap_or(now)
    }
}
