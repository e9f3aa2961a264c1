//! Amounts that a new node counts as against limits before its type is known.

use crate::{
    algebra::SetId, bits::Bits, limits::Amounts, min_values, strategy::CountedAs, world::World,
};

impl World<'_> {
    /// Amounts of the first types that reach `minValues`, ordered by price or by their part of the limits. `None` without
    /// limits, or if the largest type counts.
    pub(super) fn chosen(&mut self, template: usize, set: SetId, rows: &Bits) -> Option<Amounts> {
        let known = self.templates.get(template)?;
        if !known.limits.are_by_choice() {
            return None;
        }
        let (at, has_min_values) = (known.catalog, known.has_min_values);
        let looked_at = if has_min_values { usize::MAX } else { 1 };
        let mut order: Vec<usize> = match self.counted_as {
            CountedAs::Smallest if has_min_values => known.limits.smallest_first(rows),
            CountedAs::Smallest => known.limits.smallest(rows).into_iter().collect(),
            CountedAs::Cheapest | CountedAs::Largest => {
                let prices = self.prices(at, set);
                let usable = prices.iter().map(|(row, _)| *row);
                let usable = usable.filter(|row| rows.contains(*row));
                usable.take(looked_at).collect()
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
