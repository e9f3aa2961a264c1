//! A cluster that Karpenter provisioned: Whittle runs in shadow mode, takes over, and hands back (docs/design.md#one-brain,
//! docs/protocol.md#leading).

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests panic on failure"
)]

use fakes::World;
use model::{InstanceId, InterruptionKind};
use stories::{Relay, Rig, all_bound, all_gone, secs};

/// Nodes without rows in the ledger, while another controller leads and Whittle is in shadow mode.
async fn karpenter_cluster() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(4);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(120)).await;
    mode(&rig, "shadow");
    rig.pass(secs(120)).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        rows.intents.clear();
        rows.calls.clear();
        rows.claims.clear();
        rows.commands.clear();
        world.ledger.owners.clear();
        for instance in world.account.instances.values_mut() {
            instance.tags.remove("whittle.sh/launch");
        }
        let now = world.now;
        let lease = world.api.leader.as_mut().unwrap();
        lease.holder = "karpenter-7d9c".to_owned();
        lease.duration_seconds = 15;
        lease.renewed_at = Some(now);
        lease.resource_version = Some("karpenter-0".to_owned());
    });
    rig.transcript.clear();
    rig
}

fn mode(rig: &Rig, mode: &str) {
    let entry = serde_json::json!({"type": "endpoint", "mode": mode});
    rig.sim.with(|world| world.registry[0].body = Ok(entry));
}

/// Karpenter is scaled to zero and releases its Lease.
fn karpenter_ends(rig: &Rig) {
    rig.sim.with(|world| {
        let lease = world.api.leader.as_mut().unwrap();
        lease.holder = String::new();
    });
}

fn alive(world: &mut World) -> Vec<InstanceId> {
    world
        .account
        .alive()
        .map(|instance| instance.id.clone())
        .collect()
}

#[tokio::test]
async fn takeover_adopts_every_node_and_removes_only_empty_ones() {
    let mut rig = karpenter_cluster().await;
    let before = rig.sim.with(alive);
    assert!(!before.is_empty());
    mode(&rig, "active");
    karpenter_ends(&rig);
    rig.pass(secs(20 * 60)).await;
    assert_eq!(rig.sim.with(alive), before, "{:#?}", rig.transcript);
    // Adopted nodes are managed: a warned one is replaced …
    let victim = before[0].clone();
    let warned = rig
        .announce(&victim, InterruptionKind::SpotInterrupted, Some(secs(120)))
        .await;
    warned.unwrap();
    let replaced = rig
        .until(secs(300), |world| {
            all_bound(world) && !alive(world).contains(&victim)
        })
        .await;
    assert!(replaced.is_some(), "{:#?}", rig.transcript);
    // … and empty nodes are removed.
    rig.scale(0);
    let gone = rig.until(secs(900), all_gone).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn no_action_is_taken_while_karpenter_leads() {
    let mut rig = karpenter_cluster().await;
    let before = rig.sim.with(alive);
    mode(&rig, "active");
    rig.scale(8);
    for renewal in 1..=10 {
        rig.sim.with(|world| {
            let now = world.now;
            let lease = world.api.leader.as_mut().unwrap();
            lease.renewed_at = Some(now);
            lease.resource_version = Some(format!("karpenter-{renewal}"));
        });
        rig.pass(secs(60)).await;
    }
    assert_eq!(rig.sim.with(alive), before);
    let reported = rig
        .transcript
        .iter()
        .any(|line| line.contains("alarm") && line.contains("karpenter-7d9c"));
    assert!(reported, "{:#?}", rig.transcript);
}

#[tokio::test]
async fn handback_keeps_every_node_and_releases_the_lease() {
    let mut rig = karpenter_cluster().await;
    mode(&rig, "active");
    karpenter_ends(&rig);
    rig.pass(secs(300)).await;
    let before = rig.sim.with(alive);
    mode(&rig, "shadow");
    rig.pass(secs(300)).await;
    rig.scale(0);
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(alive), before, "no further action is taken");
    rig.sim.with(|world| {
        let lease = world.api.leader.as_ref().unwrap();
        assert_eq!(lease.holder, "", "the Lease is free");
        assert!(
            world
                .api
                .node_claims
                .values()
                .all(|claim| claim.deleted_at.is_none())
        );
    });
}
