//! A cluster that Karpenter provided with nodes: Whittle watches, takes over, and hands back (docs/design.md#one-brain,
//! docs/protocol.md#leading).

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do, by panicking"
)]

use fakes::World;
use model::{InstanceId, InterruptionKind};
use stories::{Relay, Rig, all_bound, all_gone, secs};

/// Nodes of which the ledger knows nothing, while somebody else leads; Whittle is in shadow mode.
async fn karpenters() -> Rig {
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

/// Karpenter is scaled to zero, which gives its Lease up.
fn karpenter_ends(rig: &Rig) {
    rig.sim.with(|world| {
        let lease = world.api.leader.as_mut().unwrap();
        lease.holder = String::new();
    });
}

fn alive(world: &mut World) -> Vec<InstanceId> {
    world.account.alive().map(|one| one.id.clone()).collect()
}

#[tokio::test]
async fn whittle_takes_over_every_node_and_ends_none_that_is_needed() {
    let mut rig = karpenters().await;
    let before = rig.sim.with(alive);
    assert!(!before.is_empty());
    mode(&rig, "active");
    karpenter_ends(&rig);
    rig.pass(secs(20 * 60)).await;
    assert_eq!(rig.sim.with(alive), before, "{:#?}", rig.transcript);
    // What it took over it works for: a warned node is replaced …
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
    // … and nodes that nobody needs go.
    rig.scale(0);
    let gone = rig.until(secs(900), all_gone).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn while_somebody_else_leads_nothing_is_done() {
    let mut rig = karpenters().await;
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
    let said = rig
        .transcript
        .iter()
        .any(|line| line.contains("alarm") && line.contains("karpenter-7d9c"));
    assert!(said, "{:#?}", rig.transcript);
}

#[tokio::test]
async fn handing_back_leaves_every_node_and_gives_the_lease_up() {
    let mut rig = karpenters().await;
    mode(&rig, "active");
    karpenter_ends(&rig);
    rig.pass(secs(300)).await;
    let before = rig.sim.with(alive);
    mode(&rig, "shadow");
    rig.pass(secs(300)).await;
    rig.scale(0);
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(alive), before, "nothing is done any more");
    rig.sim.with(|world| {
        let lease = world.api.leader.as_ref().unwrap();
        assert_eq!(lease.holder, "", "whoever comes next may lead");
        assert!(
            world
                .api
                .node_claims
                .values()
                .all(|claim| claim.deleted_at.is_none())
        );
    });
}
