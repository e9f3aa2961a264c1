//! The pods that are bound already, as counting asks for them: groups are many and nodes alike, so pods are summed up once per
//! class and topology key.

use std::{collections::BTreeMap, rc::Rc};

use model::Memo;

use super::{HostLabels, Place, classes::ClassId};
use crate::algebra::{Algebra, Sym};

/// A domain, and a node in it that stands for all that are alike.
type Somewhere = (Sym, Place);
/// With how many pods there are.
type Tally = Rc<[(Somewhere, u32)]>;

#[derive(Default)]
pub(crate) struct Bound {
    /// Per class, the hosts of its pods.
    by_class: BTreeMap<ClassId, Vec<u32>>,
    /// Per topology key, the domain of each host.
    columns: BTreeMap<Sym, Rc<[Option<Sym>]>>,
    /// By where a node's labels are: Nodes that take pods are among the hosts, too.
    values: Memo<(usize, Sym), Option<Sym>>,
    tallies: BTreeMap<(ClassId, Sym), Tally>,
    domains: BTreeMap<Sym, Rc<[Somewhere]>>,
}

impl Bound {
    pub(super) fn add(&mut self, class: ClassId, host: usize) {
        if let Ok(host) = u32::try_from(host) {
            self.by_class.entry(class).or_default().push(host);
        }
    }

    pub(super) fn classes(&self) -> Vec<ClassId> {
        self.by_class.keys().copied().collect()
    }

    pub(super) fn hosts(&self, class: ClassId) -> &[u32] {
        self.by_class.get(&class).map_or(&[], |hosts| hosts)
    }

    /// How many pods of a class there are in each domain, on each kind of node.
    pub(super) fn tally(
        &mut self,
        class: ClassId,
        key: Sym,
        hosts: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Tally {
        if let Some(known) = self.tallies.get(&(class, key)) {
            return Rc::clone(known);
        }
        let column = self.column(key, hosts, algebra);
        let places = self.hosts(class).iter().filter_map(|host| {
            let at = *host as usize;
            Some(((*column.get(at)?)?, hosts.get(at)?.place))
        });
        let tally: Tally = summed_up(places).into();
        self.tallies.insert((class, key), Rc::clone(&tally));
        tally
    }

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

    /// The domains that nodes make known, on each kind of node.
    pub(super) fn domains(
        &mut self,
        key: Sym,
        nodes: &[HostLabels<'_>],
        algebra: &mut Algebra,
    ) -> Rc<[Somewhere]> {
        if let Some(known) = self.domains.get(&key) {
            return Rc::clone(known);
        }
        let values = self.values_of(key, nodes, algebra).into_iter();
        let places = values
            .zip(nodes)
            .filter_map(|(value, node)| Some((value?, node.place)));
        let domains: Rc<[Somewhere]> = summed_up(places).into_iter().map(|(one, _)| one).collect();
        self.domains.insert(key, Rc::clone(&domains));
        domains
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

/// Nodes that no filter of a group tells apart, with how often they come.
fn summed_up(places: impl Iterator<Item = Somewhere>) -> Vec<(Somewhere, u32)> {
    let mut sums: BTreeMap<_, (Somewhere, u32)> = BTreeMap::new();
    for (value, place) in places {
        let alike = (value, place.set, place.taints);
        let sum = sums.entry(alike).or_insert(((value, place), 0));
        sum.1 += 1;
    }
    sums.into_values().collect()
}
