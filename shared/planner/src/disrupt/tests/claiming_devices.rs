//! Pods with device claims move only to nodes with matching devices (docs/spec/lifecycle.md#simulation).

use model::devices::{
    AllocatedDevice, Allocation, Device, DeviceAlternative, DeviceClass, DeviceRequest, PodClaim,
    ResourceClaim, ResourceSlice,
};

use super::*;

const DRIVER: &str = "gpu.nvidia.com";

fn device(pool: &str, at: usize) -> Device {
    Device {
        driver: DRIVER.to_owned(),
        pool: pool.to_owned(),
        name: format!("gpu-{at}"),
        ..Device::default()
    }
}

/// Publishes this many GPUs on a node and allocates one to each pod there.
fn with_gpus(cluster: TestCluster, node: &str, gpus: usize) -> TestCluster {
    cluster.with(|snapshot| {
        snapshot.settings.device_claims = true;
        snapshot.devices.classes = vec![DeviceClass {
            name: "gpu".to_owned(),
            selectors: Vec::new(),
        }];
        snapshot.devices.slices.push(ResourceSlice {
            driver: DRIVER.to_owned(),
            pool: node.to_owned(),
            generation: 1,
            slices: 1,
            node: Some(node.into()),
            devices: (0..gpus).map(|at| device(node, at)).collect(),
        });
        let pods = snapshot.pods.iter_mut();
        let own = pods.filter(|pod| {
            pod.node_name
                .as_ref()
                .is_some_and(|name| name.as_str() == node)
        });
        for (at, pod) in own.enumerate() {
            pod.resource_claims = true;
            let claim = format!("claim-of-{}", pod.key.name);
            pod.device_claims = vec![PodClaim {
                name: "gpu".to_owned(),
                claim: Some(claim.clone()),
                template: Some("gpu".to_owned()),
                is_void: false,
            }];
            let mut of_claim = ResourceClaim {
                key: model::PodKey::new("default".to_owned(), claim),
                owner: Some(pod.uid.clone()),
                reserved_for: vec![pod.uid.clone()],
                allocation: Some(Allocation {
                    devices: vec![AllocatedDevice {
                        driver: DRIVER.to_owned(),
                        pool: node.to_owned(),
                        device: format!("gpu-{at}"),
                        consumed: None,
                    }],
                    nodes: Some(Vec::new()),
                }),
                ..ResourceClaim::default()
            };
            of_claim.spec.requests = vec![DeviceRequest {
                name: "gpu".to_owned(),
                alternatives: vec![DeviceAlternative {
                    class: "gpu".to_owned(),
                    ..DeviceAlternative::default()
                }],
            }];
            snapshot.devices.claims.push(of_claim);
        }
    })
}

/// Two nodes with this many GPUs, each with room for the other's pod.
fn two(gpus: [usize; 2]) -> TestCluster {
    let cluster = TestCluster::new()
        .node("a", "medium", &[500])
        .node("b", "medium", &[600]);
    with_gpus(with_gpus(cluster, "a", gpus[0]), "b", gpus[1])
}

#[test]
fn pod_moves_to_a_node_with_a_free_device() {
    assert_eq!(two([1, 2]).removes(), ["a"]);
    assert_eq!(two([2, 1]).removes(), ["b"]);
    assert_eq!(two([1, 1]).removes(), [""; 0]);
}

#[test]
fn cheaper_replacement_must_have_the_claimed_devices() {
    let with_devices = |small: usize| {
        let cluster = with_gpus(TestCluster::new().node("n", "large", &[500]), "n", 1);
        cluster.with(|snapshot| {
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types)[0].devices = (0..small).map(|at| device("", at)).collect();
        })
    };
    assert_eq!(with_devices(0).removes(), [""; 0]);
    let commands = with_devices(1).commands();
    assert_eq!(commands[0].2, [["small"]]);
}

#[test]
fn pod_with_ignored_device_claims_is_not_moved() {
    let cluster = two([1, 2]).with(|snapshot| snapshot.settings.device_claims = false);
    assert_eq!(cluster.removes(), [""; 0]);
}
