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

pub(super) struct ReschedulablePods<'a> {
    /// The time at which they would move.
    pub(super) now: Timestamp,
    all: Vec<Cow<'a, Pod>>,
    waiting: usize,
    /// Per machine, its own among all.
    of_state_nodes: BTreeMap<usize, Range<usize>>,
}

impl<'a> ReschedulablePods<'a> {
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
        let mut of_state_nodes = BTreeMap::new();
        for (at, state_node) in inventory.state_nodes.iter().enumerate() {
            if state_node.claim.is_none() || state_node.deleting {
                continue;
            }
            let first = all.len();
            // A node that is repaired goes whatever its pods say, so all of them need a place.
            let is_repaired = repairs
                && state_node
                    .node
                    .zip(state_node.claim)
                    .is_some_and(|(node, claim)| {
                        let reboots = Reboots::of(claim, &snapshot.settings, now);
                        let evaluation = Evaluation::of(POLICIES, node, &reboots, now);
                        evaluation.due.is_some()
                    });
            let own = state_node.pods.iter().copied();
            let own = own.filter(|pod| match is_repaired {
                true => is_reschedulable(pod),
                false => is_movable(pod, &guards, now),
            });
            all.extend(own.map(|pod| with_default(pod, snapshot)));
            of_state_nodes.insert(at, first..all.len());
        }
        Self {
            now,
            all,
            waiting,
            of_state_nodes,
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
    pub(super) fn of_state_node(&self, at: usize) -> Range<usize> {
        self.of_state_nodes.get(&at).cloned().unwrap_or(0..0)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Pod> {
        self.all.get(at).map(Cow::as_ref)
    }
}
