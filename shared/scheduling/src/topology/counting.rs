//! Counts of a group's pods: bound, placed and removed ones (docs/spec/scheduling.md#topology-counts,
//! docs/spec/scheduling.md#topology-recording).

use super::{
    ClassId, Group, GroupId, GroupIdentity, GroupKind, GroupMembership, HostLabels, Place,
    Topology, bound_pods,
};
use crate::{
    algebra::{Algebra, Sym},
    setup::PodContribution,
    tolerance::{Tolerance, TolerationsId},
};

impl<'a> Topology<'a> {
    /// Counts bound and placed pods for a new group (docs/spec/scheduling.md#topology-counts).
    pub(super) fn count(
        &mut self,
        group: &mut Group,
        identity: &GroupIdentity,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) {
        group.counts_hosts = group.by_host && group.kind == GroupKind::Spread && !group.as_named;
        if group.counts_hosts {
            for host in self.hosts.iter() {
                let is_gone = self
                    .removed
                    .iter()
                    .any(|removed| removed.place.host == host.place.host);
                if !is_gone && self.accepts(group, &host.place, algebra, tolerance) {
                    group.count_host(host.place.host);
                }
            }
        }
        if !group.by_host {
            let domains = self.bound.domains(group.key, &self.nodes, algebra);
            let removed = self.removed.iter().filter_map(|node| {
                let value = node.labels.get(algebra.text(group.key))?;
                Some((algebra.find_symbol(value)?, node.place))
            });
            // The Kubernetes scheduler counts the domain of a node until the Node object is deleted.
            let removed: Vec<_> = removed.filter(|_| group.as_named).collect();
            let domains = bound_pods::without(&domains, removed.into_iter());
            for ((value, place), _) in domains.iter() {
                if self.accepts(group, place, algebra, tolerance) {
                    group.register(*value, algebra);
                }
            }
        }
        for class in self.bound.classes() {
            let at = class.0 as usize;
            let counts = identity.in_namespace(&self.classes, at)
                && (identity.selector.is_none() || identity.selects(&self.classes, at));
            if !counts {
                continue;
            }
            if group.by_host {
                for host in self.bound.hosts(class) {
                    if let Some(host) = self.hosts.get(*host as usize)
                        && self.accepts(group, &host.place, algebra, tolerance)
                    {
                        group.record_host(host.place.host);
                    }
                }
                for host in self.absent.get(&class).into_iter().flatten() {
                    if let Some(host) = self.hosts.get(*host as usize)
                        && self.accepts(group, &host.place, algebra, tolerance)
                    {
                        group.unrecord_host(host.place.host);
                    }
                }
            } else {
                let tally = self.bound.tally(class, group.key, &self.hosts, algebra);
                let absent = self.absent.get(&class).into_iter().flatten();
                let absent = absent.filter_map(|host| {
                    self.bound
                        .domain_of_host(*host, group.key, &self.hosts, algebra)
                });
                let tally = bound_pods::without(&tally, absent);
                for ((value, place), pods) in tally.iter() {
                    if self.accepts(group, place, algebra, tolerance) {
                        group.record(*value, *pods, algebra);
                    }
                }
            }
        }
        let mut selected: Vec<Option<bool>> = vec![None; self.classes.all.len()];
        for (class, place) in &self.placed {
            let Some(known) = selected.get_mut(class.0 as usize) else {
                continue;
            };
            let is_selected = *known.get_or_insert_with(|| {
                let class = class.0 as usize;
                identity.in_namespace(&self.classes, class)
                    && identity.selects(&self.classes, class)
            });
            if is_selected && self.accepts(group, place, algebra, tolerance) {
                record_at(group, identity.inverse, place, algebra);
            }
        }
    }

    /// Counts a pod that was placed (docs/spec/scheduling.md#topology-recording).
    pub(crate) fn record(
        &mut self,
        member: &GroupMembership,
        place: &Place,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'_>,
    ) {
        self.placed.push((member.class, *place));
        let mut groups = self.selecting(member.class, false);
        groups.retain(|id| {
            self.group(*id)
                .is_some_and(|group| self.accepts(group, place, algebra, tolerance))
        });
        groups.extend(&member.inverse);
        for id in groups {
            self.record_in(id, place, algebra);
        }
    }

