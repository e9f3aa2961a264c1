//! `enableDRA`: pods with ResourceClaims get nodes that have the devices (docs/devices.md).

use api::{
    conditions::types::{INITIALIZED, REGISTERED},
    names::annotation::REQUESTED_DRA_DRIVERS,
};
use fakes::{Fault, World};
use model::{
    PodKey,
    devices::{
        ClaimSpec, Device, DeviceAlternative, DeviceClass, DeviceRequest, NVIDIA_GPU, PodClaim,
        ResourceClaimTemplate, ResourceSlice,
    },
    node_claim::NodeClaim,
    pod::{Pod, PodShape},
};
use serde_json::json;
use stories::{Relay, Rig, all_bound, cpu, secs};

/// A cluster whose larger instance types have a GPU each; the settings decide whether claims count.
async fn with_gpus(settings: serde_json::Value) -> Rig {
    let rig = Rig::ready(Relay::Watching).await;
    rig.configure(&settings);
    rig.sim.with(|world| {
        for kind in world
            .catalog
            .iter_mut()
            .filter(|kind| kind.name != "m5.large")
        {
            kind.devices = vec![gpu("")];
        }
        let objects = &mut world.api.devices;
        objects.classes = vec![DeviceClass {
            name: "gpu".into(),
            selectors: vec![format!("device.driver == '{NVIDIA_GPU}'")],
        }];
        let request = DeviceRequest {
            name: "gpu".into(),
            alternatives: vec![DeviceAlternative {
                class: "gpu".into(),
                ..DeviceAlternative::default()
            }],
        };
        objects.templates = vec![ResourceClaimTemplate {
            key: PodKey::new("default", "gpus"),
            spec: ClaimSpec {
                requests: vec![request],
                ..ClaimSpec::default()
            },
        }];
    });
    rig
}

fn gpu(pool: &str) -> Device {
    Device {
        driver: NVIDIA_GPU.into(),
        pool: pool.into(),
        name: "gpu-0".into(),
        ..Device::default()
    }
}

/// Adds a pod that claims a GPU.
fn add_pod(world: &mut World) {
    let claim = PodClaim {
        name: "gpu".into(),
        template: Some("gpus".into()),
        ..PodClaim::default()
    };
    let shape = PodShape {
        requests: cpu(100),
        resource_claims: true,
        device_claims: vec![claim],
        ..PodShape::default()
    };
    let key = PodKey::new("default", "train");
    let pod = Pod {
        key: key.clone(),
        uid: "train-uid".into(),
        created_at: Some(world.now),
        shape: shape.into(),
        ..Pod::default()
    };
    world.api.pods.insert(key, pod);
}

fn claims(rig: &Rig) -> Vec<NodeClaim> {
    rig.sim
        .with(|world| world.api.node_claims.values().cloned().collect())
}

#[tokio::test]
async fn pod_with_claims_gets_a_node_that_waits_for_its_driver() {
    let mut rig = with_gpus(json!({"enableDRA": true})).await;
    rig.sim.with(add_pod);
    let registered = |world: &mut World| {
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| claim.is_true(REGISTERED))
    };
    let took = rig.until(secs(300), registered).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(120)).await;
    let claim = claims(&rig).remove(0);
    let drivers = claim.annotations.get(REQUESTED_DRA_DRIVERS);
    assert_eq!(drivers.map(String::as_str), Some(NVIDIA_GPU));
    let instance_type = claim.labels.get("node.kubernetes.io/instance-type");
    assert_eq!(instance_type.map(String::as_str), Some("m5.xlarge"));
    let condition = claim.condition(INITIALIZED).unwrap();
    assert_eq!(condition.reason, "DRADriverPoolsNotPublished");
    rig.sim.with(|world| {
        let node = world.api.nodes.keys().next().unwrap().clone();
        world.api.devices.slices = vec![ResourceSlice {
            driver: NVIDIA_GPU.into(),
            pool: node.to_string(),
            generation: 1,
            slices: 1,
            devices: vec![gpu(node.as_str())],
            node: Some(node),
        }];
    });
    rig.pass(secs(120)).await;
    assert!(
        claims(&rig)[0].is_true(INITIALIZED),
        "{:#?}",
        rig.transcript
    );
    assert_eq!(claims(&rig).len(), 1);
}

#[tokio::test]
async fn pod_with_claims_is_refused_by_default() {
    let mut rig = with_gpus(json!({})).await;
    rig.sim.with(add_pod);
    rig.pass(secs(180)).await;
    assert_eq!(claims(&rig), []);
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        let own = events.filter(|event| event.reason == "FailedScheduling");
        own.map(|event| event.message.clone()).collect::<Vec<_>>()
    });
    let text = "uses resource claims (dynamic resource allocation)";
    assert!(
        reported.iter().any(|message| message.contains(text)),
        "{reported:#?}"
    );
}

#[tokio::test]
async fn devices_are_read_only_for_pods_with_claims() {
    let mut rig = with_gpus(json!({"enableDRA": true})).await;
    for _ in 0..100 {
        rig.sim.fail_next("device_objects", Fault::Unavailable);
        rig.sim.fail_next("resource_slices", Fault::Unavailable);
    }
    rig.sim.with(|world| world.api.scale("web", 2, cpu(100)));
    let took = rig.until(secs(120), all_bound).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn unreadable_devices_are_reported_and_block_no_launch() {
    let mut rig = with_gpus(json!({"enableDRA": true})).await;
    for _ in 0..100 {
        rig.sim.fail_next("device_objects", Fault::Denied);
    }
    rig.sim.with(|world| {
        add_pod(world);
        world.api.scale("web", 1, cpu(100));
    });
    rig.pass(secs(180)).await;
    let bound = rig.sim.with(|world| {
        let pods = world.api.pods.values();
        let bound = pods.filter(|pod| pod.node_name.is_some());
        bound.map(|pod| pod.key.name.clone()).collect::<Vec<_>>()
    });
    assert!(
        bound.iter().any(|name| name.starts_with("web")),
        "{bound:?}"
    );
    let reported =
        |line: &String| line.contains("resource claims of pods are ignored: the API server denied");
    assert!(rig.transcript.iter().any(reported), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn unreadable_resource_slices_block_no_other_node() {
    let mut rig = with_gpus(json!({"enableDRA": true})).await;
    rig.sim.with(add_pod);
    let asked = |world: &mut World| world.account.requests.len() == 1;
    assert!(
        rig.until(secs(120), asked).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    for _ in 0..100 {
        rig.sim.fail_next("resource_slices", Fault::Denied);
    }
    rig.sim.with(|world| world.api.scale("web", 3, cpu(1_800)));
    let initialized = |world: &mut World| {
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| claim.is_true(INITIALIZED))
    };
    let took = rig.until(secs(180), initialized).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    let waiting = claims(&rig)
        .into_iter()
        .filter(|claim| !claim.is_true(INITIALIZED));
    assert_eq!(waiting.count(), 1, "the node with the GPU");
}
