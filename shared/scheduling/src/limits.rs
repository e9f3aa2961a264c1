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
}

impl Limits {
    pub(crate) fn new(remaining: &Resources, catalog: &Catalog<'_>) -> Self {
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

    /// Counts a new node: as large as it may still become.
    pub(crate) fn spend(&mut self, rows: &Bits) {
        for (left, largest) in self.left.iter_mut().zip(self.capacity.most(rows)) {
            *left = left.saturating_sub(largest.max(0));
        }
    }
}
