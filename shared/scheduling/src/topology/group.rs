//! Topology group: one constraint with its counts per domain (docs/spec/scheduling.md#topology).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    algebra::{Algebra, Req, Sym},
    topology::{HostId, filter::FilterId},
};

/// Kind of a topology constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupKind {
    Spread,
    Affinity,
    AntiAffinity,
}

/// Topology group with its counts.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) kind: GroupKind,
    pub(crate) key: Sym,
    /// Whether the topology key is the hostname, so that every node is a domain.
    pub(crate) by_host: bool,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: usize,
    /// Node filter of a spread constraint.
    pub(crate) filter: Option<FilterId>,
    /// Sorted by text. Unused if `by_host`.
    domains: Vec<Domain>,
    hosts: Vec<u32>,
    /// Whether all domains that a NodePool names count, as upstream.
    pub(crate) as_named: bool,
    /// Whether a host's count is compared with the host that has the fewest pods, as in the Kubernetes scheduler.
    pub(crate) counts_hosts: bool,
    /// Hosts that are compared, and the number of hosts per number of pods.
    counted_hosts: BTreeSet<HostId>,
    tally: BTreeMap<u32, u32>,
    occupied: usize,
    /// Changes with every count.
    pub(crate) version: u32,
}

/// Domain of a group with its pods.
#[derive(Clone, Copy)]
pub(crate) struct Domain {
    pub(crate) value: Sym,
    pub(crate) count: u32,
    /// Known even without a pod in it.
    registered: bool,
}

/// Values that the pod or the node allows; `None` for any value.
pub(crate) type Allowed<'r> = Option<&'r Req>;

impl Group {
    pub(crate) fn new(kind: GroupKind, key: Sym, by_host: bool, filter: Option<FilterId>) -> Self {
        Self {
            kind,
            key,
            by_host,
            max_skew: 0,
            min_domains: 0,
            filter,
            domains: Vec::new(),
            hosts: Vec::new(),
            as_named: true,
            counts_hosts: false,
            counted_hosts: BTreeSet::new(),
            tally: BTreeMap::new(),
            occupied: 0,
            version: 0,
        }
    }

    pub(crate) fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Adds a domain, perhaps without a pod in it.
    pub(crate) fn register(&mut self, value: Sym, algebra: &Algebra) {
        if let Some(domain) = self.domain(value, algebra) {
            domain.registered = true;
        }
    }

    /// Replaces the domains that are known without a pod in them.
    pub(crate) fn set_registered(&mut self, values: &[Sym], algebra: &Algebra) {
        self.domains.retain(|domain| domain.count > 0);
        for domain in &mut self.domains {
            domain.registered = false;
        }
        for value in values {
            self.register(*value, algebra);
        }
    }

    fn domain(&mut self, value: Sym, algebra: &Algebra) -> Option<&mut Domain> {
        let at = self.position(value, algebra).unwrap_or_else(|at| {
            let (count, registered) = (0, false);
            let domain = Domain {
                value,
                count,
                registered,
            };
            self.domains.insert(at, domain);
            at
        });
        self.domains.get_mut(at)
    }

    pub(crate) fn record(&mut self, value: Sym, pods: u32, algebra: &Algebra) {
        if let Some(domain) = self.domain(value, algebra) {
            let was_empty = domain.count == 0;
            domain.count += pods;
            self.occupied += usize::from(was_empty && pods > 0);
            self.version += pods;
        }
    }

    /// Removes one recorded pod from a domain.
    pub(crate) fn unrecord(&mut self, value: Sym, algebra: &Algebra) {
        let Ok(at) = self.position(value, algebra) else {
            return;
        };
        if let Some(domain) = self.domains.get_mut(at).filter(|domain| domain.count > 0) {
            domain.count -= 1;
            self.version = self.version.saturating_sub(1);
            if domain.count == 0 {
                self.occupied = self.occupied.saturating_sub(1);
                if !domain.registered {
                    self.domains.remove(at);
                }
            }
        }
    }

    /// Removes one recorded pod from a host.
    pub(crate) fn unrecord_host(&mut self, host: HostId) {
        if let Some(count) = self.hosts.get_mut(host.0 as usize).filter(|n| **n > 0) {
            *count -= 1;
            let count = *count;
            self.occupied -= usize::from(count == 0);
            self.retally(host, count + 1, count);
            self.version = self.version.saturating_sub(1);
        }
    }

    pub(crate) fn record_host(&mut self, host: HostId) {
        let at = host.0 as usize;
        if at >= self.hosts.len() {
            self.hosts.resize(at + 1, 0);
        }
        if let Some(count) = self.hosts.get_mut(at) {
            self.occupied += usize::from(*count == 0);
            *count += 1;
            let count = *count;
            self.version += 1;
            self.retally(host, count - 1, count);
        }
    }

