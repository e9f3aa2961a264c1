//! What topology allows, on paper: for each kind of pod, the rules it has to obey and those that count it.

use std::collections::BTreeMap;

use model::pod::HostPort;

use crate::{
    algebra::Sym,
    node::Node,
    ports,
    shape::Core,
    topology::{GroupId, group::GroupKind},
    world::World,
};

/// A rule that counts pods per host.
#[derive(Clone, Copy)]
pub(super) struct HostRule {
    /// Its column among those that count hosts.
    pub(super) column: usize,
    /// It may join only where at most so many are counted.
    pub(super) most: Option<i64>,
    pub(super) counts: bool,
}

/// A rule that counts pods per domain of a label.
#[derive(Clone, Copy)]
pub(super) struct DomainRule {
    /// Its row among those that count domains.
    pub(super) row: usize,
    pub(super) key: usize,
    /// What it demands, if it has to be obeyed.
    pub(super) demand: Option<Demand>,
    pub(super) counts: bool,
    /// The domains whose counts decide, one bit each; where the pod could be itself, its nodes and offers say.
    pub(super) eligible: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Demand {
    Spread {
        most_skew: i64,
        least_domains: u32,
        counts_itself: bool,
    },
    /// With others of the group; the first of them goes anywhere, if it is one.
    Together {
        may_be_first: bool,
    },
    Apart,
}

/// More domains of a label are not kept apart; zones, racks and capacity types stay below.
pub(super) const DOMAINS_MAX: usize = 64;

/// Pods that are counted by more labels are left where they are; most have one, few have two.
const KEYS_MAX: usize = 2;

/// What is counted per host.
#[derive(PartialEq)]
enum HostCounter {
    Group(GroupId),
    /// Pods that hold the port, or another one that stands in its way.
    Port(HostPort),
}

/// Labels, their domains, and which groups count what: everything that rules refer to by number.
#[derive(Default)]
pub(super) struct TopologyCounts {
    /// Each with its domains.
    pub(super) keys: Vec<(Sym, Vec<Sym>)>,
    on_hosts: Vec<HostCounter>,
    domains: BTreeMap<GroupId, usize>,
    /// Per row of [`DomainRule`], how many pods are in each domain.
    pub(super) in_domains: Vec<Vec<i64>>,
}

impl TopologyCounts {
    /// How many rules count hosts.
    pub(super) fn host_columns(&self) -> usize {
        self.on_hosts.len()
    }

    /// How many pods each of these rules counts on a node.
    pub(super) fn on_host(&self, node: &Node<'_>, world: &World<'_>) -> Vec<u32> {
        let counts = self.on_hosts.iter().map(|counted| match counted {
            HostCounter::Group(id) => {
                let group = world.topology.group(*id);
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

    /// A port is taken on a host as long as a pod holds it there.
    fn port_rules(&mut self, held: &[HostPort]) -> Vec<HostRule> {
        let rules = held.iter().map(|port| HostRule {
            column: self.column(HostCounter::Port(port.clone())),
            most: Some(0),
            counts: true,
        });
        rules.collect()
    }

    /// The rules of a kind of pod; `None` for pods that need company on their host, and where there are too many domains.
    pub(super) fn rules(
        &mut self,
        core: &Core<'_>,
        world: &mut World<'_>,
    ) -> Option<(Vec<HostRule>, Vec<DomainRule>)> {
        let applicable = world.topology.applicable_constraints(&core.member);
        let counting = world.topology.counting(&core.member);
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
            let group = world.topology.group(id)?;
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
            let algebra = &world.algebra;
            let looked_at = world.topology.eligible_values(group, &core.member, algebra);
            let is_looked_at = |value: &Sym| {
                let mut allowed = looked_at.iter().map(Option::as_ref);
                allowed.any(|req| req.is_none_or(|req| algebra.has(req, *value)))
            };
            let known = group.domains().iter().map(|domain| domain.value);
            let eligible: Vec<Sym> = known.filter(is_looked_at).collect();
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

    /// Numbers a domain; `None` if there are too many.
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
