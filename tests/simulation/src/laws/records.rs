//! Laws about records of turns in the ledger.

use fakes::World;
use model::{Interruption, ledger::Mode};
use turns::{Outcome, Report};

use super::{Laws, TURN_MAX, pauses::SKEW};
use crate::rows;

impl Laws {
    /// Checks that the end of a turn is recorded in the row of its lane, unless another turn has taken the lane since
    /// (docs/protocol.md#l2).
    pub(crate) fn lane_ended(&mut self, world: &World, report: &Report) {
        let is_idle = report.planned.is_empty() && report.committed.is_none();
        self.productive_turns += u32::from(!is_idle);
        let lanes = rows(world).map(|rows| &rows.lanes);
        let row = lanes.and_then(|lanes| lanes.get(&report.lane));
        let is_last = self.last_turns.get(&report.lane) == Some(&report.turn);
        let Some(row) = row.filter(|row| is_last && row.lease.is_none()) else {
            return;
        };
        let what = format!("{} {}: {:?}", report.lane, report.turn, report.outcome);
        if matches!(report.outcome, Outcome::Failed(_)) && row.failures == 0 {
            self.breaks("L2: a failed turn is recorded", world.now, what);
        } else if let Some(due) = report.due
            // A wake requested in between is due by the clock of the turn that ended.
            && row.due.is_none_or(|at| at > due.max(world.now + SKEW))
        {
            let what = format!("{what}, at {due}, due {:?}", row.due);
            self.breaks(
                "L2: a lane is due by the time that its turn asked for",
                world.now,
                what,
            );
        }
    }

    /// Checks that an acknowledged fact is recorded, or that there is nothing to do about it (docs/protocol.md#l4).
    pub(crate) fn acknowledged(&mut self, world: &World, fact: &Interruption) {
        let id = &fact.instance;
        let owner = world.ledger.owners.get(id);
        let owned = owner.is_some_and(|owner| owner.cluster == world.cluster);
        let (now, rows) = (world.now, rows(world));
        let meta = rows.and_then(|rows| rows.meta.as_ref());
        let active = meta.is_some_and(|meta| meta.mode == Mode::Active);
        let mut recorded = rows.iter().flat_map(|rows| rows.notices.keys());
        // A row that cannot be read counts as a record.
        let recorded =
            recorded.any(|(instance, _)| instance == id) || self.rejected.excuses(id.as_str(), now);
        let since = self
            .active_since
            .is_some_and(|since| now.duration_since(since) > TURN_MAX);
        if owned && active && since && !recorded && fact.deadline.is_some() {
            self.breaks(
                "L4: a fact is recorded before its message is acknowledged",
                now,
                id.to_string(),
            );
        }
    }

    /// Checks that a turn with decisions has a journal record.
    pub(crate) fn journaled(
        &mut self,
        world: &World,
        turn: &model::ids::TurnId,
        problems: &[String],
    ) {
        let mut records = rows(world)
            .into_iter()
            .flat_map(|rows| rows.journal.values().rev());
        let written = records.any(|entry| entry.turn == *turn);
        let excused = problems
            .iter()
            .any(|problem| problem.starts_with("journal"));
        if !written && !excused {
            self.breaks(
                "no decision without a journal record",
                world.now,
                turn.to_string(),
            );
        }
    }
}
