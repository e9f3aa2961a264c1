//! Index of instance types by capacity: per resource, the sorted amounts, each with the set of rows that have at least that
//! much. A fit check is one AND per resource.

use crate::bits::BitSet;

/// Rows of instance types, indexed by the capacity that they leave for pods.
pub(crate) struct CapacityIndex {
    steps: Vec<Steps>,
}

/// Index of one resource.
struct Steps {
    /// Distinct amounts in ascending order.
    amounts: Vec<i64>,
    /// Per amount, the rows that have at least that much.
    at_least: Vec<BitSet>,
    /// All rows with their amounts, in descending order.
    descending: Vec<(i64, usize)>,
}

impl CapacityIndex {
    /// `left` has one vector per row, or `None` for rows without capacity.
    pub(crate) fn new(left: &[Option<Box<[i64]>>], dimensions: usize) -> Self {
        let steps = (0..dimensions).map(|at| Steps::new(left, at)).collect();
        Self { steps }
    }

    /// Retains the rows with at least `total` of every resource.
    pub(crate) fn keep_fitting(&self, total: &[i64], rows: &mut BitSet) {
        for (steps, wanted) in self.steps.iter().zip(total) {
            match steps
                .at_least
                .get(steps.amounts.partition_point(|a| a < wanted))
            {
                Some(enough) => rows.and(enough),
                None => rows.clear(),
            }
        }
    }

    /// Retains the rows with at most `total` of every resource.
    pub(crate) fn keep_at_most(&self, total: &[i64], rows: &mut BitSet) {
        for (steps, allowed) in self.steps.iter().zip(total) {
            let beyond = steps.amounts.partition_point(|a| a <= allowed);
            if let Some(more) = steps.at_least.get(beyond) {
                rows.subtract(more);
            }
        }
    }

    /// Largest amount of any of `rows`, per resource.
    pub(crate) fn most<'r>(&'r self, rows: &'r BitSet) -> impl Iterator<Item = i64> + 'r {
        self.steps.iter().map(|steps| {
            let best = steps.descending.iter().find(|(_, row)| rows.contains(*row));
            best.map_or(i64::MIN, |(amount, _)| *amount)
        })
    }
}

impl Steps {
    fn new(left: &[Option<Box<[i64]>>], at: usize) -> Self {
        let amount = |row: &Option<Box<[i64]>>| row.as_ref().and_then(|left| left.get(at).copied());
        let mut descending: Vec<(i64, usize)> = left
            .iter()
            .enumerate()
            .filter_map(|(row, left)| Some((amount(left)?, row)))
            .collect();
        descending.sort_unstable_by(|a, b| b.cmp(a));
        let (mut amounts, mut at_least) = (Vec::new(), Vec::new());
        let mut so_far = BitSet::none(left.len());
        for (index, (amount, row)) in descending.iter().enumerate() {
            so_far.insert(*row);
            if descending.get(index + 1).map(|next| next.0) != Some(*amount) {
                amounts.push(*amount);
                at_least.push(so_far.clone());
            }
        }
        amounts.reverse();
        at_least.reverse();
        Self {
            amounts,
            at_least,
            descending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filtered_by_capacity() {
        let left = [Some(vec![4, 10].into()), None, Some(vec![8, 5].into())];
        let room = CapacityIndex::new(&left, 2);
        let fitting = |total: [i64; 2]| {
            let mut rows = BitSet::all(3);
            room.keep_fitting(&total, &mut rows);
            rows.iter().collect::<Vec<_>>()
        };
        assert_eq!(fitting([0, 0]), [0, 2]);
        assert_eq!(fitting([5, 5]), [2]);
        assert_eq!(fitting([4, 6]), [0]);
        assert_eq!(fitting([9, 0]), [0; 0]);
        let mut small = BitSet::all(3);
        room.keep_at_most(&[7, 10], &mut small);
        assert_eq!(small.iter().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(room.most(&BitSet::all(3)).collect::<Vec<_>>(), [8, 10]);
    }
}
