//! Room that a NodePool's limits leave, and which types stay within (docs/spec/scheduling.md#limits).

use std::rc::Rc;

use model::{Resources, resources::NODES};

use crate::{bits::Bits, catalog::Catalog, room::Room};

/// Per limited resource, what a node counts as.
pub(crate) type Amounts = Box<[i64]>;

#[derive(Clone)]
pub(crate) struct Limits {
    /// The limited resources, in order; every node counts one of [`NODES`].
    names: Vec<String>,
    left: Vec<i64>,
    /// What the types would take of them.
    capacity: Rc<Room>,
    /// The same per type.
    amounts: Rc<[Option<Amounts>]>,
    counting: Counting,
}

/// What a node to be made counts as before its type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The largest of each resource that any of its types has, as upstream.
    Largest,
    /// The types that were chosen for it, which are one unless `minValues` asks for more; which others it may be launched as is
    /// settled when all nodes are known.
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
        let capacity: Vec<Option<Amounts>> = (0..rows).map(taken).collect();
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

    /// What a limit on the number of nodes leaves, if there is one.
    pub(crate) fn nodes_left(&self) -> Option<i64> {
        let mut limits = self.iter();
        limits.find_map(|(name, left)| (name == NODES).then_some(left))
    }

    /// The limit on the number of nodes is used up.
    pub(crate) fn has_no_node_left(&self) -> bool {
        self.nodes_left().is_some_and(|left| left <= 0)
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

    /// Takes away the types that a node could not become, which counts as so much.
    pub(crate) fn keep_within_beside(&self, counted: Option<&Amounts>, rows: &mut Bits) {
        let left = self.left.iter().zip(amounts(counted));
        let left: Vec<i64> = left.map(|(left, own)| left.saturating_add(own)).collect();
        self.capacity.keep_at_most(&left, rows);
    }

    /// Counts a node as so much instead of as something else.
    pub(crate) fn recount(&mut self, before: Option<&Amounts>, after: Option<&Amounts>) {
        let counted = amounts(before).zip(amounts(after));
        for (left, (before, after)) in self.left.iter_mut().zip(counted) {
            *left = left.saturating_add(before.saturating_sub(after));
        }
    }

    /// The row that takes the least of what is left.
    pub(crate) fn smallest(&self, rows: &Bits) -> Option<usize> {
        rows.iter().min_by_key(|row| self.part(*row))
    }

    /// The rows in the order of what they take of what is left.
    pub(crate) fn smallest_first(&self, rows: &Bits) -> Vec<usize> {
        let mut order: Vec<usize> = rows.iter().collect();
        order.sort_by_cached_key(|row| self.part(*row));
        order
    }

    /// The part that a row takes of what is left, by the resource of which it takes the largest.
    fn part(&self, row: usize) -> i128 {
        const WHOLE: i128 = 1 << 32;
        let taken = self.amounts.get(row).and_then(Option::as_ref);
        let taken = amounts(taken).zip(&self.left);
        let parts = taken.map(|(taken, left)| i128::from(taken) * WHOLE / i128::from(*left).max(1));
        parts.max().unwrap_or(0)
    }

    /// The most that any of these rows takes, per limited resource.
    pub(crate) fn most(&self, rows: &[usize]) -> Amounts {
        let mut most = vec![0; self.names.len()];
        for row in rows {
            let taken = self.amounts.get(*row).and_then(Option::as_ref);
            for (most, taken) in most.iter_mut().zip(amounts(taken)) {
                *most = taken.max(*most);
            }
        }
        most.into()
    }

    /// Leaves each of these nodes the types that it may be launched as, so that no limit is exceeded whatever each becomes: what
    /// the nodes leave by what they count as is shared out evenly. Each node comes with that.
    pub(crate) fn share_out(
        &self,
        remaining: &Resources,
        nodes: &mut [(Option<&Amounts>, &mut Bits)],
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
            let most = self.capacity.most(rows).zip(amounts(*counted));
            for (left, (most, own)) in limits.left.iter_mut().zip(most) {
                *left = left.saturating_sub(most.saturating_sub(own).max(0));
            }
            waiting -= 1;
        }
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

/// One per limited resource; none where nothing is counted.
fn amounts(of: Option<&Amounts>) -> impl Iterator<Item = i64> {
    let known = of.map_or(&[][..], |amounts| amounts);
    let known = known.iter().map(|amount| (*amount).max(0));
    known.chain(std::iter::repeat(0))
}
