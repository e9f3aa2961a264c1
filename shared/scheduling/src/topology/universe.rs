//! Domains of a topology key: every value that some NodePool could give a node (docs/spec/scheduling.md#topology-domains).

use std::collections::BTreeMap;

use crate::{
    algebra::{Algebra, SetId, Sym},
    catalog::Catalog,
    tolerance::{TaintsId, Tolerance, TolerationsId},
};

/// Properties of a NodePool that determine its domains.
pub(crate) struct DomainSource {
    pub(crate) set: SetId,
    pub(crate) taints: TaintsId,
    pub(crate) catalog: usize,
}

/// Per key, the domains, each with the taint lists of nodes that could be launched there.
#[derive(Default)]
pub(crate) struct KnownDomains(BTreeMap<Sym, BTreeMap<Sym, Vec<TaintsId>>>);

impl KnownDomains {
    pub(crate) fn new(
        keys: impl IntoIterator<Item = Sym>,
        sources: &[DomainSource],
        catalogs: &[Catalog<'_>],
        algebra: &mut Algebra,
    ) -> Self {
        let mut universe = Self::default();
        for key in keys {
            let domains = universe.0.entry(key).or_default();
            for source in sources {
                let Some(catalog) = catalogs.get(source.catalog) else {
                    continue;
                };
                for value in values(key, source.set, catalog, algebra) {
                    let taints = domains.entry(value).or_default();
                    if !taints.contains(&source.taints) {
                        taints.push(source.taints);
                    }
                }
            }
        }
        universe
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Sym> {
        self.0.keys().copied()
    }

    /// Domains of `key` that a pod with these tolerations could be in; all domains if `None`.
    pub(crate) fn reachable(
        &self,
        key: Sym,
        tolerations: Option<TolerationsId>,
        tolerance: &mut Tolerance<'_>,
    ) -> Vec<Sym> {
        let Some(domains) = self.0.get(&key) else {
            return Vec::new();
        };
        let mut open = |taints: &[TaintsId]| {
            tolerations.is_none_or(|pod| taints.iter().any(|t| tolerance.tolerates(pod, *t)))
        };
        domains
            .iter()
            .filter(|(_, taints)| open(taints))
            .map(|(value, _)| *value)
            .collect()
    }
}

/// Values of `key` that the NodePool's requirements or one of its types name.
pub(crate) fn values(
    key: Sym,
    set: SetId,
    catalog: &Catalog<'_>,
    algebra: &mut Algebra,
) -> Vec<Sym> {
    let pool = algebra.get(set, key);
    let stated = catalog.column(key).iter();
    let both = stated.map(|(requirement, _)| match pool {
        Some(pool) => algebra.intersection(pool, *requirement),
        None => *requirement,
    });
    let mut found: Vec<_> = both.chain(pool).collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|id| algebra.req(id))
        .filter(|req| !req.complement)
        .flat_map(|req| req.values.to_vec())
        .collect()
}
