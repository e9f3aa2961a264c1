//! Several clusters: those of one stack, those of other stacks in the account, and those that are recreated under one name.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests panic on failure"
)]

mod common_failures;
mod duplicate_entries;
mod hanging;
mod recreated;
mod renamed;
mod same_name;
mod unregistered;

use fakes::World;
use model::{InstanceId, ledger::Mode};
use ports::registry::RegistryEntry;
use serde_json::json;
use stories::{Relay, Rig, all_bound, secs};
use turns::SweepReport;

/// A cluster in which `pods` pods run on ready nodes.
async fn serving(pods: usize) -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(pods);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(60)).await;
    rig
}

/// Runs one sweep, a minute after the last.
async fn sweep(rig: &mut Rig) -> SweepReport {
    rig.sim.advance(secs(60));
    let turn = rig.next_turn();
    Box::pin(turns::housekeep(&rig.world, &turn)).await.unwrap()
}

fn entry(cluster: &str, kind: &str, endpoint: &str) -> RegistryEntry {
    RegistryEntry {
        cluster: cluster.into(),
        body: Ok(json!({"type": kind, "endpoint": endpoint, "mode": "active"})),
    }
}

fn mode(rig: &Rig, cluster: &str) -> Option<Mode> {
    rig.sim.with(|world| {
        let meta = world.ledger.of(&cluster.into()).meta.as_ref();
        meta.map(|meta| meta.mode)
    })
}

/// Holder of the leader Lease.
fn holder(rig: &Rig) -> String {
    rig.sim.with(|world| {
        let lease = world.api.leader.as_ref();
        lease.map_or_else(String::new, |lease| lease.holder.clone())
    })
}

fn alive(world: &mut World) -> Vec<InstanceId> {
    world
        .account
        .alive()
        .map(|instance| instance.id.clone())
        .collect()
}
