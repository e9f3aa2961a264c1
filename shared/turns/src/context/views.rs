use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use model::ClusterName;
use view::View;

/// Upper bound on pods that a warm function caches, of all its clusters.
const CACHED_PODS_MAX: usize = 120_000;

/// Epoch and full state that a view continues from.
pub(crate) type ViewOrigin = (String, u64);

/// A warm function's cache of views, to be extended by later changes, and of views that it could not use.
#[derive(Debug, Default)]
pub struct Views {
    cached: Mutex<BTreeMap<ClusterName, View>>,
    /// Origin of a cluster's last view that was refused.
    refused: Mutex<BTreeMap<ClusterName, ViewOrigin>>,
}

impl Views {
    /// Takes the view out of the cache, so that one that turns out wrong does not return to it.
    pub(crate) fn take(&self, cluster: &ClusterName) -> Option<View> {
        lock(&self.cached).remove(cluster)
    }

    pub(crate) fn cache(&self, cluster: &ClusterName, view: View) {
        let mut cached = lock(&self.cached);
        let others: usize = cached.values().map(View::len).sum();
        if others + view.len() > CACHED_PODS_MAX {
            cached.clear();
        }
        if view.len() <= CACHED_PODS_MAX {
            cached.insert(cluster.clone(), view);
        }
    }

    pub(crate) fn is_refused(&self, cluster: &ClusterName, origin: &ViewOrigin) -> bool {
        lock(&self.refused).get(cluster) == Some(origin)
    }

    pub(crate) fn refuse(&self, cluster: &ClusterName, origin: ViewOrigin) {
        lock(&self.refused).insert(cluster.clone(), origin);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
