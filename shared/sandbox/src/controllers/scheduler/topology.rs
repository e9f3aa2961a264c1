use std::collections::{BTreeMap, BTreeSet};

use super::{
    node_info::{NodeInfo, NodeState},
    pod_info::{PodInfo, PodTerm, Spread},
};

/// Labels of every namespace, for terms that select namespaces.
pub(super) type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// Domains that a pod's spread and affinity constraints allow, counted once over all nodes.
pub(super) struct TopologyFilter<'a> {
    pod: &'a PodInfo,
    /// Per constraint: pods per domain, and the number of pods in the emptiest domain.
    spread: Vec<(&'a Spread, BTreeMap<&'a str, i64>, i64)>,
    /// Per affinity term: domains with a matching pod; `None` if the pod is the first of its group and may go anywhere.
    affinity: Vec<(&'a PodTerm, Option<BTreeSet<&'a str>>)>,
    /// Per anti-affinity term: domains with a matching pod.
    anti_affinity: Vec<(&'a PodTerm, BTreeSet<&'a str>)>,
    /// Domains that running pods' anti-affinity forbids to this pod: topology key and value.
    closed: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> TopologyFilter<'a> {
    pub(super) fn of(pod: &'a PodInfo, nodes: &'a [NodeState], namespaces: &'a Namespaces) -> Self {
        Self {
            pod,
            spread: pod
                .spread
                .iter()
                .map(|spread| count(spread, pod, nodes))
                .collect(),
            affinity: pod
                .affinity
                .iter()
                .map(|term| {
                    let domains = domains(term, nodes, namespaces);
                    let is_first = domains.is_empty() && term.selects(pod, namespaces);
                    (term, (!is_first).then_some(domains))
                })
                .collect(),
            anti_affinity: pod
                .anti_affinity
                .iter()
                .map(|term| (term, domains(term, nodes, namespaces)))
                .collect(),
            closed: nodes
                .iter()
                .flat_map(|node| node.pods.iter().map(move |other| (node, other)))
                .flat_map(|(node, other)| other.anti_affinity.iter().map(move |term| (node, term)))
                .filter(|(_, term)| term.selects(pod, namespaces))
                .filter_map(|(node, term)| {
                    let value = node.info.labels.get(&term.topology_key)?;
                    Some((term.topology_key.as_str(), value.as_str()))
                })
                .collect(),
        }
    }

    /// Reason why a node is rejected, as kube-scheduler words it.
    pub(super) fn refusal(&self, node: &NodeInfo) -> Option<&'static str> {
        for (spread, counts, least) in &self.spread {
            let Some(domain) = node.labels.get(&spread.topology_key) else {
                return Some(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            let own = i64::from(spread.selector.matches(&self.pod.labels));
            let count = counts.get(domain.as_str()).copied().unwrap_or(0);
            if count + own - least > spread.max_skew {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        for (term, domains) in &self.affinity {
            let domain = node.labels.get(&term.topology_key);
            let is_met = domain.is_some_and(|domain| {
                domains
                    .as_ref()
                    .is_none_or(|domains| domains.contains(domain.as_str()))
            });
            if !is_met {
                return Some("node(s) didn't match pod affinity rules");
            }
        }
        for (term, domains) in &self.anti_affinity {
            let domain = node.labels.get(&term.topology_key);
            if domain.is_some_and(|domain| domains.contains(domain.as_str())) {
                return Some("node(s) didn't match pod anti-affinity rules");
            }
        }
        self.closed
            .iter()
            .any(|(key, value)| node.labels.get(*key).is_some_and(|own| own == value))
            .then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }
}

fn count<'a>(
    spread: &'a Spread,
    pod: &'a PodInfo,
    nodes: &'a [NodeState],
) -> (&'a Spread, BTreeMap<&'a str, i64>, i64) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for node in nodes {
        let has_all_keys = pod
            .spread
            .iter()
            .all(|spread| node.info.labels.contains_key(&spread.topology_key));
        let is_eligible = has_all_keys
            && (!spread.honors_affinity || pod.matches_node(&node.info))
            && (!spread.honors_taints || pod.untolerated_taint(&node.info).is_none());
        if let (true, Some(domain)) = (is_eligible, node.info.labels.get(&spread.topology_key)) {
            let matching = node.pods.iter().filter(|other| {
                other.namespace == pod.namespace
                    && !other.is_terminating
                    && spread.selector.matches(&other.labels)
            });
            *counts.entry(domain).or_default() +=
                i64::try_from(matching.count()).unwrap_or(i64::MAX);
        }
    }
    let least = if counts.len() < spread.min_domains {
        0
    } else {
        counts.values().copied().min().unwrap_or(0)
    };
    (spread, counts, least)
}

/// Domains in which a term selects a pod.
fn domains<'a>(
    term: &PodTerm,
    nodes: &'a [NodeState],
    namespaces: &Namespaces,
) -> BTreeSet<&'a str> {
    nodes
        .iter()
        .filter(|node| node.pods.iter().any(|pod| term.selects(pod, namespaces)))
        .filter_map(|node| node.info.labels.get(&term.topology_key))
        .map(String::as_str)
        .collect()
}
