//! Stand-in for the in-cluster relay: notices changes that concern a lane, and wakes it. The real relay watches; this one compares
//! pictures.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::SignedDuration;
use model::{Lane, Uid, node::ConditionStatus};
use tokio::sync::watch;

use super::{lanes::Queue, names::CLUSTER, picture::Picture};

/// Time during which pending pods are gathered.
const POD_BATCH: SignedDuration = SignedDuration::from_secs(1);

pub(super) async fn relay(mut pictures: watch::Receiver<Arc<Picture>>, queue: Arc<Queue>) {
    let mut seen: BTreeMap<Lane, u64> = BTreeMap::new();
    while pictures.changed().await.is_ok() {
        let picture = pictures.borrow_and_update().clone();
        for (lane, view) in views(&picture) {
            if seen.insert(lane, view) != Some(view) {
                let delay = match lane {
                    Lane::Provisioner => POD_BATCH,
                    Lane::Lifecycle
                    | Lane::Disruption
                    | Lane::Terminator
                    | Lane::Interruption
                    | Lane::Housekeeper => SignedDuration::ZERO,
                };
                queue.put(&CLUSTER.into(), lane, delay);
            }
        }
    }
}

/// Digests of the objects that concern each lane.
fn views(picture: &Picture) -> [(Lane, u64); 3] {
    let waiting: Vec<&Uid> = picture.waiting().map(|pod| &pod.uid).collect();
    let nodes: Vec<_> = picture
        .nodes
        .values()
        .map(|node| {
            let ready = node.ready.status == ConditionStatus::True;
            (&node.name, ready, picture.pods_on(&node.name).count())
        })
        .collect();
    let claims: Vec<_> = picture
        .claims
        .iter()
        .map(|claim| (&claim.name, &claim.status.provider_id, claim.generation))
        .collect();
    let leaving: Vec<_> = picture
        .claims
        .iter()
        .filter(|claim| claim.deleted_at.is_some())
        .map(|claim| {
            let node = claim.status.node_name.as_ref();
            let pods = node.map_or(0, |node| picture.pods_on(node).count());
            let instance = picture.instance_of(claim);
            let state = instance.map(|found| std::mem::discriminant(&found.instance.state));
            (&claim.name, pods, state)
        })
        .collect();
    [
        (Lane::Provisioner, digest(&(waiting, &picture.ready))),
        (
            Lane::Lifecycle,
            digest(&(nodes, claims, &picture.asked_for)),
        ),
        (Lane::Terminator, digest(&leaving)),
    ]
}

fn digest(view: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    view.hash(&mut hasher);
    hasher.finish()
}
