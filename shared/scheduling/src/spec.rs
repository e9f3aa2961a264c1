//! Constraints and preferences of a pod after some were relaxed (docs/spec/scheduling.md#preferences).

use std::rc::Rc;

use model::{
    labels::HOSTNAME,
    pod::{NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpread},
    requirement::{Requirement, Requirements},
    selector::NodeSelectorRequirement,
    snapshot::PreferencePolicy,
};

use crate::preferences::Preference;

/// Constraints of a pod at one step of relaxation.
#[derive(Clone)]
pub(crate) struct Spec<'a> {
    pub(crate) pod: &'a Pod,
    /// Required terms. The first one applies; the others are its alternatives.
    required: &'a [NodeSelectorTerm],
    /// Heaviest first, like the next two.
    preferred: Vec<&'a (i32, NodeSelectorTerm)>,
    attracted: Vec<&'a (i32, PodAffinityTerm)>,
    repelled: Vec<&'a (i32, PodAffinityTerm)>,
    pub(crate) spread: Vec<&'a TopologySpread>,
    pub(crate) tolerates_prefer_no_schedule: bool,
    /// Domains that the pod is confined to, so that pods with affinity to it can follow.
    pub(crate) confined: Option<Rc<Requirements>>,
    /// Summed weight of dropped preferences. Under [`Relaxation::LightestFirst`], node affinity and taints are not included,
    /// since the node shows which of them are met.
    pub(crate) dropped_weight: u32,
    relaxation: Relaxation,
}

/// Preferences that a pod requires at first, and the order in which they are relaxed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Relaxation {
    /// As upstream: only the heaviest preferred node affinity is required, and preferences are relaxed kind by kind, the
    /// heaviest first.
    #[default]
    KindByKind,
    /// All preferred node affinities that can be met together are required, and the lightest preference is relaxed first.
    LightestFirst,
}

/// Weight of preferences without a weight field, and the largest weight that Kubernetes allows.
pub(crate) const FULL_WEIGHT: u32 = 100;

/// Constraint or preference that is relaxed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelaxationStep {
    RequiredTerm,
    PodAffinity,
    PodAntiAffinity,
    NodeAffinity,
    Spread,
    PreferNoSchedule,
}

impl<'a> Spec<'a> {
    /// Spec with all constraints and preferences; without preferences under policy `Ignore`.
    pub(crate) fn new(pod: &'a Pod, policy: PreferencePolicy) -> Self {
        let respect = policy == PreferencePolicy::Respect;
        Self {
            pod,
            required: &pod.node_affinity.required,
            preferred: by_weight(&pod.node_affinity.preferred, respect),
            attracted: by_weight(&pod.pod_affinity.preferred, respect),
            repelled: by_weight(&pod.pod_anti_affinity.preferred, respect),
            spread: pod
                .topology_spread
                .iter()
                .filter(|constraint| respect || !constraint.is_soft())
                .collect(),
            tolerates_prefer_no_schedule: false,
            confined: None,
            dropped_weight: 0,
            relaxation: Relaxation::default(),
        }
    }

    pub(crate) fn relaxing(self, relaxation: Relaxation) -> Self {
        Self { relaxation, ..self }
    }

    /// Spec without preferences, except those against PreferNoSchedule taints.
    pub(crate) fn without_preferences(self) -> Self {
        self.without(|preference| preference != Preference::PreferNoSchedule)
    }

