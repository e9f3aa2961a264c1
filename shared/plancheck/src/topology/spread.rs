//! Hard topology spread: the number of pods in a domain with new pods may exceed the smallest number by at most
//! maxSkew.
//!
//! Selected pods without the constraint may be bound last, so they count only for the smallest number: a plan passes if
//! some order of binding is valid.

use std::{collections::BTreeMap, rc::Rc};

use model::{
    labels,
    node_pool::NodePool,
    pod::{NodeInclusionPolicy, Pod, TopologySpread, WhenUnsatisfiable},
    selector::NodeSelectorRequirement,
    snapshot::Optimize,
    taint::Toleration,
};

use super::{Column, TopologyContext, matching::Term, offered};
use crate::{
    Findings,
    label::Label,
    limits::RemainingLimits,
    node_rules::{NodeConstraints, intolerable},
    world::Machine,
};

pub(super) fn check(context: &TopologyContext<'_, '_>, findings: &mut Findings) {
    let mut groups: BTreeMap<Identity<'_>, Group<'_>> = BTreeMap::new();
    for (index, located) in context.located.iter().enumerate() {
        let pod = located.pod;
        let hard = pod.topology_spread.iter().filter(|spread| {
            located.subject.is_some()
                && spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
        });
        for constraint in hard {
            let term = Term::of_spread(
                context.topology_key(&constraint.topology_key),
                constraint.selector.as_ref(),
                &constraint.match_label_keys,
                pod,
            );
            let identity = Identity {
                selects_itself: term.matches(pod),
                term,
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains,
                honors_affinity: constraint.node_affinity_policy
                    != Some(NodeInclusionPolicy::Ignore),
                honors_taints: constraint.node_taints_policy == Some(NodeInclusionPolicy::Honor),
                node_selector: &pod.node_selector,
                terms: &pod.node_affinity.required,
                tolerations: &pod.tolerations,
            };
            groups
                .entry(identity)
                .or_insert_with(|| Group {
                    constraint,
                    example: pod,
                    owners: Vec::new(),
                })
                .owners
                .push(index);
        }
    }
    for (identity, group) in &groups {
        // A constraint without a selector counts no pods.
        if group.constraint.selector.is_some() {
            let matching = context.matching(&identity.term);
            Count::new(context, identity, group, &matching).check(findings);
        }
    }
}

/// Properties by which constraints of several pods are checked together.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Identity<'a> {
    term: Term,
    selects_itself: bool,
    max_skew: i32,
    min_domains: Option<i32>,
    honors_affinity: bool,
    honors_taints: bool,
    node_selector: &'a BTreeMap<String, String>,
    terms: &'a [model::pod::NodeSelectorTerm],
    tolerations: &'a [Toleration],
}

struct Group<'a> {
    constraint: &'a TopologySpread,
    example: &'a Pod,
    owners: Vec<usize>,
}

/// A domain to spread over.
struct Domain {
    /// Upper bound on the domain's matching pods after the plan.
    pods: i64,
    /// Whether the domain has no node, but a NodePool can launch one there.
    is_on_offer: bool,
}

struct Count<'c, 's, 'a> {
    context: &'c TopologyContext<'s, 'a>,
    identity: &'c Identity<'a>,
    group: &'c Group<'a>,
    wanted: NodeConstraints<'a>,
    column: Rc<Column<'s>>,
    /// By machine, whether the constraint counts its pods.
    is_counted: Vec<bool>,
    /// By domain, matching pods that run already on counted nodes.
    before: Vec<i64>,
    /// By domain, the upper bound on matching pods after the plan. Pods with several possible domains count in each.
    after: Vec<i64>,
    /// The domains to spread over. Empty in upstream mode if the topology key is the hostname, because another node can
    /// always be launched.
    universe: BTreeMap<String, Domain>,
}

