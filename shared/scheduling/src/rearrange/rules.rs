//! Topology in the model: for each kind of pod, the constraints that apply to it and the groups that count it.

use std::collections::BTreeMap;

use model::pod::HostPort;

use crate::{
    algebra::Sym,
    node::Node,
    placement_context::PlacementContext,
    ports,
    shape::ShapeCore,
    topology::{GroupId, group::GroupKind},
};

/// Constraint with one count per host.
#[derive(Clone, Copy)]
pub(super) struct HostRule {
    /// Column in the per-host counts.
    pub(super) column: usize,
    /// Largest count on a host that the pod may join.
    pub(super) most: Option<i64>,
    pub(super) counts: bool,
}

/// Constraint with one count per domain of a topology key.
#[derive(Clone, Copy)]
pub(super) struct DomainRule {
    /// Row in the per-domain counts.
    pub(super) row: usize,
    pub(super) key: usize,
    /// Requirement on the counts; `None` if the group only counts the pod.
    pub(super) demand: Option<Demand>,
    pub(super) counts: bool,
    /// Domains whose counts decide, as a bit set. The nodes and offers of the pod's kind say where the pod itself may be.
    pub(super) eligible: u64,
}

/// Condition on the count of the domain that the pod joins.
#[derive(Clone, Copy)]
pub(super) enum Demand {
    Spread {
        most_skew: i64,
        least_domains: u32,
        counts_itself: bool,
    },
    /// Pod affinity. `may_be_first` lets the pod start the group in any domain while the group is empty.
    Together {
        may_be_first: bool,
    },
    Apart,
}

/// Upper bound on the domains of one key, for the width of a bit set. Zones, racks and capacity types stay below; pods with
/// more domains are not moved.
pub(super) const DOMAINS_MAX: usize = 64;

/// Upper bound on the topology keys of one pod. Most pods have one, few have two; pods with more are not moved.
const KEYS_MAX: usize = 2;

/// Counter of one column.
#[derive(PartialEq)]
enum HostCounter {
    Group(GroupId),
    /// Pods that hold this host port or a conflicting one.
    Port(HostPort),
}

/// Topology keys, their domains, and the counts of all groups: the tables into which rules have indexes.
#[derive(Default)]
pub(super) struct TopologyCounts {
    /// Topology keys with their domains.
    pub(super) keys: Vec<(Sym, Vec<Sym>)>,
    on_hosts: Vec<HostCounter>,
    domains: BTreeMap<GroupId, usize>,
    /// Per row of [`DomainRule`], the pods in each domain.
    pub(super) in_domains: Vec<Vec<i64>>,
}

impl TopologyCounts {
    /// Number of per-host columns.
    pub(super) fn host_columns(&self) -> usize {
        self.on_hosts.len()
    }

    /// Counts of all columns on one node.
    pub(super) fn on_host(&self, node: &Node<'_>, context: &PlacementContext<'_>) -> Vec<u32> {
        let counts = self.on_hosts.iter().map(|counted| match counted {
            HostCounter::Group(id) => {
                let group = context.topology.group(*id);
                group.map_or(0, |group| group.on_host(node.host))
            }
            HostCounter::Port(port) => {
                let conflict = ports::conflict(std::slice::from_ref(port), &node.ports);
                u32::from(conflict.is_some())
            }
        });
        counts.collect()
    }

    fn column(&mut self, counted: HostCounter) -> usize {
        let known = self.on_hosts.iter().position(|known| *known == counted);
        known.unwrap_or_else(|| {
            self.on_hosts.push(counted);
            self.on_hosts.len() - 1
        })
    }

    /// Rules for the host ports of a pod: a port is taken while any pod on the host holds it.
    fn port_rules(&mut self, held: &[HostPort]) -> Vec<HostRule> {
        let rules = held.iter().map(|port| HostRule {
            column: self.column(HostCounter::Port(port.clone())),
            most: Some(0),
            counts: true,
        });
        rules.collect()
    }

