//! The relay's wakes.

use std::collections::BTreeSet;

use model::{Lane, NodeClaimName, Wake};

use crate::Rig;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Relay {
    Watching,
    Dead,
}

/// Objects of the cluster as the simulated relay saw them at its last wakes.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pending: Vec<String>,
    nodes: Vec<String>,
    pods: Vec<String>,
    claims: BTreeSet<NodeClaimName>,
}

impl Rig {
    /// Simulates the relay: it raises counters before it sends wakes, wakes only the lanes of changes, and also wakes the
    /// provisioner if a NodeClaim is gone while pods are pending.
    pub(crate) fn watch(&mut self) {
        let now = self.sim.with(|world| {
            let version = |name: &str, version: &str| format!("{name}@{version}");
            Seen {
                pending: world
                    .api
                    .pods
                    .values()
                    .filter(|pod| pod.unschedulable && pod.node_name.is_none())
                    .map(|pod| pod.uid.0.clone())
                    .collect(),
                nodes: world
                    .api
                    .nodes
                    .values()
                    .map(|node| version(node.name.as_str(), &node.resource_version))
                    .chain(
                        world
                            .api
                            .node_claims
                            .values()
                            .map(|claim| version(claim.name.as_str(), &claim.resource_version)),
                    )
                    .collect(),
                pods: world
                    .api
                    .pods
                    .values()
                    .map(|pod| {
                        version(
                            &pod.key.name,
                            pod.node_name.as_ref().map_or("", |node| node.as_str()),
                        )
                    })
                    .collect(),
                claims: world.api.node_claims.keys().cloned().collect(),
            }
        });
        let is_freed = !self.seen.claims.is_subset(&now.claims);
        let mut lanes = Vec::new();
        if now.pending != self.seen.pending || (is_freed && !now.pending.is_empty()) {
            lanes.push(Lane::Provisioner);
        }
        if now.nodes != self.seen.nodes || now.pods != self.seen.pods {
            lanes.extend([Lane::Lifecycle, Lane::Terminator]);
        }
        self.seen = now;
        for lane in &lanes {
            *self
                .beat
                .counters
                .entry(lane.as_str().to_owned())
                .or_default() += 1;
        }
        let at = self.seconds / 30;
        self.beat.beat_at = at.to_string();
        let (beat, publishing) = (&mut self.beat, &mut self.publishing);
        self.sim.with(|world| {
            if let Some(publishing) = publishing {
                beat.view = publishing.publish(world, beat);
            }
            world.ledger.of(&Self::cluster()).beat = Some(beat.clone());
            let now = world.now;
            for lane in lanes {
                let mut wake = Wake::new(Self::cluster(), lane, "relay");
                wake.view = beat.view.clone();
                world.wakes.push((now, wake));
            }
        });
    }
}
