//! Hard spread constraints: in every domain that got pods, their number may exceed the smallest one by at most maxSkew.
//!
//! Pods that the constraint is about but that do not carry it may come last, so they count only for the smallest number:
//! if some order of binding is valid, the plan passes.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    InstanceType, labels,
    node_pool::NodePool,
    pod::{NodeInclusionPolicy, Pod, TopologySpread, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
    taint::Toleration,
};

use super::{
    Located, Scene,
    matching::{Index, Term},
};
use crate::{
    Findings,
    label::{Label, overlap},
    node_rules::{Wanted, intolerable},
    world::Machine,
};

pub(super) fn check(scene: &Scene<'_, '_>, findings: &mut Findings) {
    let mut groups: BTreeMap<Identity<'_>, Group<'_>> = BTreeMap::new();
    for (index, located) in scene.located.iter().enumerate() {
        let pod = located.pod;
        let hard = pod.topology_spread.iter().filter(|spread| {
            located.subject.is_some()
                && spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
        });
        for constraint in hard {
            let term = Term::of_spread(
                &constraint.topology_key,
                constraint.selector.as_ref(),
                &constraint.match_label_keys,
                pod,
            );
            let identity = Identity {
                is_about_itself: term.matches(pod),
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
    let index = Index::new(&scene.located, groups.keys().map(|identity| &identity.term));
    for (identity, group) in &groups {
        // Nothing is counted where nothing is selected.
        if group.constraint.selector.is_some() {
            let matching = index.matching(&scene.located, &identity.term);
            Count::new(scene, identity, group, &matching).check(findings);
        }
    }
}

/// What makes two pods' constraints the same question.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Identity<'a> {
    term: Term,
    is_about_itself: bool,
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

struct Count<'c, 's, 'a> {
    scene: &'c Scene<'s, 'a>,
    identity: &'c Identity<'a>,
    group: &'c Group<'a>,
    wanted: Wanted<'a>,
    /// Matching pods that run there already, on nodes that the constraint looks at.
    before: BTreeMap<&'s str, i64>,
    /// At most so many matching pods in the end, counting those with an open domain everywhere they may be.
    after: BTreeMap<&'s str, i64>,
    universe: BTreeSet<String>,
}

impl<'c, 's, 'a> Count<'c, 's, 'a> {
    fn new(
        scene: &'c Scene<'s, 'a>,
        identity: &'c Identity<'a>,
        group: &'c Group<'a>,
        matching: &[usize],
    ) -> Self {
        let mut count = Self {
            scene,
            identity,
            group,
            wanted: Wanted::of(group.example),
            before: BTreeMap::new(),
            after: BTreeMap::new(),
            universe: BTreeSet::new(),
        };
        for located in matching
            .iter()
            .filter_map(|index| scene.located.get(*index))
        {
            count.add(located);
        }
        count.universe = count.domains_there_are();
        count
    }

    fn add(&mut self, located: &Located<'a>) {
        let machine = self.scene.world.machines.get(located.place);
        if machine.is_some_and(|machine| !self.looks_at(machine)) {
            return;
        }
        for domain in self.scene.domains(located, &self.identity.term.key).iter() {
            *self.after.entry(domain).or_default() += 1;
            if located.subject.is_none() {
                *self.before.entry(domain).or_default() += 1;
            }
        }
    }

    fn check(&self, findings: &mut Findings) {
        let key = &self.identity.term.key;
        let mut counts = self.before.clone();
        let most = self.most_allowed();
        let own = i64::from(self.identity.is_about_itself);
        for index in &self.group.owners {
            let Some(located) = self.scene.located.get(*index) else {
                continue;
            };
            let Some(subject) = located.subject else {
                continue;
            };
            let pod = &located.pod.key;
            let domains = self.scene.domains(located, key);
            if domains.is_empty() {
                findings.add(
                    subject,
                    format!("pod {pod} is spread by {key}, which its node lacks"),
                );
                continue;
            }
            let too_full = domains
                .iter()
                .map(|domain| (*domain, counts.get(*domain).copied().unwrap_or(0) + own))
                .find(|(_, count)| *count > most);
            if let Some((domain, count)) = too_full {
                findings.add(
                    subject,
                    format!(
                        "pod {pod} would be number {count} in {key}={domain}, where {most} may be"
                    ),
                );
                continue;
            }
            for domain in domains.iter() {
                *counts.entry(domain).or_default() += own;
            }
        }
    }

    /// How many matching pods a domain may have.
    fn most_allowed(&self) -> i64 {
        let alternatives = self.wanted.alternatives();
        let smallest = alternatives
            .iter()
            .map(|alternative| self.smallest(alternative))
            .max()
            .unwrap_or(0);
        i64::from(self.identity.max_skew) + smallest
    }

    /// The number of pods in the emptiest domain open to a pod that goes by this alternative of its node affinity.
    fn smallest(&self, alternative: &[&NodeSelectorRequirement]) -> i64 {
        let key = self.identity.term.key.as_str();
        if key == labels::HOSTNAME {
            // Another node can always be made.
            return 0;
        }
        let is_open = |domain: &&String| {
            alternative
                .iter()
                .filter(|requirement| labels::normalized(&requirement.key) == key)
                .all(|requirement| Label::Is(domain).guarantees(requirement))
        };
        let open: Vec<&String> = self.universe.iter().filter(is_open).collect();
        let is_too_few = self
            .identity
            .min_domains
            .and_then(|least| usize::try_from(least).ok())
            .is_some_and(|least| open.len() < least);
        if is_too_few {
            return 0;
        }
        open.iter()
            .map(|domain| self.after.get(domain.as_str()).copied().unwrap_or(0))
            .min()
            .unwrap_or(0)
    }

    /// Domains of the nodes there are, and those the NodePools can make (spec/scheduling §17.2).
    fn domains_there_are(&self) -> BTreeSet<String> {
        let key = self.identity.term.key.as_str();
        let mut domains: BTreeSet<String> = self
            .after
            .keys()
            .map(|domain| (*domain).to_owned())
            .collect();
        let world = self.scene.world;
        for machine in world
            .machines
            .iter()
            .filter(|machine| machine.node.is_some() && !machine.leaving)
        {
            if self.looks_at(machine) {
                let value = if key == labels::HOSTNAME {
                    Some(machine.hostname())
                } else {
                    machine.labels.get(key).map(String::as_str)
                };
                domains.extend(value.map(str::to_owned));
            }
        }
        for pool in world
            .snapshot
            .node_pools
            .iter()
            .filter(|pool| is_usable(pool))
        {
            let tolerable =
                intolerable(self.group.example, pool.template.taints.iter().collect()).is_none();
            if tolerable || !self.identity.honors_taints {
                self.add_offered(pool, &mut domains);
            }
        }
        domains
    }

    fn add_offered(&self, pool: &NodePool, domains: &mut BTreeSet<String>) {
        let key = self.identity.term.key.as_str();
        let mut of_pool = Requirements::from_selector(&pool.template.requirements);
        for (label, value) in &pool.template.labels {
            of_pool.add(Requirement::new(label, Operator::In, [value.clone()]));
        }
        let own = of_pool.get(key);
        let types = self.scene.world.snapshot.instance_types.get(&pool.name);
        let Some(types) = types.filter(|types| !types.is_empty()) else {
            return;
        };
        let suits = |instance_type: &&InstanceType| {
            let known = &instance_type.requirements;
            of_pool.0.values().all(|wanted| {
                known
                    .get(&wanted.key)
                    .is_none_or(|of_type| overlap(of_type, wanted))
            })
        };
        for instance_type in types.iter().filter(suits) {
            let Some(of_type) = instance_type
                .requirements
                .get(key)
                .filter(|of_type| !of_type.complement)
            else {
                continue;
            };
            let allowed = of_type
                .values
                .iter()
                .filter(|value| own.is_none_or(|own| own.has(value)));
            for value in allowed {
                if !domains.contains(value) {
                    domains.insert(value.clone());
                }
            }
        }
        let listed = own.filter(|own| !own.complement);
        domains.extend(
            listed
                .into_iter()
                .flat_map(|own| own.values.iter().cloned()),
        );
    }

    /// Whether the constraint counts pods on this node.
    fn looks_at(&self, machine: &Machine<'_>) -> bool {
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

fn is_usable(pool: &NodePool) -> bool {
    pool.not_ready.is_none() && pool.deleted_at.is_none() && pool.replicas.is_none()
}