    /// Rules of a kind of pod; `None` for pod affinity per host, and for too many keys or domains.
    pub(super) fn rules(
        &mut self,
        core: &ShapeCore<'_>,
        context: &mut PlacementContext<'_>,
    ) -> Option<(Vec<HostRule>, Vec<DomainRule>)> {
        let applicable = context.topology.applicable_constraints(&core.member);
        let counting = context.topology.counting(&core.member);
        let mut groups: Vec<GroupId> = applicable
            .iter()
            .map(|constraint| constraint.group)
            .collect();
        groups.extend(&counting);
        groups.sort_unstable();
        groups.dedup();
        let (mut hosts, mut domains) = (self.port_rules(core.ports()), Vec::new());
        for id in groups {
            let mine = applicable.iter().find(|constraint| constraint.group == id);
            let counts = counting.contains(&id);
            let group = context.topology.group(id)?;
            let counts_itself = mine.is_some_and(|mine| mine.counts_itself);
            if group.by_host {
                if group.kind == GroupKind::Affinity && mine.is_some() {
                    return None;
                }
                let most = mine.map(|_| match group.kind {
                    GroupKind::Spread => group.max_skew - i64::from(counts_itself),
                    GroupKind::Affinity | GroupKind::AntiAffinity => 0,
                });
                let column = self.column(HostCounter::Group(id));
                hosts.push(HostRule {
                    column,
                    most,
                    counts,
                });
                continue;
            }
            let demand = mine.map(|_| match group.kind {
                GroupKind::Spread => Demand::Spread {
                    most_skew: group.max_skew,
                    least_domains: u32::try_from(group.min_domains).unwrap_or(u32::MAX),
                    counts_itself,
                },
                GroupKind::Affinity => Demand::Together {
                    may_be_first: counts_itself,
                },
                GroupKind::AntiAffinity => Demand::Apart,
            });
            let algebra = &context.algebra;
            let allowed_values = context
                .topology
                .eligible_values(group, &core.member, algebra);
            let is_eligible = |value: &Sym| {
                let mut allowed = allowed_values.iter().map(Option::as_ref);
                allowed.any(|req| req.is_none_or(|req| algebra.has(req, *value)))
            };
            let known = group.domains().iter().map(|domain| domain.value);
            let eligible: Vec<Sym> = known.filter(is_eligible).collect();
            let counted: Vec<(Sym, i64)> = group
                .domains()
                .iter()
                .map(|domain| (domain.value, i64::from(domain.count)))
                .collect();
            let key = self.key(group.key);
            let bits = eligible.iter().map(|value| self.bit(key, *value));
            let eligible = bits.sum::<Option<u64>>()?;
            let row = self.row(id, key, &counted)?;
            domains.push(DomainRule {
                row,
                key,
                demand,
                counts,
                eligible,
            });
        }
        let mut keys: Vec<usize> = domains.iter().map(|rule: &DomainRule| rule.key).collect();
        keys.sort_unstable();
        keys.dedup();
        (keys.len() <= KEYS_MAX).then_some((hosts, domains))
    }

    fn key(&mut self, key: Sym) -> usize {
        let known = self.keys.iter().position(|known| known.0 == key);
        known.unwrap_or_else(|| {
            self.keys.push((key, Vec::new()));
            self.keys.len() - 1
        })
    }

    /// Index of a domain; `None` if the key has too many.
    pub(super) fn domain(&mut self, key: usize, value: Sym) -> Option<usize> {
        let (_, domains) = self.keys.get_mut(key)?;
        let known = domains.iter().position(|known| *known == value);
        let at = known.unwrap_or_else(|| {
            domains.push(value);
            domains.len() - 1
        });
        (at < DOMAINS_MAX).then_some(at)
    }

    fn bit(&mut self, key: usize, value: Sym) -> Option<u64> {
        self.domain(key, value).map(|at| 1 << at)
    }

    fn row(&mut self, group: GroupId, key: usize, counted: &[(Sym, i64)]) -> Option<usize> {
        if let Some(row) = self.domains.get(&group) {
            return Some(*row);
        }
        let mut counts = vec![0; DOMAINS_MAX];
        for (value, count) in counted {
            let at = self.domain(key, *value)?;
            if let Some(slot) = counts.get_mut(at) {
                *slot = *count;
            }
        }
        self.in_domains.push(counts);
        let row = self.in_domains.len() - 1;
        self.domains.insert(group, row);
        Some(row)
    }
}