impl<'c, 's, 'a> Count<'c, 's, 'a> {
    fn new(
        context: &'c TopologyContext<'s, 'a>,
        identity: &'c Identity<'a>,
        group: &'c Group<'a>,
        matching: &[usize],
    ) -> Self {
        let column = context.column(&identity.term.key);
        let mut count = Self {
            context,
            identity,
            group,
            wanted: NodeConstraints::of(group.example),
            is_counted: Vec::new(),
            before: vec![0; column.names.len()],
            after: vec![0; column.names.len()],
            universe: BTreeMap::new(),
            column,
        };
        let machines = context.world.machines.iter();
        count.is_counted = machines
            .map(|machine| count.counts_pods_on(machine))
            .collect();
        count.add(matching);
        count.universe = count.eligible_domains();
        count
    }

    fn add(&mut self, matching: &[usize]) {
        let mut by_place: Vec<(i64, i64)> = vec![(0, 0); self.context.placements.places.len()];
        for index in matching {
            let located = self.context.located.get(*index);
            let located = located.filter(|located| !located.is_expected);
            if let Some((located, (before, after))) =
                located.and_then(|located| Some((located, by_place.get_mut(located.place)?)))
            {
                *before += i64::from(located.subject.is_none());
                *after += 1;
            }
        }
        for (place, (before, after)) in by_place.into_iter().enumerate() {
            // Pods on nodes to be launched always count.
            if after == 0 || self.is_counted.get(place) == Some(&false) {
                continue;
            }
            for domain in self.column.numbers(place) {
                add_at(&mut self.after, *domain, after);
                add_at(&mut self.before, *domain, before);
            }
        }
    }

    fn check(&self, findings: &mut Findings) {
        let key = &self.identity.term.key;
        let mut counts = self.before.clone();
        let own = i64::from(self.identity.selects_itself);
        for index in &self.group.owners {
            let Some(located) = self.context.located.get(*index) else {
                continue;
            };
            let Some(subject) = located.subject else {
                continue;
            };
            let pod = &located.pod.key;
            let most = self.most_allowed(located.pod);
            let domains = self.column.numbers(located.place);
            if domains.is_empty() {
                findings.add(
                    subject,
                    format!("pod {pod} is spread by {key}, which its node lacks"),
                );
                continue;
            }
            let too_full = domains
                .iter()
                .filter_map(|domain| Some((*domain, counts.get(*domain)? + own)))
                .find(|(_, count)| *count > most);
            if let Some((domain, count)) = too_full {
                let domain = self.column.names.get(domain).unwrap_or(&"");
                findings.add(
                    subject,
                    format!(
                        "pod {pod} would be number {count} in {key}={domain}, where {most} may be"
                    ),
                );
                continue;
            }
            for domain in domains {
                add_at(&mut counts, *domain, own);
            }
        }
    }

    /// Upper bound on matching pods in a domain, including this one.
    fn most_allowed(&self, pod: &'a Pod) -> i64 {
        let alternatives = self.wanted.alternatives();
        let smallest = match (self.as_upstream(), self.identity.honors_affinity) {
            // Karpenter considers one alternative at a time.
            (true, _) => {
                let each = alternatives.iter();
                let each = each.map(|alternative| self.smallest(&[alternative.as_slice()], pod));
                each.max().unwrap_or(0)
            }
            (false, true) => {
                let all: Vec<_> = alternatives.iter().map(Vec::as_slice).collect();
                self.smallest(&all, pod)
            }
            (false, false) => self.smallest(&[&[]], pod),
        };
        i64::from(self.identity.max_skew) + smallest
    }

    /// Number of pods in the emptiest domain that one of these node affinity alternatives allows.
    fn smallest(&self, alternatives: &[&[&NodeSelectorRequirement]], pod: &'a Pod) -> i64 {
        let key = self.identity.term.key.as_str();
        if key == labels::HOSTNAME && self.as_upstream() {
            return 0;
        }
        let is_open = |domain: &str| {
            alternatives.iter().any(|alternative| {
                alternative
                    .iter()
                    .filter(|requirement| labels::normalized(&requirement.key) == key)
                    .all(|requirement| Label::Is(domain).guarantees(requirement))
            })
        };
        let universe = self.universe.iter();
        let open: Vec<i64> = universe
            .filter(|(name, domain)| is_open(name) && self.counts(name, domain, pod))
            .map(|(_, domain)| domain.pods)
            .collect();
        let is_too_few = self
            .identity
            .min_domains
            .and_then(|least| usize::try_from(least).ok())
            .is_some_and(|least| open.len() < least);
        if is_too_few {
            return 0;
        }
        open.into_iter().min().unwrap_or(0)
    }

