//! What a NodePool's limits leave, and which types stay within (spec/scheduling §20).

use std::rc::Rc;

use model::{Resources, resources::NODES};

use crate::{bits::Bits, catalog::Catalog, room::Room};

#[derive(Clone)]
pub(crate) struct Limits {
    /// The limited resources, in order; every node counts one of [`NODES`].
    names: Vec<String>,
    left: Vec<i64>,
    /// What the types would take of them.
    capacity: Rc<Room>,
    /// The same per type.
    amounts: Rc<[Option<Box<[i64]>>]>,
    counting: Counting,
}

/// What a node to be made counts as before its type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The largest of each resource that any of its types has, as upstream.
    Largest,
    /// The type that was chosen for it; which others it may be launched as is settled when all nodes are known.
    Chosen,
}

impl Limits {
    pub(crate) fn new(remaining: &Resources, catalog: &Catalog<'_>, counting: Counting) -> Self {
        let names: Vec<String> = remaining.0.keys().cloned().collect();
        let taken = |row| {
            let capacity = &catalog.instance_type(row)?.capacity;
            let amounts = names.iter().map(|name| match name.as_str() {
                NODES => 1,
                name => capacity.get(name),
            });
            Some(amounts.collect())
        };
        // Without limits there is nothing to look up.
        let rows = if names.is_empty() {
            0
        } else {
            catalog.rows.len()
        };
        let capacity: Vec<Option<Box<[i64]>>> = (0..rows).map(taken).collect();
        Self {
            capacity: Rc::new(Room::new(&capacity, names.len())),
            amounts: capacity.into(),
            counting,
            left: remaining.0.values().copied().collect(),
            names,
        }
    }

    /// As if no node had been counted.
    pub(crate) fn anew(&self, remaining: &Resources) -> Self {
        Self {
            left: remaining.0.values().copied().collect(),
            ..self.clone()
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(self.left.iter().copied())
    }

    /// The limit on the number of nodes is used up.
    pub(crate) fn has_no_node_left(&self) -> bool {
        self.iter().any(|(name, left)| name == NODES && left <= 0)
    }

    /// Takes away the types that would exceed a limit.
    pub(crate) fn keep_within(&self, rows: &mut Bits) {
        self.capacity.keep_at_most(&self.left, rows);
    }

    pub(crate) fn count_largest(&mut self) {
        self.counting = Counting::Largest;
    }

    /// Whether nodes count as the types that were chosen for them.
    pub(crate) fn are_by_choice(&self) -> bool {
        self.counting == Counting::Chosen && !self.names.is_empty()
    }

    /// Takes away the types that a node could not become, which counts as the type of a row.
    pub(crate) fn keep_within_beside(&self, counted: Option<usize>, rows: &mut Bits) {
        let left = self.left.iter().zip(self.taken_by(counted));
        let left: Vec<i64> = left.map(|(left, own)| left.saturating_add(own)).collect();
        self.capacity.keep_at_most(&left, rows);
    }

    /// Counts a node as the type of a row instead of another one.
    pub(crate) fn recount(&mut self, before: Option<usize>, after: Option<usize>) {
        let (before, after): (Vec<i64>, Vec<i64>) = (
            self.taken_by(before).collect(),
            self.taken_by(after).collect(),
        );
        for (left, (before, after)) in self.left.iter_mut().zip(before.iter().zip(&after)) {
            *left = left.saturating_add(before - after);
        }
    }

    /// The row that takes the least of what is left, by the resource of which it takes the largest part.
    pub(crate) fn smallest(&self, rows: &Bits) -> Option<usize> {
        const WHOLE: i128 = 1 << 32;
        let part = |row: &usize| {
            let taken = self.taken_by(Some(*row)).zip(&self.left);
            let parts =
                taken.map(|(taken, left)| i128::from(taken) * WHOLE / i128::from(*left).max(1));
            parts.max().unwrap_or(0)
        };
        rows.iter().min_by_key(part)
    }

    /// Leaves each of these nodes the types that it may be launched as, so that no limit is exceeded whatever each becomes: what
    /// the chosen types leave is shared out evenly. Each node comes with the row of the type that was chosen.
    pub(crate) fn share_out(
        &self,
        remaining: &Resources,
        nodes: &mut [(Option<usize>, &mut Bits)],
    ) {
        let mut limits = self.anew(remaining);
        for (counted, _) in nodes.iter() {
            limits.recount(None, *counted);
        }
        let mut waiting = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        for (counted, rows) in nodes {
            let share = Self {
                left: limits.left.iter().map(|left| left / waiting).collect(),
                ..limits.clone()
            };
            share.keep_within_beside(*counted, rows);
            let most: Vec<i64> = self.capacity.most(rows).collect();
            let own: Vec<i64> = self.taken_by(*counted).collect();
            for (left, (most, own)) in limits.left.iter_mut().zip(most.iter().zip(&own)) {
                *left = left.saturating_sub((most - own).max(0));
            }
            waiting -= 1;
        }
    }

    fn taken_by(&self, row: Option<usize>) -> impl Iterator<Item = i64> {
        let amounts = row.and_then(|row| self.amounts.get(row)?.as_deref());
        (0..self.names.len()).map(move |at| {
            let amount = amounts.and_then(|amounts| amounts.get(at));
            amount.map_or(0, |amount| (*amount).max(0))
        })
    }

    /// Counts a new node as large as it may still become, where nothing was chosen for it.
    pub(crate) fn spend(&mut self, rows: &Bits) {
        if self.are_by_choice() {
            return;
        }
        for (left, largest) in self.left.iter_mut().zip(self.capacity.most(rows)) {
            *left = left.saturating_sub(largest.max(0));
        }
    }
}
