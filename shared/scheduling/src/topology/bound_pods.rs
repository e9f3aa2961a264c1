//! Bound pods, summed once per class and topology key, because many groups count the same pods on equal nodes.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use model::Memo;

use super::{HostLabels, Place, classes::ClassId};
use crate::algebra::{Algebra, Sym};

/// Domain, and the place of one node in it that represents all equal nodes.
pub(super) type DomainPlace = (Sym, Place);
/// Places with the number of pods in them.
pub(super) type Tally = Rc<[(DomainPlace, u32)]>;

/// Sums that all simulations on one cluster share.
#[derive(Clone, Default)]
pub(crate) struct BoundPods {
    /// Per class, the hosts of its pods.
    by_class: Rc<BTreeMap<ClassId, Vec<u32>>>,
    sums: Rc<RefCell<Sums>>,
}

/// Memoized sums.
#[derive(Default)]
struct Sums {
    /// Per topology key, the domain of each host.
    columns: BTreeMap<Sym, Rc<[Option<Sym>]>>,
    /// By address of the label map: a Node that takes pods occurs as host and as node.
    values: Memo<(usize, Sym), Option<Sym>>,
    tallies: BTreeMap<(ClassId, Sym), Tally>,
    domains: BTreeMap<Sym, Tally>,
}

impl BoundPods {
    pub(super) fn add(&mut self, class: ClassId, host: usize) {
        if let Ok(host) = u32::try_from(host) {
            let by_class = Rc::make_mut(&mut self.by_class);
            by_class.entry(class).or_default().push(host);
        }
    }

    pub(super) fn classes(&self) -> Vec<ClassId> {
        self.by_class.keys().copied().collect()
    }

    pub(super) fn hosts(&self, class: ClassId) -> &[u32] {
        self.by_class.get(&class).map_or(&[], |hosts| hosts)
    }

    /// Computes the domains of a key for all nodes.
    pub(super) fn precompute(
        &self,
        key: Sym,
        hosts: &[HostLabels<'_>],
        nodes: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) {
        self.sums.borrow_mut().column(key, hosts, algebra);
        self.domains(key, nodes, algebra);
    }

    /// Pods of a class per domain and kind of node.
    pub(super) fn tally(
        &self,
        class: ClassId,
        key: Sym,
        hosts: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Tally {
        let mut sums = self.sums.borrow_mut();
        if let Some(known) = sums.tallies.get(&(class, key)) {
            return Rc::clone(known);
        }
        let column = sums.column(key, hosts, algebra);
        let places = self.hosts(class).iter();
        let places = places.filter_map(|host| at_host(*host, &column, hosts));
        let tally: Tally = summed_up(places).into();
        sums.tallies.insert((class, key), Rc::clone(&tally));
        tally
    }

    /// Domain of a host.
    pub(super) fn domain_of_host(
        &self,
        host: u32,
        key: Sym,
        hosts: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Option<DomainPlace> {
        let column = self.sums.borrow_mut().column(key, hosts, algebra);
        at_host(host, &column, hosts)
    }

    /// Domains of the nodes that take pods, per kind of node, with the number of nodes.
    pub(super) fn domains(
        &self,
        key: Sym,
        nodes: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Tally {
        let mut sums = self.sums.borrow_mut();
        if let Some(known) = sums.domains.get(&key) {
            return Rc::clone(known);
        }
        let values = sums.values_of(key, nodes, algebra).into_iter();
        let places = values
            .zip(nodes)
            .filter_map(|(value, node)| Some((value?, node.place)));
        let domains: Tally = summed_up(places).into();
        sums.domains.insert(key, Rc::clone(&domains));
        domains
    }
}

fn at_host(host: u32, column: &[Option<Sym>], hosts: &[HostLabels<'_>]) -> Option<DomainPlace> {
    let at = host as usize;
    Some(((*column.get(at)?)?, hosts.get(at)?.place))
}

impl Sums {
    fn column(
        &mut self,
        key: Sym,
        hosts: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Rc<[Option<Sym>]> {
        if let Some(known) = self.columns.get(&key) {
            return Rc::clone(known);
        }
        let column: Rc<[Option<Sym>]> = self.values_of(key, hosts, algebra).into();
        self.columns.insert(key, Rc::clone(&column));
        column
    }

    fn values_of(
        &mut self,
        key: Sym,
        nodes: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Vec<Option<Sym>> {
        let name = algebra.text(key).to_owned();
        let values = nodes.iter().map(|node| {
            let labels = (std::ptr::from_ref(node.labels).addr(), key);
            if let Some(known) = self.values.get(&labels) {
                return known;
            }
            let value = node.labels.get(&name);
            let value = value.map(|value| algebra.symbol(value));
            self.values.insert(labels, value);
            value
        });
        values.collect()
    }
}

/// Sums without some of their parts.
pub(super) fn without(sum: &Tally, parts: impl Iterator<Item = DomainPlace>) -> Tally {
    let alike =
        |a: &DomainPlace, b: &DomainPlace| (a.0, a.1.set, a.1.taints) == (b.0, b.1.set, b.1.taints);
    let mut left: Option<Vec<(DomainPlace, u32)>> = None;
    for part in parts {
        let left = left.get_or_insert_with(|| sum.to_vec());
        if let Some((_, count)) = left.iter_mut().find(|(known, _)| alike(known, &part)) {
            *count = count.saturating_sub(1);
        }
    }
    match left {
        Some(mut left) => {
            left.retain(|(_, count)| *count > 0);
            left.into()
        }
        None => Rc::clone(sum),
    }
}

/// Places that no group's filter distinguishes, with their frequency.
fn summed_up(places: impl Iterator<Item = DomainPlace>) -> Vec<(DomainPlace, u32)> {
    let mut sums: BTreeMap<_, (DomainPlace, u32)> = BTreeMap::new();
    for (value, place) in places {
        let alike = (value, place.set, place.taints);
        let sum = sums.entry(alike).or_insert(((value, place), 0));
        sum.1 += 1;
    }
    sums.into_values().collect()
}