    /// Spec without the ignored preferences.
    pub(crate) fn without(mut self, is_ignored: impl Fn(Preference<'a>) -> bool) -> Self {
        let mut lost = 0_u32;
        let mut lose = |weight: u32| lost = lost.saturating_add(weight);
        self.spread.retain(|constraint| {
            let goes = constraint.is_soft() && is_ignored(Preference::Spread(constraint));
            lose(if goes { FULL_WEIGHT } else { 0 });
            !goes
        });
        self.attracted.retain(|term| {
            let goes = is_ignored(Preference::Affinity(term));
            lose(if goes { term.0.unsigned_abs() } else { 0 });
            !goes
        });
        self.repelled.retain(|term| {
            let goes = is_ignored(Preference::AntiAffinity(term));
            lose(if goes { term.0.unsigned_abs() } else { 0 });
            !goes
        });
        self.preferred
            .retain(|term| !is_ignored(Preference::NodeAffinity(term)));
        self.tolerates_prefer_no_schedule |= is_ignored(Preference::PreferNoSchedule);
        self.dropped_weight = self.dropped_weight.saturating_add(lost);
        self
    }

    /// Spec without any preference, and one spec per single preference with its weight.
    pub(crate) fn one_by_one(&self, may_tolerate: bool) -> (Self, Vec<(u32, Self)>) {
        let none = Self {
            tolerates_prefer_no_schedule: may_tolerate,
            ..self.clone().without_preferences()
        };
        let mut alone = Vec::new();
        for term in &self.preferred {
            let mut spec = none.clone();
            spec.preferred.push(term);
            alone.push((term.0.unsigned_abs(), spec));
        }
        for term in &self.attracted {
            let mut spec = none.clone();
            spec.attracted.push(term);
            alone.push((term.0.unsigned_abs(), spec));
        }
        for term in &self.repelled {
            let mut spec = none.clone();
            spec.repelled.push(term);
            alone.push((term.0.unsigned_abs(), spec));
        }
        for constraint in self.spread.iter().filter(|constraint| constraint.is_soft()) {
            let mut spec = none.clone();
            spec.spread.push(constraint);
            alone.push((FULL_WEIGHT, spec));
        }
        if may_tolerate && !self.tolerates_prefer_no_schedule {
            let spec = Self {
                tolerates_prefer_no_schedule: false,
                ..none.clone()
            };
            alone.push((FULL_WEIGHT, spec));
        }
        (none, alone)
    }

    /// Whether the node shows which preferred node affinities and PreferNoSchedule taints are met.
    pub(crate) fn is_judged_by_node(&self) -> bool {
        self.relaxation == Relaxation::LightestFirst
    }

    /// Preferred node affinities of the pod with their weights; none if preferences are ignored.
    pub(crate) fn preferred_terms(&self) -> impl Iterator<Item = (u32, Requirements)> {
        let counted = self.is_judged_by_node();
        let terms = self.pod.node_affinity.preferred.iter();
        terms.filter(move |_| counted).map(|(weight, term)| {
            let mut requirements = Requirements::default();
            add(&mut requirements, &term.match_expressions);
            (weight.unsigned_abs(), requirements)
        })
    }

    /// Spec without preferred spread and anti-affinity over hosts.
    pub(crate) fn sharing_hosts(self) -> Self {
        self.without(|preference| match preference {
            Preference::Spread(constraint) => constraint.topology_key == HOSTNAME,
            Preference::AntiAffinity((_, term)) => term.topology_key == HOSTNAME,
            Preference::Affinity(_)
            | Preference::NodeAffinity(_)
            | Preference::PreferNoSchedule => false,
        })
    }

    /// Next step of relaxation, if anything is left to relax.
    pub(crate) fn relaxed(&self, may_tolerate: bool) -> Option<(Self, RelaxationStep)> {
        if self.relaxation == Relaxation::LightestFirst && self.required.len() < 2 {
            return self.without_lightest(may_tolerate);
        }
        let mut spec = self.clone();
        let soft = |constraint: &&TopologySpread| constraint.is_soft();
        let (sacrifice, weight) = if let [_, rest @ ..] = self.required
            && !rest.is_empty()
        {
            spec.required = rest;
            (RelaxationStep::RequiredTerm, 0)
        } else if let Some(weight) = drop_first(&mut spec.attracted) {
            (RelaxationStep::PodAffinity, weight)
        } else if let Some(weight) = drop_first(&mut spec.repelled) {
            (RelaxationStep::PodAntiAffinity, weight)
        } else if let Some(weight) = drop_first(&mut spec.preferred) {
            (RelaxationStep::NodeAffinity, weight)
        } else if let Some(at) = spec.spread.iter().position(soft) {
            spec.spread.swap_remove(at);
            (RelaxationStep::Spread, FULL_WEIGHT)
        } else if may_tolerate && !self.tolerates_prefer_no_schedule {
            spec.tolerates_prefer_no_schedule = true;
            (RelaxationStep::PreferNoSchedule, FULL_WEIGHT)
        } else {
            return None;
        };
        spec.dropped_weight = spec.dropped_weight.saturating_add(weight);
        Some((spec, sacrifice))
    }

    /// Spec without the lightest preference; among equal weights, the one that upstream relaxes first.
    fn without_lightest(&self, may_tolerate: bool) -> Option<(Self, RelaxationStep)> {
        let soft = |constraint: &&TopologySpread| constraint.is_soft();
        let spread = self.spread.iter().position(soft);
        let tolerates = !may_tolerate || self.tolerates_prefer_no_schedule;
        let weights = [
            (RelaxationStep::PodAffinity, lightest(&self.attracted)),
            (RelaxationStep::PodAntiAffinity, lightest(&self.repelled)),
            (RelaxationStep::NodeAffinity, lightest(&self.preferred)),
            (RelaxationStep::Spread, spread.map(|_| FULL_WEIGHT)),
            (
                RelaxationStep::PreferNoSchedule,
                (!tolerates).then_some(FULL_WEIGHT),
            ),
        ];
        let weights = weights
            .into_iter()
            .filter_map(|(sacrifice, weight)| Some((weight?, sacrifice)));
        let (weight, sacrifice) = weights.min_by_key(|(weight, _)| *weight)?;
        let mut spec = self.clone();
        let mut lost = weight;
        match sacrifice {
            RelaxationStep::PodAffinity => {
                spec.attracted.pop();
            }
            RelaxationStep::PodAntiAffinity => {
                spec.repelled.pop();
            }
            RelaxationStep::NodeAffinity => {
                spec.preferred.pop();
                lost = 0;
            }
            RelaxationStep::Spread => {
                spec.spread.swap_remove(spread?);
            }
            RelaxationStep::PreferNoSchedule => {
                spec.tolerates_prefer_no_schedule = true;
                lost = 0;
            }
            RelaxationStep::RequiredTerm => return None,
        }
        spec.dropped_weight = spec.dropped_weight.saturating_add(lost);
        Some((spec, sacrifice))
    }

    /// Node selector, the first required term, and the confined domains.
    pub(crate) fn strict(&self) -> Requirements {
        let mut strict = self.requirements(self.required.first());
        let confined = self.confined.iter().flat_map(|all| all.0.values());
        for requirement in confined {
            strict.add(requirement.clone());
        }
        strict
    }

    /// [`Self::strict`] with the heaviest preferred term, or with all terms that agree with each other, the heaviest first.
    pub(crate) fn all(&self) -> Requirements {
        let mut all = self.strict();
        match self.relaxation {
            Relaxation::KindByKind => {
                let preferred = self.preferred.first();
                let terms = preferred.into_iter();
                add(
                    &mut all,
                    terms.flat_map(|(_, term)| &term.match_expressions),
                );
            }
            Relaxation::LightestFirst => {
                for (_, term) in &self.preferred {
                    let mut with = all.clone();
                    if add_agreeing(&mut with, &term.match_expressions) {
                        all = with;
                    }
                }
            }
        }
        all
    }

    /// Node selector combined with each remaining required term.
    pub(crate) fn alternatives(&self) -> Vec<Requirements> {
        self.each(self.required)
    }

    /// Node selector combined with each required term of the pod: the nodes that the Kubernetes scheduler considers.
    pub(crate) fn all_alternatives(&self) -> Vec<Requirements> {
        self.each(&self.pod.node_affinity.required)
    }

    fn each(&self, required: &[NodeSelectorTerm]) -> Vec<Requirements> {
        if required.is_empty() {
            return vec![self.requirements(None)];
        }
        let terms = required.iter();
        terms.map(|term| self.requirements(Some(term))).collect()
    }

    fn requirements(&self, term: Option<&NodeSelectorTerm>) -> Requirements {
        let mut requirements = Requirements::from_labels(&self.pod.node_selector);
        add(
            &mut requirements,
            term.into_iter().flat_map(|term| &term.match_expressions),
        );
        requirements
    }

    pub(crate) fn affinity(&self) -> impl Iterator<Item = &'a PodAffinityTerm> {
        let required = self.pod.pod_affinity.required.iter();
        required.chain(self.attracted.iter().map(|(_, term)| term))
    }