    /// Includes a host in comparisons, perhaps without a pod on it.
    pub(crate) fn count_host(&mut self, host: HostId) {
        if self.counts_hosts && self.counted_hosts.insert(host) {
            let count = self.on_host(host);
            *self.tally.entry(count).or_default() += 1;
        }
    }

    fn retally(&mut self, host: HostId, before: u32, after: u32) {
        if !self.counted_hosts.contains(&host) {
            return;
        }
        if let Some(hosts) = self.tally.get_mut(&before) {
            *hosts -= 1;
            if *hosts == 0 {
                self.tally.remove(&before);
            }
        }
        *self.tally.entry(after).or_default() += 1;
    }

    /// Fewest pods on any compared host; zero while there are fewer hosts than `minDomains`.
    pub(crate) fn fewest_on_host(&self) -> u32 {
        let least = self.tally.keys().next().copied().unwrap_or(0);
        let is_too_few = self.counted_hosts.len() < self.min_domains;
        if is_too_few { 0 } else { least }
    }

    pub(crate) fn on_host(&self, host: HostId) -> u32 {
        self.hosts.get(host.0 as usize).copied().unwrap_or(0)
    }

    /// Hosts with a pod of the group.
    pub(crate) fn occupied_hosts(&self) -> impl Iterator<Item = HostId> {
        (0..)
            .zip(&self.hosts)
            .filter(|(_, n)| **n > 0)
            .map(|(at, _)| HostId(at))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Domains with the fewest pods that one more pod may join within the skew. All of them are returned, because ties are
    /// open. A domain is eligible if any of `allowed_values` allows it.
    pub(crate) fn emptiest_domains(
        &self,
        allowed_values: &[Allowed<'_>],
        node: Allowed<'_>,
        counts_itself: bool,
        algebra: &Algebra,
    ) -> Vec<Sym> {
        let is_eligible = |value| {
            allowed_values
                .iter()
                .any(|allowed| has(algebra, *allowed, value))
        };
        let eligible = self.domains.iter().filter(|d| is_eligible(d.value));
        let (number, least) = eligible.fold((0, u32::MAX), |(number, least), domain| {
            (number + 1, least.min(domain.count))
        });
        let least = if number < self.min_domains { 0 } else { least };
        let usable = |domain: &&Domain| {
            has(algebra, node, domain.value)
                && i64::from(domain.count) + i64::from(counts_itself) - i64::from(least)
                    <= self.max_skew
        };
        let lowest = self.domains.iter().filter(usable).map(|d| d.count).min();
        self.domains
            .iter()
            .filter(|domain| Some(domain.count) == lowest && usable(domain))
            .map(|domain| domain.value)
            .collect()
    }

    /// Domains with a pod of the group.
    pub(crate) fn occupied_domains(
        &self,
        pod: Allowed<'_>,
        node: Allowed<'_>,
        algebra: &Algebra,
    ) -> Vec<Sym> {
        let both = |d: &&Domain| has(algebra, pod, d.value) && has(algebra, node, d.value);
        let occupied = self.domains.iter().filter(|domain| domain.count > 0);
        occupied.filter(both).map(|domain| domain.value).collect()
    }

    /// Domains in which the first pod of a group may start; none while the pod could join others. Under upstream rules,
    /// only domains that the pod can reach count as others.
    pub(crate) fn first_domains(
        &self,
        pod: Allowed<'_>,
        node: Allowed<'_>,
        as_upstream: bool,
        algebra: &Algebra,
    ) -> Vec<Sym> {
        let open = self.domains.iter().filter(|d| has(algebra, pod, d.value));
        let may_join = match as_upstream {
            true => open.clone().any(|domain| domain.count > 0),
            false => !self.is_empty(),
        };
        if may_join {
            return Vec::new();
        }
        let here = open.filter(|domain| has(algebra, node, domain.value));
        here.map(|domain| domain.value).collect()
    }

    /// Domains without a pod of the group.
    pub(crate) fn empty_domains(
        &self,
        pod: Allowed<'_>,
        node: Allowed<'_>,
        algebra: &Algebra,
    ) -> Vec<Sym> {
        self.domains
            .iter()
            .filter(|d| d.count == 0 && has(algebra, pod, d.value) && has(algebra, node, d.value))
            .map(|domain| domain.value)
            .collect()
    }

    fn position(&self, value: Sym, algebra: &Algebra) -> Result<usize, usize> {
        self.domains
            .binary_search_by(|domain| algebra.text(domain.value).cmp(algebra.text(value)))
    }
}

fn has(algebra: &Algebra, allowed: Allowed<'_>, value: Sym) -> bool {
    allowed.is_none_or(|req| algebra.has(req, value))
}

#[cfg(test)]
mod tests;
