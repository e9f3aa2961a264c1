//! Amounts that a new node counts as against limits before its type is known.

use crate::{
    algebra::SetId, bits::BitSet, limits::LimitAmounts, min_values,
    placement_context::PlacementContext, strategy::LimitAccounting,
};

impl PlacementContext<'_> {
    /// Amounts of the first types that reach `minValues`, ordered by price or by their part of the limits. `None` without
    /// limits, or if the largest type counts.
    pub(super) fn chosen(
        &mut self,
        template: usize,
        set: SetId,
        rows: &BitSet,
    ) -> Option<LimitAmounts> {
        let known = self.templates.get(template)?;
        if !known.limits.are_by_choice() {
            return None;
        }
        let (at, has_min_values) = (known.catalog, known.has_min_values);
        let count = if has_min_values { usize::MAX } else { 1 };
        let mut order: Vec<usize> = match self.counted_as {
            LimitAccounting::Smallest if has_min_values => known.limits.smallest_first(rows),
            LimitAccounting::Smallest => known.limits.smallest(rows).into_iter().collect(),
            LimitAccounting::Cheapest | LimitAccounting::Largest => {
                let prices = self.prices(at, set);
                let usable = prices.iter().map(|(row, _)| *row);
                let usable = usable.filter(|row| rows.contains(*row));
                usable.take(count).collect()
            }
        };
        if order.is_empty() {
            order.extend(rows.iter());
        }
        let number = match self.catalogs.get(at).filter(|_| has_min_values) {
            Some(catalog) => min_values::fewest(set, &order, rows, catalog, &self.algebra),
            None => 1,
        };
        let known = self.templates.get(template)?;
        let chosen = order.get(..number.min(order.len()))?;
        Some(known.limits.most(chosen))
    }
}
