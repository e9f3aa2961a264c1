//! Failures that nodes of several clusters share, or that most NodePools of one cluster have: replacements would fail alike, so
//! repair, and drift to that AMI, wait for a person (docs/disruption.md#failures-that-several-clusters-share).

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use api::names::label;
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Snapshot,
    evidence::{Failure, Shared},
    labels::{INSTANCE_TYPE, NODE_POOL, ZONE},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    node_pool::NodePool,
    snapshot::{Optimize, Settings},
};

use super::{BLOCKED_ABOVE_PERCENT, DueRepair, Mode, POLICIES, conditions, is_refused};
use crate::by_instance::ByInstance;

/// Time that a condition must have lasted before it is reported to other clusters. Short, because drift continues meanwhile.
const REPORTED_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// Time for nodes that are not initialized, which are not ready while they start.
const REPORTED_AFTER_START: SignedDuration = SignedDuration::from_mins(5);
/// Least number of clusters with the same failure that counts as evidence.
const CLUSTERS_MIN: usize = 3;
/// Least number of nodes of one cluster that counts as evidence.
const NODES_MIN: usize = 3;
/// Most clusters that a message names.
const NAMED_MAX: usize = 3;

/// Failures of a cluster's own nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Failures of more than a fifth of the nodes that share an image, instance type or zone.
    pub shared: BTreeSet<Failure>,
    /// Earliest time at which a further condition will have lasted long enough.
    pub next: Option<Timestamp>,
}

/// Failures that the cluster reports to others; `None` if its nodes are not repaired, or repaired by force as in Karpenter.
pub fn failures(snapshot: &Snapshot) -> Option<Failures> {
    is_on(&snapshot.settings).then(|| Tally::new(snapshot).failures())
}

fn is_on(settings: &Settings) -> bool {
    Mode::from_settings(settings) == Mode::Voluntary && settings.optimize == Optimize::Cost
}

/// Failures that hold back repair.
pub(crate) struct FailureEvidence<'s> {
    clusters: BTreeMap<Failure, BTreeSet<&'s ClusterName>>,
    /// Conditions present in most of this cluster, with the number of nodes that have them and of all nodes.
    everywhere: BTreeMap<String, (usize, usize)>,
}

impl<'s> FailureEvidence<'s> {
    pub(crate) fn new(snapshot: &'s Snapshot) -> Self {
        let mut held = Self {
            clusters: BTreeMap::new(),
            everywhere: BTreeMap::new(),
        };
        if !is_on(&snapshot.settings) {
            return held;
        }
        let tally = Tally::new(snapshot);
        let own = (&snapshot.cluster, tally.failures().shared);
        let others = snapshot.evidence.iter();
        let others = others.map(|other| (&other.cluster, other.failures.clone()));
        for (cluster, failures) in others.chain([own]) {
            for failure in failures {
                held.clusters.entry(failure).or_default().insert(cluster);
            }
        }
        held.clusters
            .retain(|_, clusters| clusters.len() >= CLUSTERS_MIN);
        held.everywhere = tally.everywhere();
        held
    }

    /// Returns why a due repair is held back.
    pub(crate) fn repair(
        &self,
        (claim, node): (&NodeClaim, &Node),
        pool: &NodePool,
        due: &DueRepair<'_>,
    ) -> Option<String> {
        let condition = text(due.condition, due.status);
        if let Some((failing, nodes)) = self.everywhere.get(&condition) {
            return Some(format!(
                "repair is held back: {failing} of {nodes} nodes in several NodePools have {condition}, and new nodes could have it, too"
            ));
        }
        let is_launched_again = |shared: &Shared| match shared {
            Shared::Image(image) => pool.image_for(&node.labels) == Some(image),
            Shared::InstanceType(_) | Shared::Zone(_) => true,
        };
        let mut shared = traits(node, Some(claim)).filter(is_launched_again);
        shared.find_map(|shared| {
            let clusters = self.clusters.get(&Failure {
                condition: condition.clone(),
                shared: shared.clone(),
            })?;
            Some(format!(
                "repair is held back: many nodes {shared} have {condition} in clusters {}, and new nodes could have it, too",
                names(clusters)
            ))
        })
    }