    /// Whether a domain counts for the pod. In cost mode, a domain without nodes counts only if the pod's volumes are
    /// accessible there.
    fn counts(&self, name: &str, domain: &Domain, pod: &'a Pod) -> bool {
        let key = &self.identity.term.key;
        !domain.is_on_offer || self.as_upstream() || self.context.storage.permits(pod, key, name)
    }

    /// Upstream mode counts domains that NodePools name, and no hosts. Cost mode counts what Kubernetes' scheduler will
    /// count.
    fn as_upstream(&self) -> bool {
        self.context.world.snapshot.settings.optimize == Optimize::Upstream
    }

    /// Domains of existing nodes, and those in which NodePools can launch nodes
    /// (docs/spec/scheduling.md#topology-domains).
    fn eligible_domains(&self) -> BTreeMap<String, Domain> {
        if self.identity.term.key == labels::HOSTNAME && self.as_upstream() {
            return BTreeMap::new();
        }
        let world = self.context.world;
        let mut is_there: Vec<bool> = self.after.iter().map(|pods| *pods > 0).collect();
        for (at, machine) in world.machines.iter().enumerate() {
            let counts = self.is_counted.get(at) == Some(&true);
            if counts && machine.node.is_some() && machine.stays() {
                for domain in self.column.numbers(at) {
                    if let Some(is_there) = is_there.get_mut(*domain) {
                        *is_there = true;
                    }
                }
            }
        }
        let known = self.column.names.iter().zip(&self.after).zip(is_there);
        let known = known.filter(|(_, is_there)| *is_there);
        let known = known.map(|((name, pods), _)| {
            let domain = Domain {
                pods: *pods,
                is_on_offer: false,
            };
            ((*name).to_owned(), domain)
        });
        let mut domains: BTreeMap<String, Domain> = known.collect();
        let pools = world.snapshot.node_pools.iter();
        for pool in pools.filter(|pool| is_usable(pool)) {
            let tolerable =
                intolerable(self.group.example, pool.template.taints.iter().collect()).is_none();
            let counts = match self.as_upstream() {
                true => tolerable || !self.identity.honors_taints,
                // Pods that run already are subject to the current domains only.
                false => tolerable && self.group.example.node_name.is_none(),
            };
            if counts {
                let limits = RemainingLimits::of(world, pool);
                for domain in self.context.offered(pool, &self.identity.term.key).iter() {
                    if !domains.contains_key(domain) && self.is_on_offer((pool, &limits), domain) {
                        let empty = Domain {
                            pods: 0,
                            is_on_offer: true,
                        };
                        domains.insert(domain.clone(), empty);
                    }
                }
            }
        }
        domains
    }

    /// Whether the NodePool could launch a node for the pod in this domain. Always true in upstream mode.
    fn is_on_offer(&self, pool: (&NodePool, &RemainingLimits), domain: &str) -> bool {
        let key = self.identity.term.key.as_str();
        let snapshot = self.context.world.snapshot;
        self.as_upstream()
            || offered::for_pod(
                snapshot,
                pool,
                (key, domain),
                self.group.example,
                &self.wanted,
            )
    }

    /// Whether the constraint counts pods on this node.
    fn counts_pods_on(&self, machine: &Machine<'_>) -> bool {
        if self.identity.honors_taints
            && intolerable(self.group.example, machine.taints.clone()).is_some()
        {
            return false;
        }
        !self.identity.honors_affinity
            || self
                .wanted
                .unmet(|requirement| machine.label(&requirement.key).guarantees(requirement))
                .is_none()
    }
}

fn add_at(counts: &mut [i64], domain: usize, pods: i64) {
    if let Some(count) = counts.get_mut(domain) {
        *count += pods;
    }
}

fn is_usable(pool: &NodePool) -> bool {
    pool.not_ready.is_none() && pool.deleted_at.is_none() && pool.replicas.is_none()
}
