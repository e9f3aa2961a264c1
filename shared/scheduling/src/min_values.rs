//! `minValues`: number of distinct values of a label that the remaining types must have
//! (docs/spec/scheduling.md#min-values).

use std::collections::BTreeSet;

use crate::{
    algebra::{Algebra, Req, SetId, Sym},
    bits::BitSet,
    catalog::Catalog,
};

/// Key whose `minValues` the types do not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnmetMinValues {
    pub(crate) key: Sym,
    pub(crate) wanted: u32,
    pub(crate) reached: u32,
}

pub(crate) fn unmet(
    set: SetId,
    rows: &BitSet,
    catalog: &Catalog<'_>,
    algebra: &Algebra,
) -> Option<UnmetMinValues> {
    let wanted = algebra.set(set);
    wanted.iter().find_map(|&(key, req)| {
        let wanted = algebra.req(req).min_values;
        let reached = reached(key, wanted, rows, catalog, algebra);
        (reached < wanted).then_some(UnmetMinValues {
            key,
            wanted,
            reached,
        })
    })
}

/// Smallest prefix of `order` that reaches all `minValues`; all rows if none does, one row without `minValues`.
pub(crate) fn fewest(
    set: SetId,
    order: &[usize],
    rows: &BitSet,
    catalog: &Catalog<'_>,
    algebra: &Algebra,
) -> usize {
    let is_enough = |number: usize| {
        let mut first = rows.clone();
        first.clear();
        for row in order.iter().take(number) {
            first.insert(*row);
        }
        unmet(set, &first, catalog, algebra).is_none()
    };
    let (mut too_few, mut enough) = (0, 1);
    while enough < order.len() && !is_enough(enough) {
        too_few = enough;
        enough = enough.saturating_mul(2).min(order.len());
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if is_enough(middle) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    enough
}

/// Number of distinct values among the types, up to `wanted`.
fn reached(key: Sym, wanted: u32, rows: &BitSet, catalog: &Catalog<'_>, algebra: &Algebra) -> u32 {
    let mut values: BTreeSet<Sym> = BTreeSet::new();
    for (req, having) in catalog.column(key) {
        let enough = u32::try_from(values.len()).is_ok_and(|len| len >= wanted);
        if enough {
            break;
        }
        let req = algebra.req(*req);
        if !req.complement && having.intersects(rows) {
            values.extend(req.values.iter().copied());
        }
    }
    u32::try_from(values.len()).unwrap_or(u32::MAX).min(wanted)
}

/// Set with every unreachable `minValues` lowered to the number that the types have (policy BestEffort), and whether any
/// was lowered.
pub(crate) fn lowered(
    mut set: SetId,
    rows: &BitSet,
    catalog: &Catalog<'_>,
    algebra: &mut Algebra,
) -> (SetId, bool) {
    let mut any = false;
    while let Some(unmet) = unmet(set, rows, catalog, algebra) {
        let Some(req) = algebra.get(set, unmet.key) else {
            break;
        };
        let lower = Req {
            min_values: unmet.reached,
            ..(*algebra.req(req)).clone()
        };
        let req = algebra.intern_req(lower);
        set = algebra.replace(set, unmet.key, req);
        any = true;
    }
    (set, any)
}