    /// Returns why the replacement of a drifted node is held back.
    pub(crate) fn drift(&self, node: &Node, pool: &NodePool) -> Option<String> {
        let image = pool.image_for(&node.labels)?;
        let is_of_image =
            |failure: &Failure| matches!(&failure.shared, Shared::Image(id) if id == image);
        let mut held = self.clusters.iter();
        let (failure, clusters) = held.find(|(failure, _)| is_of_image(failure))?;
        Some(format!(
            "drift to AMI {image} is held back: many nodes with it have {} in clusters {}",
            failure.condition,
            names(clusters)
        ))
    }
}

/// Number of nodes, and of those with each condition.
#[derive(Default)]
struct Count {
    nodes: usize,
    failing: BTreeMap<String, usize>,
}

/// Counts of failures in a cluster.
#[derive(Default)]
struct Tally<'s> {
    all: Count,
    shared: BTreeMap<Shared, Count>,
    /// NodePools of the nodes with each condition.
    pools: BTreeMap<String, BTreeSet<&'s str>>,
    next: Option<Timestamp>,
}

impl<'s> Tally<'s> {
    fn new(snapshot: &'s Snapshot) -> Self {
        let claims = ByInstance::of_claims(snapshot);
        let mut tally = Self::default();
        for node in &snapshot.nodes {
            let Some(pool) = node.labels.get(NODE_POOL) else {
                continue;
            };
            let claim = claims.only(&node.provider_id);
            let mut failing = BTreeSet::new();
            let reported_after = match node.labels.contains_key(label::INITIALIZED) {
                true => REPORTED_AFTER,
                false => REPORTED_AFTER_START,
            };
            for (name, status, _, since) in conditions(node) {
                let is_covered = POLICIES.iter().any(|policy| policy.covers(name, status));
                if !is_covered || is_refused(node, claim) {
                    continue;
                }
                let reported_at = since.unwrap_or(snapshot.now).saturating_add(reported_after);
                match reported_at.ok().filter(|at| *at > snapshot.now) {
                    Some(at) => tally.next = tally.next.into_iter().chain([at]).min(),
                    None => {
                        failing.insert(text(name, status));
                    }
                }
            }
            tally.all.add(&failing);
            for shared in traits(node, claim) {
                tally.shared.entry(shared).or_default().add(&failing);
            }
            for condition in failing {
                tally.pools.entry(condition).or_default().insert(pool);
            }
        }
        tally
    }

    fn failures(&self) -> Failures {
        let shared = self.shared.iter().flat_map(|(shared, count)| {
            let many = count.failing.iter();
            let many = many.filter(|(_, failing)| count.is_large(**failing));
            many.map(|(condition, _)| Failure {
                condition: condition.clone(),
                shared: shared.clone(),
            })
        });
        Failures {
            shared: shared.collect(),
            next: self.next,
        }
    }

    /// Conditions of many nodes in several NodePools. Within one NodePool its circuit breaker applies.
    fn everywhere(&self) -> BTreeMap<String, (usize, usize)> {
        let all = self.all.failing.iter().filter(|(condition, failing)| {
            let pools = self.pools.get(*condition).map_or(0, BTreeSet::len);
            pools > 1 && **failing >= NODES_MIN && self.all.is_large(**failing)
        });
        let all = all.map(|(condition, failing)| (condition.clone(), (*failing, self.all.nodes)));
        all.collect()
    }
}

impl Count {
    fn add(&mut self, failing: &BTreeSet<String>) {
        self.nodes += 1;
        for condition in failing {
            *self.failing.entry(condition.clone()).or_default() += 1;
        }
    }

    fn is_large(&self, failing: usize) -> bool {
        failing * 100 > self.nodes * BLOCKED_ABOVE_PERCENT
    }
}

fn traits(node: &Node, claim: Option<&NodeClaim>) -> impl Iterator<Item = Shared> {
    let image = claim.map(|claim| claim.status.image_id.clone());
    let image = image.filter(|image| !image.is_empty()).map(Shared::Image);
    let label = |key: &str| node.labels.get(key).cloned();
    let kind = label(INSTANCE_TYPE).map(Shared::InstanceType);
    let zone = label(ZONE).map(Shared::Zone);
    iter::chain(image, kind).chain(zone)
}

fn text(condition: &str, status: ConditionStatus) -> String {
    let status = status.as_str();
    format!("{condition}={status}")
}

fn names(clusters: &BTreeSet<&ClusterName>) -> String {
    let named: Vec<&str> = clusters.iter().map(|name| name.0.as_str()).collect();
    let shown = named.iter().take(NAMED_MAX).copied();
    let shown = shown.collect::<Vec<_>>().join(", ");
    match named.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
