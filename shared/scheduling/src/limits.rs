//! Remaining limits of a NodePool, and the types that stay within them (docs/spec/scheduling.md#limits).

use std::rc::Rc;

use model::{Resources, resources::NODES};

use crate::{bits::BitSet, capacity_index::CapacityIndex, catalog::Catalog};

/// Per limited resource, the amount that a node counts as.
pub(crate) type LimitAmounts = Box<[i64]>;

/// Limits of a NodePool, less the nodes planned so far.
#[derive(Clone)]
pub(crate) struct Limits {
    /// Limited resources in order. Every node counts as one of [`NODES`].
    names: Vec<String>,
    left: Vec<i64>,
    /// Index of the amounts that types count as.
    capacity: Rc<CapacityIndex>,
    /// Per type, the amounts that it counts as.
    amounts: Rc<[Option<LimitAmounts>]>,
    counting: LimitCounting,
}

/// Amounts that a new node counts as before its type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitCounting {
    /// Per resource, the largest amount of any of its types, as upstream.
    Largest,
    /// Amounts of the types that were chosen for it: one, or several if `minValues` requires them. The other types that it
    /// may be launched as are limited after all nodes are known.
    Chosen,
}

impl Limits {
    pub(crate) fn new(
        remaining: &Resources,
        catalog: &Catalog<'_>,
        counting: LimitCounting,
    ) -> Self {
        let names: Vec<String> = remaining.0.keys().cloned().collect();
        let taken = |row| {
            let capacity = &catalog.instance_type(row)?.capacity;
            let amounts = names.iter().map(|name| match name.as_str() {
                NODES => 1,
                name => capacity.get(name),
            });
            Some(amounts.collect())
        };
        // Without limits, the index stays empty.
        let rows = if names.is_empty() {
            0
        } else {
            catalog.rows.len()
        };
        let capacity: Vec<Option<LimitAmounts>> = (0..rows).map(taken).collect();
        Self {
            capacity: Rc::new(CapacityIndex::new(&capacity, names.len())),
            amounts: capacity.into(),
            counting,
            left: remaining.0.values().copied().collect(),
            names,
        }
    }

    /// Copy in which no node has been counted.
    pub(crate) fn reset(&self, remaining: &Resources) -> Self {
        Self {
            left: remaining.0.values().copied().collect(),
            ..self.clone()
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(self.left.iter().copied())
    }

    /// Remaining number of nodes, if it is limited.
    pub(crate) fn nodes_left(&self) -> Option<i64> {
        let mut limits = self.iter();
        limits.find_map(|(name, left)| (name == NODES).then_some(left))
    }

    /// Whether the limit on the number of nodes is used up.
    pub(crate) fn has_no_node_left(&self) -> bool {
        self.nodes_left().is_some_and(|left| left <= 0)
    }

    /// Removes types that would exceed a limit.
    pub(crate) fn keep_within(&self, rows: &mut BitSet) {
        self.capacity.keep_at_most(&self.left, rows);
    }

    pub(crate) fn count_largest(&mut self) {
        self.counting = LimitCounting::Largest;
    }

    /// Whether nodes count as the types chosen for them.
    pub(crate) fn are_by_choice(&self) -> bool {
        self.counting == LimitCounting::Chosen && !self.names.is_empty()
    }

    /// Removes types that exceed the remainder of the limits plus `counted`, the amounts that the node itself counts as.
    pub(crate) fn keep_within_beside(&self, counted: Option<&LimitAmounts>, rows: &mut BitSet) {
        let left = self.left.iter().zip(amounts(counted));
        let left: Vec<i64> = left.map(|(left, own)| left.saturating_add(own)).collect();
        self.capacity.keep_at_most(&left, rows);
    }

    /// Replaces the amounts that a node counts as.
    pub(crate) fn recount(&mut self, before: Option<&LimitAmounts>, after: Option<&LimitAmounts>) {
        let counted = amounts(before).zip(amounts(after));
        for (left, (before, after)) in self.left.iter_mut().zip(counted) {
            *left = left.saturating_add(before.saturating_sub(after));
        }
    }

    /// Row that takes the smallest part of the remaining limits.
    pub(crate) fn smallest(&self, rows: &BitSet) -> Option<usize> {
        rows.iter().min_by_key(|row| self.part(*row))
    }

    /// Rows in ascending order of the part that they take of the remaining limits.
    pub(crate) fn smallest_first(&self, rows: &BitSet) -> Vec<usize> {
        let mut order: Vec<usize> = rows.iter().collect();
        order.sort_by_cached_key(|row| self.part(*row));
        order
    }

    /// Largest part that a row takes of any remaining limit.
    fn part(&self, row: usize) -> i128 {
        const WHOLE: i128 = 1 << 32;
        let taken = self.amounts.get(row).and_then(Option::as_ref);
        let taken = amounts(taken).zip(&self.left);
        let parts = taken.map(|(taken, left)| i128::from(taken) * WHOLE / i128::from(*left).max(1));
        parts.max().unwrap_or(0)
    }

    /// Per limited resource, the largest amount of any of these rows.
    pub(crate) fn most(&self, rows: &[usize]) -> LimitAmounts {
        let mut most = vec![0; self.names.len()];
        for row in rows {
            let taken = self.amounts.get(*row).and_then(Option::as_ref);
            for (most, taken) in most.iter_mut().zip(amounts(taken)) {
                *most = taken.max(*most);
            }
        }
        most.into()
    }

    /// Restricts each node to types with which no limit is exceeded for any choice of the other nodes' types. The
    /// remainder of the limits after the counted amounts is divided evenly. Each entry has the amounts that the node counts as, and
    /// its rows.
    pub(crate) fn share_out(
        &self,
        remaining: &Resources,
        nodes: &mut [(Option<&LimitAmounts>, &mut BitSet)],
    ) {
        let mut limits = self.reset(remaining);
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

    /// Counts a new node as the largest type it may become, unless types were chosen for it.
    pub(crate) fn spend(&mut self, rows: &BitSet) {
        if self.are_by_choice() {
            return;
        }
        for (left, largest) in self.left.iter_mut().zip(self.capacity.most(rows)) {
            *left = left.saturating_sub(largest.max(0));
        }
    }
}

/// Amounts per limited resource; zeros if nothing is counted.
fn amounts(of: Option<&LimitAmounts>) -> impl Iterator<Item = i64> {
    let known = of.map_or(&[][..], |amounts| amounts);
    let known = known.iter().map(|amount| (*amount).max(0));
    known.chain(std::iter::repeat(0))
}
