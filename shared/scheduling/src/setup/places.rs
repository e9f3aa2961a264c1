//! Places of nodes, reduced to the labels that matter to the solve.

use std::collections::{BTreeMap, BTreeSet};

use model::{labels, taint::Taint};

use crate::{
    algebra::{Algebra, SetId, Undefined},
    tolerance::{TaintsId, Tolerance},
    topology::{HostId, HostLabels, Place, daemons::Daemons},
};

/// Interns node labels, limited to `relevant_keys`, so that equal nodes have equal places.
pub(super) struct PlaceInterner<'w, 'a> {
    relevant_keys: &'w BTreeSet<String>,
    algebra: &'w mut Algebra,
    tolerance: &'w mut Tolerance<'a>,
    hosts: BTreeMap<&'a str, HostId>,
    /// By address of the label map: a Node that takes pods is interned both as a host and as a node.
    sets: BTreeMap<usize, (&'a str, SetId)>,
}

impl<'w, 'a> PlaceInterner<'w, 'a> {
    pub(super) fn new(
        relevant_keys: &'w BTreeSet<String>,
        algebra: &'w mut Algebra,
        tolerance: &'w mut Tolerance<'a>,
    ) -> Self {
        Self {
            relevant_keys,
            algebra,
            tolerance,
            hosts: BTreeMap::new(),
            sets: BTreeMap::new(),
        }
    }

    pub(super) fn next_host(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn place(
        &mut self,
        all: &'a BTreeMap<String, String>,
        hostname: &'a str,
        taints: Vec<&'a Taint>,
    ) -> HostLabels<'a> {
        let next = HostId(self.next_host());
        let host = *self.hosts.entry(hostname).or_insert(next);
        let taints: TaintsId = self.tolerance.taints(taints);
        HostLabels {
            labels: all,
            place: Place {
                set: self.set(all, hostname),
                host,
                taints,
                undefined: Undefined::Refused,
                daemons: Daemons::default(),
            },
        }
    }

    fn set(&mut self, all: &'a BTreeMap<String, String>, hostname: &'a str) -> SetId {
        let address = std::ptr::from_ref(all).addr();
        if let Some((known, set)) = self.sets.get(&address)
            && *known == hostname
        {
            return *set;
        }
        let mut set = Algebra::EMPTY;
        for key in self.relevant_keys {
            let own = labels::spellings(key).filter_map(|spelling| all.get(spelling));
            let name = (key == labels::HOSTNAME).then_some(hostname);
            for value in own.map(String::as_str).chain(name) {
                let (key, value) = (self.algebra.symbol(key), self.algebra.symbol(value));
                let req = self.algebra.one_of(vec![value]);
                set = self.algebra.add(set, key, req);
            }
        }
        self.sets.insert(address, (hostname, set));
        set
    }
}
