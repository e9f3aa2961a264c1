//! Volumes that no new node can provide: a ReadWriteOncePod volume that another pod uses, and a local volume on a node that is
//! gone. Karpenter launches nodes for such pods.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    PodKey, Snapshot, labels,
    pod::{Pod, PodVolume},
    requirement::Requirements,
    snapshot::Optimize,
    volume::{Volume, VolumeClaim},
};

use crate::inventory::is_terminal;

/// Volumes in use or on nodes that are gone.
#[derive(Default)]
pub(super) struct Unreachable<'a> {
    /// Claims by namespace and name; empty with `optimize: upstream`.
    claims: BTreeMap<(&'a str, &'a str), &'a VolumeClaim>,
    /// Local volumes, by name.
    local: BTreeMap<&'a str, &'a Volume>,
    /// Pod that uses a ReadWriteOncePod claim, or that will be the first to use it.
    taken: BTreeMap<(&'a str, &'a str), &'a PodKey>,
    hostnames: BTreeSet<&'a str>,
}

impl<'a> Unreachable<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        if snapshot.settings.optimize == Optimize::Upstream {
            return Self::default();
        }
        let storage = &snapshot.storage;
        let claims: BTreeMap<_, _> = storage
            .claims
            .iter()
            .map(|claim| ((claim.namespace.as_str(), claim.name.as_str()), claim))
            .collect();
        let local = storage.volumes.iter().filter(|volume| volume.local);
        let mut pods: Vec<&Pod> = snapshot
            .pods
            .iter()
            .filter(|pod| !is_terminal(pod))
            .collect();
        pods.sort_by_key(|pod| (pod.node_name.is_none(), pod.created_at, &pod.key));
        let mut taken = BTreeMap::new();
        for pod in pods {
            for key in claims_of(pod) {
                if claims.get(&key).is_some_and(|claim| claim.one_pod) {
                    taken.entry(key).or_insert(&pod.key);
                }
            }
        }
        let nodes = snapshot.nodes.iter();
        let hostnames = nodes.map(|node| {
            let label = node.labels.get(labels::HOSTNAME);
            label.map_or(node.name.as_str(), String::as_str)
        });
        Self {
            local: local.map(|volume| (volume.name.as_str(), volume)).collect(),
            hostnames: hostnames.collect(),
            claims,
            taken,
        }
    }

    /// Returns why no node can run the pod.
    pub(super) fn problem(&self, pod: &'a Pod) -> Option<String> {
        claims_of(pod).find_map(|key| {
            let claim = self.claims.get(&key)?;
            let name = &claim.name;
            if let Some(other) = self.taken.get(&key).filter(|other| **other != &pod.key) {
                return Some(format!(
                    "volume claim {name} can be used by one pod only (ReadWriteOncePod), and pod {other} uses it"
                ));
            }
            let volume = self.local.get(claim.volume.as_deref()?)?;
            let nodes = self.nodes_of(volume)?;
            Some(format!(
                "volume {} of claim {name} is on a local disk of {nodes}, which no longer exists: delete the claim to get a new volume",
                volume.name
            ))
        })
    }

    /// Names of the nodes that hold a local volume, if none of them exists.
    fn nodes_of(&self, volume: &Volume) -> Option<String> {
        let mut named = BTreeSet::new();
        for term in &volume.node_affinity {
            let wanted = Requirements::from_selector(&term.match_expressions);
            let hostname = wanted
                .get(labels::HOSTNAME)
                .filter(|only| !only.complement)?;
            named.extend(hostname.values.iter().cloned());
        }
        let is_gone = !named.is_empty()
            && !named
                .iter()
                .any(|name| self.hostnames.contains(name.as_str()));
        is_gone.then(|| named.into_iter().collect::<Vec<_>>().join(", "))
    }
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    pod.volumes.iter().filter_map(|volume| match volume {
        PodVolume::Claim { claim } => Some((pod.key.namespace.as_str(), claim.as_str())),
        PodVolume::Ephemeral { .. } => None,
    })
}