    pub(crate) fn anti_affinity(&self) -> impl Iterator<Item = &'a PodAffinityTerm> {
        let required = self.pod.pod_anti_affinity.required.iter();
        required.chain(self.repelled.iter().map(|(_, term)| term))
    }
}

fn add<'r>(
    requirements: &mut Requirements,
    entries: impl IntoIterator<Item = &'r NodeSelectorRequirement>,
) {
    for entry in entries {
        requirements.add(Requirement::from(entry));
    }
}

/// Adds the entries, and returns whether each of them agrees with the requirements before it.
fn add_agreeing(requirements: &mut Requirements, entries: &[NodeSelectorRequirement]) -> bool {
    entries.iter().all(|entry| {
        let entry = Requirement::from(entry);
        let known = requirements.get(&entry.key);
        let agrees = known.is_none_or(|known| known.intersects(&entry));
        requirements.add(entry);
        agrees
    })
}

fn by_weight<T>(weighted: &[(i32, T)], respect: bool) -> Vec<&(i32, T)> {
    let mut terms: Vec<&(i32, T)> = weighted.iter().filter(|_| respect).collect();
    terms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    terms
}

fn lightest<T>(terms: &[&(i32, T)]) -> Option<u32> {
    let (weight, _) = terms.last()?;
    Some(weight.unsigned_abs())
}

/// Drops the heaviest term and returns its weight.
fn drop_first<T>(terms: &mut Vec<&(i32, T)>) -> Option<u32> {
    if terms.is_empty() {
        return None;
    }
    let (weight, _) = terms.remove(0);
    Some(u32::try_from(*weight).unwrap_or(0))
}
