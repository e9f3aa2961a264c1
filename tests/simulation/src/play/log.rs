//! What a run prints when it fails: what turns did, and what happened to them.

use turns::{Outcome, Report, SweepReport};

use fakes::World;

use super::{Place, Play};
use crate::Laws;

/// Lines that are kept, the latest.
const MOST: usize = 400;

impl Play {
    pub(super) fn report(&mut self, report: &Report) {
        let turn = &report.turn;
        let place = |place: &&Place| place.name == report.cluster;
        let sim = self
            .clusters
            .iter()
            .find(place)
            .map(|place| place.sim.clone());
        let judge = |judge: &dyn Fn(&mut Laws, &World)| {
            if let Some(sim) = &sim {
                sim.look(|world| self.laws.with(&report.cluster, |laws| judge(laws, world)));
            }
        };
        judge(&|laws, world| laws.lane_ended(world, report));
        if report.committed.is_some() || !report.launched.is_empty() {
            judge(&|laws, world| laws.journaled(world, turn, &report.problems));
        }
        let lines = [
            ("", &report.planned),
            ("proposed ", &report.proposed),
            ("refused ", &report.refused),
            ("launched ", &report.launched),
            ("unplaced ", &report.unplaced),
            ("failed ", &report.failed),
        ];
        for (kind, lines) in lines {
            for line in lines {
                self.note(&format!("{} {turn}: {kind}{line}", report.lane));
            }
        }
        for problem in &report.problems {
            self.note(&format!("{} {turn}: problem {problem}", report.lane));
        }
        if let Outcome::Failed(error) = &report.outcome {
            self.note(&format!("{} {turn} failed: {error}", report.lane));
        }
        if report.committed.is_some() || !report.launched.is_empty() {
            self.last_change = self.seconds;
            if let Some(generation) = report.committed {
                self.note(&format!(
                    "{} {turn} saw generation {} and committed {generation}",
                    report.lane, report.generation
                ));
            }
        }
    }

    pub(super) fn swept(&mut self, report: &SweepReport) {
        let lines = [
            ("collected", &report.collected),
            ("alarm", &report.alarms),
            ("problem", &report.problems),
        ];
        for (kind, lines) in lines {
            for line in lines {
                self.note(&format!("sweep: {kind} {line}"));
            }
        }
    }

    pub(crate) fn note(&mut self, line: &str) {
        if self.log.len() >= MOST {
            self.log.drain(..MOST / 4);
        }
        self.log.push(format!("{:>5}s {line}", self.seconds));
    }
}
