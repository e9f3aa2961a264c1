//! Indexes that requests with the same NodePools and DaemonSets share: interned labels, indexed instance types, and the
//! capacity that daemons leave of each type.

use std::{collections::BTreeMap, rc::Rc};

use model::{NanosPerHour, labels};

use crate::{
    algebra::Algebra,
    amounts::Dimensions,
    catalog::Catalog,
    input::{Input, Options, Pool},
    reservations,
    template::{self, Daemon, Template},
    tolerance::Tolerance,
    topology::universe::DomainSource,
};

/// Indexes shared by several solves. Each solve works on a copy, so sharing does not change results.
pub struct PrecomputedIndexes<'a> {
    pub(crate) algebra: Algebra,
    pub(crate) tolerance: Tolerance<'a>,
    pub(crate) dimensions: Rc<Dimensions>,
    pub(crate) catalogs: Vec<Catalog<'a>>,
    /// Per NodePool, in the order of the input.
    pub(crate) sources: Rc<[DomainSource]>,
    pub(crate) templates: Vec<Template>,
    pub(crate) daemons: Rc<[Daemon<'a>]>,
    /// Per reservation, the remaining instances.
    pub(crate) reserved: BTreeMap<&'a str, u32>,
}

impl<'a> PrecomputedIndexes<'a> {
    /// Computes the indexes. The input should contain every pod of the requests that will share them.
    pub fn of(input: &Input<'a>) -> Self {
        let Input {
            options,
            pools,
            daemons,
            pods,
            ..
        } = input;
        let provider = options.well_known_labels.iter().map(String::as_str);
        let reservation = Some(options.reservation_id_label).filter(|label| !label.is_empty());
        let known = labels::WELL_KNOWN.into_iter().chain(provider);
        let mut algebra = Algebra::new(known.chain(reservation));
        let mut tolerance = Tolerance::default();
        let all = daemons.iter().chain(pods);
        let dimensions = Dimensions::of(all.map(|pod| &pod.requests));
        let (mut catalogs, which) = catalogs(pools, &mut algebra, options);
        let sources: Rc<[DomainSource]> = pools
            .iter()
            .zip(which)
            .map(|(pool, catalog)| DomainSource {
                set: algebra.set_of(template::requirements(pool).0.values()),
                taints: tolerance.taints(pool.taints.iter().collect()),
                catalog,
            })
            .collect();
        let daemons: Rc<[Daemon<'a>]> = daemons
            .iter()
            .map(|pod| Daemon::new(pod, &dimensions, &mut algebra))
            .collect();
        let mut templates = Vec::with_capacity(sources.len());
        for (pool, source) in pools.iter().zip(sources.iter()) {
            if let Some(catalog) = catalogs.get_mut(source.catalog) {
                templates.push(Template::new(
                    pool,
                    source.set,
                    source.taints,
                    source.catalog,
                    catalog,
                    &daemons,
                    &dimensions,
                    &mut algebra,
                    &mut tolerance,
                    options,
                ));
            }
        }
        Self {
            algebra,
            tolerance,
            dimensions: Rc::new(dimensions),
            catalogs,
            sources,
            templates,
            daemons,
            reserved: reservations::capacities(pools.iter().flat_map(|pool| pool.types)),
        }
    }

    /// Whether the indexes cover an input with the same NodePools and DaemonSets: its pods request the same resources.
    fn suits(&self, input: &Input<'_>) -> bool {
        let all = input.daemons.iter().chain(&input.pods);
        *self.dimensions == Dimensions::of(all.map(|pod| &pod.requests))
    }

    /// Returns `known` if it covers the input, else new indexes.
    pub(crate) fn or_own(known: Option<Rc<Self>>, input: &Input<'a>) -> Rc<Self> {
        let known = known.filter(|known| known.suits(input));
        known.unwrap_or_else(|| Rc::new(Self::of(input)))
    }

    /// Templates of the input's NodePools with its remaining limits.
    pub(crate) fn node_templates(&self, pools: &[Pool<'_>]) -> Vec<Template> {
        let node_templates = self.templates.iter().zip(pools);
        let node_templates = node_templates.map(|(node_template, pool)| Template {
            limits: node_template.limits.reset(&pool.remaining),
            ..node_template.clone()
        });
        node_templates.collect()
    }
}

/// Distinct pairs of instance type list and surcharge, and the index of the one that each NodePool uses.
fn catalogs<'a>(
    pools: &[Pool<'a>],
    algebra: &mut Algebra,
    options: &Options<'_>,
) -> (Vec<Catalog<'a>>, Vec<usize>) {
    let mut catalogs: Vec<Catalog<'a>> = Vec::new();
    let mut known: BTreeMap<(usize, usize, NanosPerHour), usize> = BTreeMap::new();
    let mut which = Vec::with_capacity(pools.len());
    for pool in pools {
        let (address, length) = (pool.types.as_ptr().addr(), pool.types.len());
        let priced = (address, length, pool.surcharge);
        let at = *known.entry(priced).or_insert_with(|| {
            catalogs.push(Catalog::new(pool.types, pool.surcharge, algebra, options));
            catalogs.len() - 1
        });
        which.push(at);
    }
    (catalogs, which)
}
