//! NodePool as a template of new nodes: requirements, usable instance types, daemons, and remaining limits
//! (docs/spec/scheduling.md#template, docs/spec/scheduling.md#daemon-overhead, docs/spec/scheduling.md#limits).

use std::rc::Rc;

use model::{
    labels,
    pod::{HostPort, Pod},
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::{MinValuesPolicy, Optimize},
};

use crate::{
    algebra::{Algebra, SetId, Undefined},
    amounts::{self, Dimensions},
    bits::BitSet,
    capacity_index::CapacityIndex,
    catalog::Catalog,
    input::{Options, Pool},
    limits::{LimitCounting, Limits},
    min_values,
    spec::Spec,
    tolerance::{TaintsId, Tolerance},
    topology::daemons::Daemons,
};

/// NodePool as a template of new nodes.
#[derive(Clone)]
pub(crate) struct Template {
    pub(crate) set: SetId,
    pub(crate) taints: TaintsId,
    pub(crate) catalog: usize,
    /// Rows of the catalog that the NodePool can launch for the smallest pod.
    pub(crate) base: BitSet,
    pub(crate) room: Rc<CapacityIndex>,
    /// Per row of the catalog, the capacity left for pods; `None` for rows outside `base`.
    pub(crate) left: Rc<[Option<Box<[i64]>>]>,
    pub(crate) daemons: Rc<[DaemonGroup]>,
    pub(crate) limits: Limits,
    pub(crate) has_min_values: bool,
    /// Whether `minValues` alone excludes all types.
    pub(crate) min_values_unmet: bool,
}

/// Types that run the same daemons.
pub(crate) struct DaemonGroup {
    pub(crate) rows: BitSet,
    pub(crate) daemons: Daemons,
    pub(crate) overhead: Box<[i64]>,
    pub(crate) ports: Vec<HostPort>,
}

/// Daemon pod with its requests and requirements, computed once.
#[derive(Clone)]
pub(crate) struct Daemon<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) requests: Box<[i64]>,
    /// Node selector combined with each required term.
    pub(crate) alternatives: Vec<SetId>,
}

impl<'a> Daemon<'a> {
    pub(crate) fn new(pod: &'a Pod, dimensions: &Dimensions, algebra: &mut Algebra) -> Self {
        let spec = Spec::new(pod, model::snapshot::PreferencePolicy::Ignore);
        let alternatives = spec.alternatives();
        Self {
            pod,
            requests: dimensions.vector(&pod.requests),
            alternatives: alternatives
                .iter()
                .map(|all| algebra.set_of(all.0.values()))
                .collect(),
        }
    }
}

/// Requirements of a NodePool's nodes. They include the two lifecycle labels, so that daemons that select on these are
/// counted.
pub(crate) fn requirements(pool: &Pool<'_>) -> Requirements {
    let mut all = Requirements::from_selector(pool.requirements);
    for requirement in Requirements::from_labels(&pool.labels).0.into_values() {
        all.add(requirement);
    }
    for key in [labels::REGISTERED, labels::INITIALIZED] {
        all.add(Requirement::new(key, Operator::In, ["true".to_owned()]));
    }
    all
}

