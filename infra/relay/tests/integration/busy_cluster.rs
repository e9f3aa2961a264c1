//! Documents that the functions write for a busy cluster: turns of a story make them, so that series, labels and buckets are
//! those of real functions.

use std::collections::BTreeMap;

use model::{CapacityType, InterruptionKind};
use serde_json::json;
use stories::{Relay, Rig, all_bound, make_spot, secs};

/// Time within which a step of the story leaves its trace in a document.
const STEP: i64 = 30 * 60;

/// The `data` of the ConfigMap after launches, failed launches, a drift that was rolled back and one that was not, an interruption,
/// and while a pod waits for capacity. A spot node and an on-demand one remain.
pub(crate) async fn documents() -> BTreeMap<String, String> {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        world.catalog.retain(|known| known.name == "m5.large");
        for known in world.catalog.iter_mut() {
            known.offerings.retain(|offering| offering.zone == ZONE);
        }
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.limits = serde_json::from_value(json!({"cpu": "100"})).unwrap();
    });
    rig.pass(secs(150)).await;
    without_capacity(&rig, true);
    rig.scale(2);
    reports(
        &mut rig,
        "karpenter_cloudprovider_instance_launch_failures_total",
    )
    .await;
    without_capacity(&rig, false);
    assert!(rig.until(secs(STEP), all_bound).await.is_some());
    rig.pass(secs(300)).await;

    without_capacity(&rig, true);
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.metadata.generation = Some(2);
        let metadata = pool.spec.template.metadata.get_or_insert_default();
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("team".to_owned(), "new".to_owned());
    });
    reports(
        &mut rig,
        "karpenter_voluntary_disruption_queue_failures_total",
    )
    .await;
    without_capacity(&rig, false);
    reports(&mut rig, "karpenter_nodes_termination_duration_seconds").await;

    let victim = rig.sim.with(|world| {
        let mut alive = world.account.alive();
        alive.next().unwrap().id.clone()
    });
    let announced = InterruptionKind::SpotInterrupted;
    rig.announce(&victim, announced, Some(secs(120)))
        .await
        .unwrap();
    rig.pass(secs(600)).await;
    assert!(rig.until(secs(STEP), all_bound).await.is_some());
    rig.sim.with(|world| {
        let id = world.account.alive().next().unwrap().id.clone();
        make_spot(world, &id);
    });
    without_capacity(&rig, true);
    rig.scale(3);
    rig.pass(secs(660)).await;
    rig.sim.with(|world| {
        let documents = &world.api.status.as_ref().unwrap().documents;
        let document = |(lane, text): (&model::Lane, &String)| (lane.to_string(), text.clone());
        documents.iter().map(document).collect()
    })
}

const ZONE: &str = "us-east-1a";

/// Makes EC2 have no capacity, or capacity again.
fn without_capacity(rig: &Rig, is_lacking: bool) {
    rig.sim.with(|world| {
        world.account.no_capacity.clear();
        if is_lacking {
            for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
                let offering = (capacity_type, "m5.large".into(), ZONE.into());
                world.account.no_capacity.insert(offering);
            }
        }
    });
}

/// Advances the clock until a document has a series of this name.
async fn reports(rig: &mut Rig, name: &str) {
    let has = |world: &mut fakes::World| {
        let reported = world.api.status.as_ref();
        let mut documents = reported.into_iter().flat_map(|all| all.documents.values());
        documents.any(|text| text.contains(name))
    };
    let took = rig.until(secs(STEP), has).await;
    assert!(took.is_some(), "{name}: {:#?}", rig.transcript);
}
