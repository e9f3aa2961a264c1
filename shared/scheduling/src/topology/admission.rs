//! Domains that topology constraints allow one more pod (docs/spec/scheduling.md#topology-answers).

use std::rc::Rc;

use model::labels;

use super::{ApplicableConstraint, Group, GroupId, GroupKind, GroupMembership, Place, Topology};
use crate::algebra::{Algebra, Req, SetId, Sym, Undefined};

/// Upper bound on alternatives of equally few pods. Combinations of zones and capacity types stay below.
const ALTERNATIVES_MAX: usize = 32;

/// Verdict of the topology constraints on a pod at a place.
pub(crate) enum TopologyVerdict {
    /// Requirements that the node may have with the pod: alternatives with equal counts.
    Allowed(Vec<SetId>),
    /// Refused, but counts elsewhere may still change that.
    NotNow(GroupId),
    /// Refused for the rest of the solve, during which counts only grow.
    Never(GroupId),
}

impl Topology<'_> {
    /// Checks whether a pod may join a place, and returns the requirements that remain
    /// (docs/spec/scheduling.md#topology-answers).
    pub(crate) fn admit(
        &self,
        member: &GroupMembership,
        constraints: &[ApplicableConstraint],
        place: &Place,
        algebra: &mut Algebra,
    ) -> TopologyVerdict {
        let mut by_domain = false;
        for &ApplicableConstraint {
            group: id,
            counts_itself,
            daemons,
        } in constraints
        {
            let Some(group) = self.group(id) else {
                continue;
            };
            let daemons = daemons.and(place.daemons);
            if !group.by_host {
                match group.kind {
                    GroupKind::AntiAffinity if !daemons.is_none() => {
                        return TopologyVerdict::Never(id);
                    }
                    // The daemons run wherever the node is.
                    GroupKind::Affinity if !daemons.is_none() => {}
                    GroupKind::Spread | GroupKind::Affinity | GroupKind::AntiAffinity => {
                        by_domain = true
                    }
                }
                continue;
            }
            let count = group.on_host(place.host).saturating_add(daemons.number());
            match group.kind {
                GroupKind::AntiAffinity if count > 0 => return TopologyVerdict::Never(id),
                GroupKind::Spread => {
                    let after = i64::from(count) + i64::from(counts_itself);
                    // Another node can always be added, so new nodes are compared with an empty host.
                    let least = match place.undefined {
                        Undefined::Refused => i64::from(group.fewest_on_host()),
                        Undefined::WellKnown => 0,
                    };
                    if after - least > group.max_skew {
                        // The host with the fewest pods may fill up, and then this host may take the pod.
                        let may_follow =
                            group.counts_hosts && place.undefined == Undefined::Refused;
                        return match may_follow {
                            true => TopologyVerdict::NotNow(id),
                            false => TopologyVerdict::Never(id),
                        };
                    }
                }
                GroupKind::Affinity if count == 0 => {
                    let may_be_first = counts_itself
                        && (group.is_empty()
                            || self.as_upstream
                                && !self.reaches_host(group, member.strict, algebra));
                    if !may_be_first {
                        return TopologyVerdict::NotNow(id);
                    }
                }
                GroupKind::Affinity | GroupKind::AntiAffinity => {}
            }
        }
        if by_domain {
            self.admit_by_domain(member, constraints, place, algebra)
        } else {
            TopologyVerdict::Allowed(vec![place.set])
        }
    }

    /// Requirements on the group's key whose values count for the pod: a domain is eligible if any of these allows it.
    pub(crate) fn eligible_values(
        &self,
        group: &Group,
        member: &GroupMembership,
        algebra: &Algebra,
    ) -> Vec<Option<Rc<Req>>> {
        let allowed = |set: SetId| {
            let id = algebra.get(set, group.key);
            id.map(|id| algebra.req(id))
        };
        let filter = group
            .filter
            .and_then(|id| self.filters.get(id.0 as usize))
            .filter(|_| !self.as_upstream);
        match (group.kind, filter) {
            // The node policies of the constraint were applied when its domains were computed.
            (GroupKind::Spread, _) if !group.as_named => vec![None],
            (GroupKind::Spread, Some(filter)) if filter.honor_affinity => {
                filter.alternatives.iter().copied().map(allowed).collect()
            }
            (GroupKind::Spread, Some(_)) => vec![None],
            // Members in domains that the pod cannot reach still keep it from being the first.
            (GroupKind::Affinity, _) if !self.as_upstream => vec![None],
            (GroupKind::Spread | GroupKind::Affinity | GroupKind::AntiAffinity, _) => {
                vec![allowed(member.strict)]
            }
        }
    }

    /// Whether a pod with these requirements could join any host with members of the group.
    fn reaches_host(&self, group: &Group, strict: SetId, algebra: &mut Algebra) -> bool {
        let Some(wanted) = algebra.get(strict, group.key).map(|id| algebra.req(id)) else {
            return !group.is_empty();
        };
        group.occupied_hosts().any(|host| {
            let known = self.hosts.iter().find(|known| known.place.host == host);
            known
                .and_then(|known| known.labels.get(labels::HOSTNAME))
                .is_some_and(|name| {
                    algebra
                        .find_symbol(name)
                        .is_some_and(|name| algebra.has(&wanted, name))
                })
        })
    }

    fn admit_by_domain(
        &self,
        member: &GroupMembership,
        constraints: &[ApplicableConstraint],
        place: &Place,
        algebra: &mut Algebra,
    ) -> TopologyVerdict {
        let mut verdicts: Vec<(Sym, GroupId, bool, Vec<Sym>)> = Vec::new();
        for &ApplicableConstraint {
            group: id,
            counts_itself,
            daemons,
        } in constraints
        {
            let Some(group) = self.group(id).filter(|group| !group.by_host) else {
                continue;
            };
            if group.kind == GroupKind::Affinity && !daemons.and(place.daemons).is_none() {
                continue;
            }
            let pod = algebra
                .get(member.strict, group.key)
                .map(|id| algebra.req(id));
            let node = algebra.get(place.set, group.key).map(|id| algebra.req(id));
            // A node without the label is in no domain that other pods could share. Upstream refuses such nodes.
            let may_have =
                place.undefined == Undefined::WellKnown && algebra.is_well_known(group.key);
            if group.kind == GroupKind::AntiAffinity
                && !self.as_upstream
                && node.is_none()
                && !may_have
            {
                continue;
            }
            let (pod, node) = (pod.as_deref(), node.as_deref());
            let (mut domains, mut one) = match group.kind {
                GroupKind::Spread => {
                    let allowed_values = self.eligible_values(group, member, algebra);
                    let allowed_values: Vec<_> =
                        allowed_values.iter().map(Option::as_deref).collect();
                    (
                        group.emptiest_domains(&allowed_values, node, counts_itself, algebra),
                        true,
                    )
                }
                GroupKind::Affinity => (group.occupied_domains(pod, node, algebra), false),
                // A node without a single domain would block all of its domains for other pods.
                GroupKind::AntiAffinity => {
                    (group.empty_domains(pod, node, algebra), !self.as_upstream)
                }
            };
            if group.kind == GroupKind::Affinity && domains.is_empty() && counts_itself {
                (domains, one) = (
                    group.first_domains(pod, node, self.as_upstream, algebra),
                    true,
                );
            }
            match verdicts.iter_mut().find(|verdict| verdict.0 == group.key) {
                Some(known) => {
                    known.2 |= one;
                    known.3.retain(|domain| domains.contains(domain));
                }
                None => verdicts.push((group.key, id, one, domains)),
            }
            if verdicts.iter().any(|verdict| verdict.3.is_empty()) {
                return TopologyVerdict::NotNow(id);
            }
        }
        let mut sets = vec![place.set];
        for (key, id, one, domains) in verdicts {
            let choices: Vec<Vec<Sym>> = if one {
                domains.into_iter().map(|domain| vec![domain]).collect()
            } else {
                vec![domains]
            };
            let mut narrowed = Vec::new();
            for choice in choices {
                let req = algebra.one_of(choice);
                let only = algebra.single(key, req);
                let fitting = sets.iter();
                narrowed
                    .extend(fitting.filter_map(|set| algebra.narrow(*set, only, place.undefined)));
            }
            if narrowed.is_empty() {
                return TopologyVerdict::NotNow(id);
            }
            narrowed.truncate(ALTERNATIVES_MAX);
            sets = narrowed;
        }
        TopologyVerdict::Allowed(sets)
    }
}
