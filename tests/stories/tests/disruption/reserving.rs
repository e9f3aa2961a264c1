//! A node in a full capacity reservation is terminated before its replacement is launched, and its instance is kept for its pods.

use fakes::World;
use model::{
    CapacityType, Offering,
    catalog::Reservation,
    labels,
    requirement::Requirement,
    selector::Operator,
    taint::{Toleration, TolerationOperator},
};
use serde_json::json;
use stories::{POD, Relay, Rig, cpu, secs};

use crate::{relabel, wait};

const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
const ZONE: &str = "us-east-1a";

/// Makes EC2 report the number of free instances of the reservation, which holds one.
fn count_free(world: &mut World) {
    let alive = world.account.instances.values();
    let mut reserved = alive.filter(|instance| instance.capacity_type == CapacityType::Reserved);
    let is_full =
        reserved.any(|instance| instance.state != model::launch::InstanceState::Terminated);
    let is_known = world.catalog.iter().any(|kind| {
        let mut offerings = kind.offerings.iter();
        offerings.any(|offering| offering.available != is_full && offering.reservation.is_some())
    });
    if is_known {
        return;
    }
    for kind in world.catalog.iter_mut() {
        for offering in &mut kind.offerings {
            if let Some(reservation) = &mut offering.reservation {
                reservation.capacity = u32::from(!is_full);
                reservation.is_full = is_full;
                offering.available = !is_full;
            }
        }
    }
}

/// A NodePool that launches only into a reservation of one instance, on which the pod of `web` runs.
async fn reserved() -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"] = json!({"featureGates": {"TerminateFirstDrift": true}});
        world.catalog.retain(|kind| kind.name == "m5.large");
        let kind = &mut world.catalog[0];
        let like = kind.offerings.iter().find(|offering| offering.zone == ZONE);
        let reserved = Offering {
            capacity_type: CapacityType::Reserved,
            reservation: Some(Reservation {
                id: "cr-1".to_owned(),
                capacity: 1,
                is_full: false,
            }),
            ..like.unwrap().clone()
        };
        kind.offerings.push(reserved);
        let types = ["on-demand", "reserved", "spot"].map(str::to_owned);
        let types = Requirement::new(labels::CAPACITY_TYPE, Operator::In, types);
        kind.requirements
            .0
            .insert(labels::CAPACITY_TYPE.to_owned(), types);
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let requirements = json!([
            {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["reserved"]},
        ]);
        pool.spec.template.spec.requirements = serde_json::from_value(requirements).unwrap();
    });
    rig.pass(secs(150)).await;
    rig.sim.with(|world| world.api.scale("web", 1, cpu(POD)));
    wait(&mut rig, 180, |world| is_bound(world, "web")).await;
    // The fakes launch into reservations without reporting the reservation's id.
    rig.sim.with(|world| {
        count_free(world);
        let id = (RESERVATION_ID.to_owned(), "cr-1".to_owned());
        let claims = world.api.node_claims.values_mut();
        claims.for_each(|claim| claim.labels.extend([id.clone()]));
        let nodes = world.api.nodes.values_mut();
        nodes.for_each(|node| node.labels.extend([id.clone()]));
    });
    rig.pass(secs(60)).await;
    rig
}

/// Whether all pods of a Deployment are bound.
fn is_bound(world: &World, deployment: &str) -> bool {
    let own = world.api.pods.values();
    let mut own = own
        .filter(|pod| pod.labels["app"] == deployment && pod.deletion.is_none())
        .peekable();
    own.peek().is_some() && own.all(|pod| pod.node_name.is_some())
}

#[tokio::test]
async fn reserved_instance_freed_by_a_node_is_kept_for_its_pods() {
    let mut rig = reserved().await;
    let first = rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.metadata.generation = Some(2);
        relabel(pool);
        world.api.node_claims.keys().next().cloned().unwrap()
    });
    let goes = |world: &mut World| world.api.node_claims[&first].deleted_at.is_some();
    wait(&mut rig, 1_800, goes).await;
    // These pods are larger and therefore placed before any pod of `web`.
    rig.sim
        .with(|world| world.api.scale("batch", 2, cpu(POD + 200)));
    wait(&mut rig, 600, |world| {
        count_free(world);
        !world.api.node_claims.contains_key(&first) && world.api.node_claims.len() == 1
    })
    .await;
    // The scheduler may bind any pod to the new node; the test checks that the launch is planned for the pod of `web`.
    let launches = rig.transcript.iter();
    let launches = launches.filter(|line| line.contains(" provisioner: launch "));
    let launches: Vec<_> = launches
        .map(|line| line.contains("for default/web-"))
        .collect();
    assert_eq!(launches, [true, true], "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let name = "karpenter_voluntary_disruption_decisions_total";
        let decisions = world.metrics.iter().filter(|metric| metric.name == name);
        let decisions: Vec<&str> = decisions
            .map(|decision| &*decision.labels["decision"])
            .collect();
        assert_eq!(decisions, ["terminate-first"]);
    });
}

/// Adds a NodePool `batch` of spot instances for the pods of the Deployment of this name only.
fn add_spot_pool(world: &mut World) {
    let mut pool = fakes::node_pool("batch", "Never");
    let template = &mut pool.spec.template.spec;
    let requirements = json!([
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
    ]);
    template.requirements = serde_json::from_value(requirements).unwrap();
    let taint = json!([{"key": "batch", "value": "true", "effect": "NoSchedule"}]);
    template.taints = serde_json::from_value(taint).unwrap();
    world.api.node_pools.insert("batch".to_owned(), pool);
    let batch = world.api.deployments.entry("batch".into()).or_default();
    let selected = (labels::NODE_POOL.to_owned(), "batch".to_owned());
    batch.node_selector.extend([selected]);
    batch.tolerations = vec![Toleration {
        key: "batch".into(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        toleration_seconds: None,
    }];
}

#[tokio::test]
async fn launch_into_a_kept_reservation_that_awaits_approval_blocks_no_other_pods() {
    let mut rig = reserved().await;
    rig.sim.with(add_spot_pool);
    rig.pass(secs(60)).await;
    let first = rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        // The limit is above the price of a spot instance and below that of the reserved one.
        entry["settings"]["guards"] = json!({"approveAbove": {"dollarsPerHour": "0.05"}});
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.metadata.generation = Some(2);
        relabel(pool);
        world.api.node_claims.keys().next().cloned().unwrap()
    });
    wait(&mut rig, 2_400, |world| {
        count_free(world);
        !world.api.node_claims.contains_key(&first)
    })
    .await;
    rig.sim.with(|world| world.api.scale("batch", 1, cpu(POD)));
    wait(&mut rig, 600, |world| is_bound(world, "batch")).await;
    rig.sim.with(|world| {
        assert!(!is_bound(world, "web"), "no approval was given");
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"]["guards"] = json!({});
    });
    wait(&mut rig, 900, |world| is_bound(world, "web")).await;
}
