//! Admission that denies the NodeClaims of one NodePool: its pods stay pending with an event that says why, and other pods are
//! served.

use fakes::{Admission, Protected};
use ports::cluster::EventTarget;
use stories::{Rig, all_bound, cpu, secs};

use crate::{count, serving};

const POOL: &str = "guarded";
const MINUTES: usize = 60;

/// Adds a NodePool whose NodeClaims admission denies, and two pods that need it.
async fn guarded(how: Admission) -> Rig {
    let rig = serving(1).await;
    rig.sim.with(|world| {
        let mut pool = world.api.node_pools["default"].clone();
        pool.metadata.name = POOL.into();
        pool.metadata.uid = "guarded-uid".into();
        world.api.node_pools.insert(POOL.into(), pool);
        let refused = Protected::NodeClaimsOf(POOL.into());
        world.api.protected.insert(refused, how);
        world.api.scale(POOL, 2, cpu(1_500));
        let waiting = world.api.deployments.get_mut(POOL).unwrap();
        let label = "karpenter.sh/nodepool".to_owned();
        waiting.node_selector.insert(label, POOL.to_owned());
    });
    rig
}

fn messages(rig: &Rig) -> Vec<String> {
    rig.sim.with(|world| {
        let events = world.api.events.iter();
        let own = events.filter(|event| {
            event.reason == "ChangeRefused"
                && matches!(&event.about, EventTarget::NodePool(name, _) if name.as_str() == POOL)
        });
        own.map(|event| event.message.clone()).collect()
    })
}

#[tokio::test]
async fn denied_node_claims_of_a_node_pool_block_no_other_and_are_events() {
    for how in [
        Admission::Denied,
        Admission::Invalid,
        Admission::WebhookDown,
    ] {
        let mut rig = guarded(how).await;
        rig.pass(secs(30)).await;
        rig.scale(6);
        let others = |world: &mut fakes::World| {
            let mut pods = world.api.pods.values();
            pods.all(|pod| pod.node_name.is_some() != pod.key.name.starts_with(POOL))
        };
        let bound = rig.until(secs(180), others).await;
        assert!(bound.is_some(), "{how:?}: {:#?}", rig.transcript);
        let reported = messages(&rig);
        let names_it = |text: &String| text.contains("forensics") && text.contains(POOL);
        assert!(reported.iter().any(names_it), "{how:?}: {reported:?}");
        let before = count(&rig, "create_node_claim");
        rig.pass(secs(60 * i64::try_from(MINUTES).unwrap())).await;
        let tries = count(&rig, "create_node_claim") - before;
        // Each of the two NodeClaims is tried about once a minute, however often the provisioner is woken.
        assert!((2..=3 * MINUTES).contains(&tries), "{how:?}: {tries}");
        rig.sim.with(|world| world.api.protected.clear());
        let bound = rig.until(secs(600), all_bound).await;
        assert!(bound.is_some(), "{how:?}: {:#?}", rig.transcript);
    }
}
