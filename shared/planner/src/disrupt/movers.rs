//! The pods that questions about disruptions are about: those that need a place whatever goes, and those of every machine that
//! might.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use jiff::Timestamp;
use model::{Snapshot, pod::Pod};

use crate::{
    guards::Guards,
    inventory::Inventory,
    pods::is_reschedulable,
    provision::{buffers, default_spread::with_default, intake::intake, movable::is_movable},
    repair::{Evaluation, Mode, POLICIES, Reboots},
};

pub(super) struct Movers<'a> {
    /// The time at which they would move.
    pub(super) now: Timestamp,
    all: Vec<Cow<'a, Pod>>,
    waiting: usize,
    /// Per machine, its own among all.
    of_machines: BTreeMap<usize, Range<usize>>,
}

impl<'a> Movers<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        inventory: &'a Inventory<'a>,
        now: Timestamp,
    ) -> Self {
        let waiting = intake(snapshot, inventory, now).pods.into_iter();
        let mut all: Vec<Cow<'a, Pod>> = waiting
            .map(|pod| with_default(pod, snapshot))
            .chain(buffers::pods(snapshot))
            .collect();
        let waiting = all.len();
        let guards = Guards::new(&snapshot.disruption_budgets, snapshot.settings.optimize);
        let repairs = Mode::of(&snapshot.settings) == Mode::Voluntary;
        let mut of_machines = BTreeMap::new();
        for (at, machine) in inventory.machines.iter().enumerate() {
            if machine.claim.is_none() || machine.deleting {
                continue;
            }
            let first = all.len();
            // A node that is repaired goes whatever its pods say, so all of them need a place.
            let is_repaired = repairs
                && machine
                    .node
                    .zip(machine.claim)
                    .is_some_and(|(node, claim)| {
                        let reboots = Reboots::of(claim, &snapshot.settings, now);
                        let evaluation = Evaluation::of(POLICIES, node, &reboots, now);
                        evaluation.due.is_some()
                    });
            let own = machine.pods.iter().copied();
            let own = own.filter(|pod| match is_repaired {
                true => is_reschedulable(pod),
                false => is_movable(pod, &guards, now),
            });
            all.extend(own.map(|pod| with_default(pod, snapshot)));
            of_machines.insert(at, first..all.len());
        }
        Self {
            now,
            all,
            waiting,
            of_machines,
        }
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &Pod> {
        self.all.iter().map(Cow::as_ref)
    }

    /// Pods that need a place whatever is disrupted: those that wait, those of machines that go away, and those that room is
    /// kept for. They are the first of all.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The places of a machine's pods.
    pub(super) fn of_machine(&self, at: usize) -> Range<usize> {
        self.of_machines.get(&at).cloned().unwrap_or(0..0)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Pod> {
        self.all.get(at).map(Cow::as_ref)
    }
}
