//! Pods that disruption simulations place: those that need a node in any case, and those of every node that may be disrupted.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use jiff::Timestamp;
use model::{Snapshot, pod::Pod};

use crate::{
    inventory::Inventory,
    pdb_limits::PdbLimits,
    pods::is_reschedulable,
    provision::{buffers, default_spread::with_default, intake::intake, movable::is_movable},
    repair::{Evaluation, Mode, POLICIES, Reboots},
};

/// Pods that need a place, by index.
pub(super) struct ReschedulablePods<'a> {
    /// Time at which the pods would move.
    pub(super) now: Timestamp,
    all: Vec<Cow<'a, Pod>>,
    waiting: usize,
    /// Range of indexes of each state node's pods.
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
        let pdb_limits = PdbLimits::new(&snapshot.disruption_budgets, snapshot.settings.optimize);
        let repairs = Mode::from_settings(&snapshot.settings) == Mode::Voluntary;
        let mut of_state_nodes = BTreeMap::new();
        for (at, state_node) in inventory.state_nodes.iter().enumerate() {
            if state_node.claim.is_none() || state_node.deleting {
                continue;
            }
            let first = all.len();
            // Repair ignores blocking pods, so that all pods of the node need a place.
            let is_repaired = repairs
                && state_node
                    .node
                    .zip(state_node.claim)
                    .is_some_and(|(node, claim)| {
                        let reboots = Reboots::new(claim, &snapshot.settings, now);
                        let evaluation = Evaluation::new(POLICIES, node, &reboots, now);
                        evaluation.due.is_some()
                    });
            let own = state_node.pods.iter().copied();
            let own = own.filter(|pod| match is_repaired {
                true => is_reschedulable(pod),
                false => is_movable(pod, &pdb_limits, now),
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

    /// Number of pods that need a node in any case: pending pods, pods of nodes that are being deleted, and virtual pods of
    /// CapacityBuffers. They come first in the list.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Indexes of a state node's pods.
    pub(super) fn of_state_node(&self, at: usize) -> Range<usize> {
        self.of_state_nodes.get(&at).cloned().unwrap_or(0..0)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Pod> {
        self.all.get(at).map(Cow::as_ref)
    }
}
