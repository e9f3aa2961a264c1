//! What is left of a pod's wishes after some were given up (spec/scheduling §16).

use std::rc::Rc;

use model::{
    labels::HOSTNAME,
    pod::{NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpread, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    selector::NodeSelectorRequirement,
    snapshot::PreferencePolicy,
};

/// A pod's constraints at one step of relaxation.
#[derive(Clone)]
pub(crate) struct Spec<'a> {
    pub(crate) pod: &'a Pod,
    /// The first one counts; the others are its alternatives.
    required: &'a [NodeSelectorTerm],
    /// Heaviest first, as the next two.
    preferred: Vec<&'a (i32, NodeSelectorTerm)>,
    attracted: Vec<&'a (i32, PodAffinityTerm)>,
    repelled: Vec<&'a (i32, PodAffinityTerm)>,
    pub(crate) spread: Vec<&'a TopologySpread>,
    pub(crate) tolerates_prefer_no_schedule: bool,
    /// Where it has to go for others to be near it.
    pub(crate) confined: Option<Rc<Requirements>>,
    /// The weights of all preferences that were given up.
    pub(crate) given_up: u32,
}

/// The weight of a preference that has none of its own, and of the heaviest that has.
pub(crate) const FULL_WEIGHT: u32 = 100;

/// What a pod gives up next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sacrifice {
    RequiredTerm,
    PodAffinity,
    PodAntiAffinity,
    NodeAffinity,
    Spread,
    PreferNoSchedule,
}

impl<'a> Spec<'a> {
    /// All of the pod's wishes; under `Ignore`, preferences are none.
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
                .filter(|c| respect || c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule)
                .collect(),
            tolerates_prefer_no_schedule: false,
            confined: None,
            given_up: 0,
        }
    }

    /// Without preferences to be on other nodes than pods of a kind.
    pub(crate) fn sharing_hosts(mut self) -> Self {
        let mut given_up = 0_u32;
        self.spread.retain(|one| {
            let soft = one.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
            let stays = !soft || one.topology_key != HOSTNAME;
            given_up = given_up.saturating_add(if stays { 0 } else { FULL_WEIGHT });
            stays
        });
        self.repelled.retain(|(weight, term)| {
            let stays = term.topology_key != HOSTNAME;
            let weight = if stays { 0 } else { weight.unsigned_abs() };
            given_up = given_up.saturating_add(weight);
            stays
        });
        self.given_up = self.given_up.saturating_add(given_up);
        self
    }

    /// The next step, if there is anything left to give up.
    pub(crate) fn relaxed(&self, may_tolerate: bool) -> Option<(Self, Sacrifice)> {
        let mut spec = self.clone();
        let soft = |c: &&TopologySpread| c.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
        let (sacrifice, weight) = if let [_, rest @ ..] = self.required
            && !rest.is_empty()
        {
            spec.required = rest;
            (Sacrifice::RequiredTerm, 0)
        } else if let Some(weight) = drop_first(&mut spec.attracted) {
            (Sacrifice::PodAffinity, weight)
        } else if let Some(weight) = drop_first(&mut spec.repelled) {
            (Sacrifice::PodAntiAffinity, weight)
        } else if let Some(weight) = drop_first(&mut spec.preferred) {
            (Sacrifice::NodeAffinity, weight)
        } else if let Some(at) = spec.spread.iter().position(soft) {
            spec.spread.swap_remove(at);
            (Sacrifice::Spread, FULL_WEIGHT)
        } else if may_tolerate && !self.tolerates_prefer_no_schedule {
            spec.tolerates_prefer_no_schedule = true;
            (Sacrifice::PreferNoSchedule, FULL_WEIGHT)
        } else {
            return None;
        };
        spec.given_up = spec.given_up.saturating_add(weight);
        Some((spec, sacrifice))
    }

    /// Node selector and the first required term.
    pub(crate) fn strict(&self) -> Requirements {
        let mut strict = self.requirements(self.required.first());
        let confined = self.confined.iter().flat_map(|all| all.0.values());
        for requirement in confined {
            strict.add(requirement.clone());
        }
        strict
    }

    /// The same with the heaviest preferred term.
    pub(crate) fn all(&self) -> Requirements {
        let mut all = self.strict();
        let preferred = self.preferred.first();
        add(
            &mut all,
            preferred
                .into_iter()
                .flat_map(|(_, term)| &term.match_expressions),
        );
        all
    }

    /// Node selector with each required term that is left.
    pub(crate) fn alternatives(&self) -> Vec<Requirements> {
        self.each(self.required)
    }

    /// Node selector with each required term that the pod came with: where Kubernetes' scheduler looks.
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

fn by_weight<T>(weighted: &[(i32, T)], respect: bool) -> Vec<&(i32, T)> {
    let mut terms: Vec<&(i32, T)> = weighted.iter().filter(|_| respect).collect();
    terms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    terms
}

/// Drops the heaviest term, whose weight it returns.
fn drop_first<T>(terms: &mut Vec<&(i32, T)>) -> Option<u32> {
    if terms.is_empty() {
        return None;
    }
    let (weight, _) = terms.remove(0);
    Some(u32::try_from(*weight).unwrap_or(0))
}
