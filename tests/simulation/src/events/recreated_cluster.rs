//! A cluster that is deleted and recreated under its name: with another UID, and only with what its owners install again.

use fakes::{ApiServer, PublishedStatus, World};
use jiff::SignedDuration;
use model::Uid;

/// Time until the owners have installed everything again, the relay included.
pub(super) const REINSTALLED_WITHIN: SignedDuration = SignedDuration::from_secs(120);

pub(super) fn recreate(world: &mut World, is_known_gone: bool) {
    let uid = format!("{}-made-at-{}", world.cluster, world.now.as_second());
    let new = ApiServer::of(Uid(uid));
    let former = std::mem::replace(&mut world.api, new);
    let api = &mut world.api;
    api.joins_once = former.joins_once;
    api.status = former.status.map(|_| PublishedStatus::default());
    api.deployments = former.deployments;
    api.disruption_budgets = former.disruption_budgets;
    for (name, mut pool) in former.node_pools {
        pool.status = None;
        api.node_pools.insert(name, pool);
    }
    for (name, former) in former.node_classes {
        let mut class = fakes::node_class(&name);
        class.spec = former.spec;
        api.node_classes.insert(name, class);
    }
    // Kubelets of the former cluster cannot reach their API server any more.
    let cluster = world.cluster.clone();
    let instances = world.account.instances.values_mut();
    for instance in instances {
        if instance.tags.get(api::names::tag::EKS_CLUSTER) == Some(&cluster.0) {
            instance.private_dns = None;
        }
    }
    if is_known_gone {
        let mut entries = world.registry.iter_mut();
        let entry = entries.find(|entry| entry.cluster == cluster);
        if let Some(entry) = entry.and_then(|entry| entry.body.as_mut().ok()) {
            make_eks_entry(entry);
        }
    }
}

/// Turns an entry into one of an EKS cluster, for which the name identifies one cluster at a time.
pub(super) fn make_eks_entry(entry: &mut serde_json::Value) {
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("type".to_owned(), "eks".into());
    }
}