impl Template {
    #[expect(
        clippy::too_many_arguments,
        reason = "borrows parts of the indexes that are still being built"
    )]
    pub(crate) fn new<'a>(
        pool: &Pool<'a>,
        set: SetId,
        taints: TaintsId,
        at: usize,
        catalog: &mut Catalog<'a>,
        daemons: &[Daemon<'a>],
        dimensions: &Dimensions,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
        options: &Options<'_>,
    ) -> Self {
        let strict_min_values = options.min_values_policy == MinValuesPolicy::Strict;
        let matching = catalog.matching(set, algebra);
        let mut base = catalog.memoized(matching).clone();
        for (row, variant) in catalog.rows.iter().enumerate() {
            if variant.allocatable.0.values().any(|amount| *amount < 0) {
                base.remove(row);
            }
        }
        let has_min_values = algebra
            .set(set)
            .iter()
            .any(|(_, req)| algebra.req(*req).min_values > 0);
        let min_values_unmet = has_min_values
            && strict_min_values
            && !base.is_empty()
            && min_values::unmet(set, &base, catalog, algebra).is_some();
        if min_values_unmet {
            base.clear();
        }
        let daemons = groups(
            set, taints, catalog, daemons, dimensions, algebra, tolerance,
        );
        let left: Rc<[Option<Box<[i64]>>]> = (0..catalog.rows.len())
            .map(|row| {
                let variant = catalog.rows.get(row).filter(|_| base.contains(row))?;
                let mut left = dimensions.vector(&variant.allocatable);
                let group = daemons.iter().find(|group| group.rows.contains(row))?;
                for (left, overhead) in left.iter_mut().zip(&group.overhead) {
                    *left = left.saturating_sub(*overhead);
                }
                Some(left)
            })
            .collect();
        let counting = match options.optimize {
            Optimize::Cost => LimitCounting::Chosen,
            Optimize::Upstream => LimitCounting::Largest,
        };
        Self {
            set,
            taints,
            catalog: at,
            base,
            room: Rc::new(CapacityIndex::new(&left, dimensions.len())),
            left,
            daemons: daemons.into(),
            limits: Limits::new(&pool.remaining, catalog, counting),
            has_min_values,
            min_values_unmet,
        }
    }

    /// Smallest daemon overhead of any of these types, per resource.
    pub(crate) fn least_overhead(&self, rows: &BitSet, dimensions: usize) -> Vec<i64> {
        let groups = self.daemons.iter().filter(|g| g.rows.intersects(rows));
        groups
            .map(|group| group.overhead.to_vec())
            .reduce(|a, b| a.iter().zip(&b).map(|(a, b)| *a.min(b)).collect())
            .unwrap_or_else(|| vec![0; dimensions])
    }
}

/// Groups the types by the daemons that run on them.
fn groups(
    set: SetId,
    taints: TaintsId,
    catalog: &mut Catalog<'_>,
    daemons: &[Daemon<'_>],
    dimensions: &Dimensions,
    algebra: &mut Algebra,
    tolerance: &Tolerance<'_>,
) -> Vec<DaemonGroup> {
    let mut groups = vec![DaemonGroup {
        rows: catalog.all().clone(),
        daemons: Daemons::default(),
        overhead: vec![0; dimensions.len()].into(),
        ports: Vec::new(),
    }];
    for (at, daemon) in daemons.iter().enumerate() {
        if !tolerance.tolerated_by_daemon(&daemon.pod.tolerations, taints) {
            continue;
        }
        let mut hosts = BitSet::none(catalog.rows.len());
        for alternative in &daemon.alternatives {
            let suits = algebra.narrow(set, *alternative, Undefined::WellKnown);
            if suits.is_some() {
                hosts.or(&catalog.agreeing(*alternative, algebra));
            }
        }
        groups = groups
            .into_iter()
            .flat_map(|group| split(group, &hosts, daemon, Daemons::only(at)))
            .collect();
    }
    groups
}

fn split(
    group: DaemonGroup,
    hosts: &BitSet,
    daemon: &Daemon<'_>,
    itself: Daemons,
) -> Vec<DaemonGroup> {
    let (mut with, mut without) = (group.rows.clone(), group.rows.clone());
    with.and(hosts);
    without.subtract(hosts);
    let mut parts = Vec::with_capacity(2);
    if !with.is_empty() {
        let mut overhead = group.overhead.clone();
        amounts::add(&mut overhead, &daemon.requests);
        let ports = [group.ports.as_slice(), &daemon.pod.host_ports].concat();
        parts.push(DaemonGroup {
            rows: with,
            daemons: group.daemons.with(itself),
            overhead,
            ports,
        });
    }
    if !without.is_empty() {
        parts.push(DaemonGroup {
            rows: without,
            ..group
        });
    }
    parts
}
