//! Zones that ARC has shifted a cluster's traffic away from (docs/spec/aws.md#zonal-shift): polled by the sweep, reported on
//! the NodePools that may launch there.

use std::{collections::BTreeSet, sync::Arc};

use api::{EC2NodeClass, NodePool};
use jiff::Timestamp;
use model::{
    ClusterName, Lane, NodePoolName, Uid,
    ledger::{Meta, SweepMemory},
    requirement::Requirements,
};
use ports::{
    Cluster,
    cluster::{Event, EventKind, EventTarget},
};

use crate::{Entry, TurnError, World};

/// Polls ARC, if the cluster's settings enable that, and records changes. Without an answer, the recorded shifts remain in force
/// until they end.
pub(crate) async fn poll(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
) -> Result<(), TurnError> {
    let entry = Entry::read(&meta.registry).map_err(|source| TurnError::Entry {
        cluster: cluster.clone(),
        source,
    })?;
    let shifts = if entry.zonal_shift {
        let catalog = &world.catalog;
        catalog.zonal_shifts(cluster, &meta.registry).await?
    } else {
        Vec::new()
    };
    if shifts != world.ledger.zonal_shifts(cluster).await? {
        world.ledger.store_zonal_shifts(cluster, &shifts).await?;
        let now = world.clock.now();
        // Pods may have a place now, or need another one.
        let ledger = &world.ledger;
        ledger.make_due(cluster, Lane::Provisioner, now).await?;
    }
    Ok(())
}

/// Emits events about shifts that have begun or ended since the last time, on the NodePools concerned.
pub(crate) async fn announce(
    world: &World,
    cluster: &ClusterName,
    api: &Arc<dyn Cluster>,
    memory: &mut SweepMemory,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let shifts = world.ledger.zonal_shifts(cluster).await?.into_iter();
    let active: BTreeSet<String> = shifts
        .filter(|shift| shift.until > now)
        .map(|shift| shift.zone_id)
        .collect();
    if active.is_empty() && memory.announced_shifts.is_empty() {
        return Ok(());
    }
    let (pools, classes) = tokio::try_join!(api.node_pools(), api.node_classes())?;
    let mut concerned = BTreeSet::new();
    for pool in &pools.items {
        let zones = active.iter();
        let zones = zones.filter(|zone_id| launches_in(pool, &classes.items, zone_id));
        concerned.extend(zones.map(|zone_id| (pool.metadata.name.clone(), zone_id.clone())));
    }
    let announced = memory.announced_shifts.clone();
    for change in concerned.symmetric_difference(&announced) {
        let (name, zone_id) = change;
        if let Some(pool) = pools.items.iter().find(|pool| pool.metadata.name == *name) {
            let event = event(pool, zone_id, concerned.contains(change), now);
            api.post_event(&event).await?;
        }
    }
    memory.announced_shifts = concerned;
    Ok(())
}

/// Whether the NodePool's class has a subnet in the zone, and its requirements admit it.
fn launches_in(pool: &NodePool, classes: &[EC2NodeClass], zone_id: &str) -> bool {
    let name = &pool.spec.template.spec.node_class_ref.name;
    let class = classes.iter().find(|class| class.metadata.name == *name);
    let status = class.and_then(|class| class.status.as_ref());
    let subnets = status.and_then(|status| status.subnets.as_deref());
    let model = model::node_pool::NodePool::from(pool.clone());
    let wanted = Requirements::from_selector(&model.template.requirements);
    let admits = |key: &str, value: &str| wanted.get(key).is_none_or(|wanted| wanted.has(value));
    let mut in_zone = subnets.unwrap_or_default().iter();
    in_zone.any(|subnet| {
        subnet.zone_id.as_deref() == Some(zone_id)
            && admits(api::names::label::ZONE, &subnet.zone)
            && admits(api::names::label::ZONE_ID, zone_id)
    })
}

fn event(pool: &NodePool, zone_id: &str, begins: bool, at: Timestamp) -> Event {
    let name = NodePoolName::from(pool.metadata.name.as_str());
    let (kind, reason, message) = if begins {
        let message = format!(
            "Traffic is shifted away from zone {zone_id}: no nodes are launched there until the shift ends"
        );
        (EventKind::Warning, "ZonalShiftActive", message)
    } else {
        let message = format!("The zonal shift away from zone {zone_id} is over");
        (EventKind::Normal, "ZonalShiftCleared", message)
    };
    Event {
        about: EventTarget::NodePool(name, Uid(pool.metadata.uid.clone())),
        kind,
        reason: reason.into(),
        message,
        at,
    }
}
