//! Preferences of the input's pods, in groups that can be ignored one by one.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    labels,
    pod::{NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpread},
    snapshot::PreferencePolicy,
    taint::{Taint, TaintEffect},
};

use crate::{input::Input, spec::FULL_WEIGHT};

/// Preference as stated by pods. Pods with equal preferences share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Preference<'a> {
    Spread(&'a TopologySpread),
    Affinity(&'a (i32, PodAffinityTerm)),
    AntiAffinity(&'a (i32, PodAffinityTerm)),
    NodeAffinity(&'a (i32, NodeSelectorTerm)),
    /// Nodes without a PreferNoSchedule taint that the pod does not tolerate.
    PreferNoSchedule,
}

/// Upper bound on groups, because each group takes a solve. Further preferences share groups.
const GROUPS_MAX: usize = 6;

/// Set of ignored groups, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoredPreferences(u8);

impl IgnoredPreferences {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    fn has(self, group: usize) -> bool {
        self.0 >> group & 1 == 1
    }

    pub(crate) fn without(self, group: usize) -> Self {
        Self(self.0 & !(1 << group))
    }
}

/// All preferences of the input's pods.
#[derive(Debug, Default)]
pub(crate) struct Preferences<'a> {
    /// PreferNoSchedule taints of NodePools and nodes.
    avoided: BTreeSet<&'a Taint>,
    stated: BTreeMap<Preference<'a>, Stated>,
    /// Weight of each group, summed over its preferences and the pods that state them.
    weights: Vec<u64>,
}

/// Preference with the group that it is ignored with.
#[derive(Clone, Copy, Debug)]
struct Stated {
    group: usize,
    /// Summed over the pods that state it.
    weight: u64,
}

impl<'a> Preferences<'a> {
    pub(crate) fn of(input: &Input<'a>) -> Self {
        if input.options.preference_policy != PreferencePolicy::Respect {
            return Self::default();
        }
        let taints = input.pools.iter().flat_map(|pool| pool.taints);
        let taints = taints.chain(input.nodes.iter().flat_map(|n| n.taints.iter().copied()));
        let avoided = taints.filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
        let mut all = Self {
            avoided: avoided.collect(),
            ..Self::default()
        };
        let mut weights: BTreeMap<Preference<'a>, u64> = BTreeMap::new();
        for pod in &input.pods {
            for preference in all.of_pod(pod) {
                *weights.entry(preference).or_default() += u64::from(preference.weight());
            }
        }
        all.weights = vec![0; weights.len().min(GROUPS_MAX)];
        let (preferences, groups) = (weights.len(), all.weights.len());
        for (at, (preference, weight)) in weights.into_iter().enumerate() {
            let group = at * groups / preferences;
            all.stated.insert(preference, Stated { group, weight });
            if let Some(sum) = all.weights.get_mut(group) {
                *sum += weight;
            }
        }
        all
    }

    /// Preferences of one pod.
    pub(crate) fn of_pod(&self, pod: &'a Pod) -> impl Iterator<Item = Preference<'a>> {
        let tolerates = |taint: &&Taint| pod.tolerations.iter().any(|own| own.tolerates(taint));
        let avoids = self.avoided.iter().any(|taint| !tolerates(taint));
        let taints = avoids.then_some(Preference::PreferNoSchedule);
        Preference::of_pod(pod).chain(taints)
    }

    pub(crate) fn all(&self) -> IgnoredPreferences {
        let groups = 0..self.weights.len();
        IgnoredPreferences(groups.fold(0, |all, group| all | 1 << group))
    }

    pub(crate) fn are_several(&self) -> bool {
        self.weights.len() > 1
    }

    /// Weight of the lightest group; `None` if pods have no preferences.
    pub(crate) fn least_weight(&self) -> Option<u64> {
        self.weights.iter().min().copied()
    }

    /// Summed weight of preferred spreads over zones; `None` if pods have none.
    pub(crate) fn zone_spread_weight(&self) -> Option<u64> {
        self.zone_spreads()
            .map(|spread| spread.weight)
            .reduce(u64::saturating_add)
    }

    /// `ignored` without the groups of preferred spreads over zones.
    pub(crate) fn honoring_zone_spreads(&self, ignored: IgnoredPreferences) -> IgnoredPreferences {
        self.zone_spreads()
            .fold(ignored, |ignored, spread| ignored.without(spread.group))
    }

    fn zone_spreads(&self) -> impl Iterator<Item = &Stated> {
        let stated = self.stated.iter();
        stated
            .filter(|(preference, _)| preference.is_zone_spread())
            .map(|(_, stated)| stated)
    }

    /// All groups in descending weight.
    pub(crate) fn heaviest_first(&self) -> Vec<usize> {
        let mut groups: Vec<usize> = (0..self.weights.len()).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(self.weights.get(*group)));
        groups
    }

    pub(crate) fn is_ignored(
        &self,
        preference: Preference<'a>,
        ignored: IgnoredPreferences,
    ) -> bool {
        let stated = self.stated.get(&preference);
        stated.is_some_and(|stated| ignored.has(stated.group))
    }
}

impl<'a> Preference<'a> {
    fn of_pod(pod: &'a Pod) -> impl Iterator<Item = Self> {
        let spreads = pod.topology_spread.iter();
        let spreads = spreads.filter(|constraint| constraint.is_soft());
        let attracted = pod.pod_affinity.preferred.iter();
        let repelled = pod.pod_anti_affinity.preferred.iter();
        let nodes = pod.node_affinity.preferred.iter();
        spreads
            .map(Preference::Spread)
            .chain(attracted.map(Preference::Affinity))
            .chain(repelled.map(Preference::AntiAffinity))
            .chain(nodes.map(Preference::NodeAffinity))
    }

    fn is_zone_spread(&self) -> bool {
        match self {
            Self::Spread(spread) => labels::normalized(&spread.topology_key) == labels::ZONE,
            Self::Affinity(_)
            | Self::AntiAffinity(_)
            | Self::NodeAffinity(_)
            | Self::PreferNoSchedule => false,
        }
    }

    fn weight(&self) -> u32 {
        match self {
            Self::Spread(_) | Self::PreferNoSchedule => FULL_WEIGHT,
            Self::Affinity((weight, _)) | Self::AntiAffinity((weight, _)) => weight.unsigned_abs(),
            Self::NodeAffinity((weight, _)) => weight.unsigned_abs(),
        }
    }
}