    fn record_in(&mut self, id: GroupId, place: &Place, algebra: &Algebra) {
        if let Some((group, identity)) = self.groups.get_mut(id.0 as usize) {
            record_at(group, identity.inverse, place, algebra);
        }
    }

    /// Adds a bound pod, for groups created later.
    pub(crate) fn add_bound(&mut self, class: ClassId, host: usize) {
        self.bound.add(class, host);
    }

    /// Counts the anti-affinity of a bound pod in its inverse group.
    pub(crate) fn record_bound(&mut self, id: GroupId, host: usize, algebra: &mut Algebra) {
        let (Some((group, _)), Some(host)) =
            (self.groups.get_mut(id.0 as usize), self.hosts.get(host))
        else {
            return;
        };
        if group.by_host {
            group.record_host(host.place.host);
        } else if let Some(value) = host.labels.get(algebra.text(group.key)) {
            let value = algebra.symbol(value);
            group.record(value, 1, algebra);
        }
    }

    /// Computes the sums that all simulations on this cluster share. Labels interned by a single simulation would be
    /// unknown to the others.
    pub(crate) fn precompute(&mut self, keys: &[Sym], algebra: &mut Algebra) {
        for key in keys {
            self.bound
                .precompute(*key, &self.hosts, &self.nodes, algebra);
        }
        for class in 0..self.classes.all.len() {
            self.update_selecting(ClassId(u32::try_from(class).unwrap_or(u32::MAX)));
        }
    }

    /// Removes a node: its labels are no longer domains.
    pub(crate) fn remove_node(&mut self, node: HostLabels<'a>) {
        self.removed.push(node);
    }

    /// Removes a bound pod and its anti-affinity from all counts.
    pub(crate) fn remove_pod(&mut self, contribution: &PodContribution, algebra: &Algebra) {
        if contribution.is_counted {
            let absent = self.absent.entry(contribution.class).or_default();
            absent.extend(u32::try_from(contribution.host));
        }
        let Some(host) = self.hosts.get(contribution.host).copied() else {
            return;
        };
        for id in &contribution.repelling {
            let Some((group, _)) = self.groups.get_mut(id.0 as usize) else {
                continue;
            };
            if group.by_host {
                group.unrecord_host(host.place.host);
            } else if let Some(value) = host.labels.get(algebra.text(group.key))
                && let Some(value) = algebra.find_symbol(value)
            {
                group.unrecord(value, algebra);
            }
        }
    }
}

/// Groups whose first owner is removed get the domains that they would have had without it.
impl<'a> Topology<'a> {
    /// Sets the domains that the next owner tolerates, or marks the group as ownerless.
    pub(crate) fn hand_over(
        &mut self,
        id: GroupId,
        next: Option<TolerationsId>,
        algebra: &Algebra,
        tolerance: &mut Tolerance<'a>,
    ) {
        let Some(tolerations) = next else {
            self.ownerless.insert(id);
            return;
        };
        if let Some((group, _)) = self.groups.get_mut(id.0 as usize) {
            let domains = self
                .universe
                .reachable(group.key, Some(tolerations), tolerance);
            group.set_registered(&domains, algebra);
        }
    }

    /// Gives an ownerless group the domains of its new owner.
    pub(super) fn take_over(&mut self, id: GroupId, domains: &[Sym], algebra: &Algebra) {
        if self.ownerless.remove(&id)
            && let Some((group, _)) = self.groups.get_mut(id.0 as usize)
        {
            group.set_registered(domains, algebra);
        }
    }
}

/// Counts a pod at a place: in its single domain, or, for anti-affinity, in every domain that the node may turn out to be
/// in.
fn record_at(group: &mut Group, inverse: bool, place: &Place, algebra: &Algebra) {
    if group.by_host {
        group.record_host(place.host);
        group.count_host(place.host);
    } else if let Some(domains) = algebra.values(place.set, group.key)
        && (inverse || group.kind == GroupKind::AntiAffinity || domains.values.len() == 1)
    {
        for domain in &domains.values {
            group.record(*domain, 1, algebra);
        }
    }
}
