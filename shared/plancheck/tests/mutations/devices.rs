//! Whether places have the devices that their pods claim.

use std::sync::Arc;

use model::devices::{
    AllocatedDevice, Allocation, Device, DeviceAlternative, DeviceCapacity, DeviceClass,
    DeviceCount, DeviceRequest, PodClaim, RequestPolicy, ResourceClaim, ResourceClaimTemplate,
    ResourceSlice,
};

use super::*;

const DRIVER: &str = "gpu.nvidia.com";

fn device(pool: &str, at: usize) -> Device {
    Device {
        driver: DRIVER.into(),
        pool: pool.into(),
        name: format!("gpu-{at}"),
        ..Device::default()
    }
}

fn spec(count: u32) -> model::devices::ClaimSpec {
    let alternative = DeviceAlternative {
        class: "gpu".into(),
        count: DeviceCount::Exactly(count),
        ..DeviceAlternative::default()
    };
    model::devices::ClaimSpec {
        requests: vec![DeviceRequest {
            name: "gpu".into(),
            alternatives: vec![alternative],
        }],
        ..Default::default()
    }
}

fn claim_of_template(w: &mut World, pod: &str) {
    let pod = w.pod(pod);
    pod.resource_claims = true;
    pod.device_claims.push(PodClaim {
        name: "gpu".into(),
        template: Some("gpus".into()),
        ..PodClaim::default()
    });
}

fn claim_named(w: &mut World, pod: &str, claim: &str) {
    let pod = w.pod(pod);
    pod.resource_claims = true;
    pod.device_claims = vec![PodClaim {
        name: "gpu".into(),
        claim: Some(claim.into()),
        ..PodClaim::default()
    }];
}

/// A claim of a pod outside the plan, with the first device of n-2 allocated.
fn held() -> ResourceClaim {
    ResourceClaim {
        key: key("held"),
        spec: spec(1),
        allocation: Some(Allocation {
            devices: vec![AllocatedDevice {
                driver: DRIVER.into(),
                pool: "n-2".into(),
                device: "gpu-0".into(),
                consumed: None,
            }],
            nodes: Some(Vec::new()),
        }),
        reserved_for: vec!["somebody".into()],
        owner: None,
    }
}

/// Two pods claim a GPU each: one of a launch, one nominated to a node. Every type has one GPU; the node has two, one
/// of them allocated.
fn claiming() -> World {
    let mut world = World::valid();
    let snapshot = &mut world.snapshot;
    snapshot.settings.device_claims = true;
    snapshot.devices.classes = vec![DeviceClass {
        name: "gpu".into(),
        selectors: vec![format!("device.driver == '{DRIVER}' && true")],
    }];
    snapshot.devices.templates = vec![ResourceClaimTemplate {
        key: key("gpus"),
        spec: spec(1),
    }];
    snapshot.devices.claims = vec![held()];
    snapshot.devices.slices = vec![ResourceSlice {
        driver: DRIVER.into(),
        pool: "n-2".into(),
        generation: 1,
        slices: 1,
        node: Some("n-2".into()),
        devices: vec![device("n-2", 0), device("n-2", 1)],
    }];
    for types in snapshot.instance_types.values_mut() {
        for instance_type in Arc::make_mut(types) {
            instance_type.devices = vec![device("", 0)];
        }
    }
    claim_of_template(&mut world, "zonal-0");
    claim_of_template(&mut world, "late-0");
    world
}

fn types(w: &mut World, change: impl Fn(&mut model::InstanceType)) {
    for types in w.snapshot.instance_types.values_mut() {
        Arc::make_mut(types).iter_mut().for_each(&change);
    }
}

#[test]
fn pods_may_run_where_their_devices_are() {
    let world = claiming();
    assert_eq!(check(&world.snapshot, &world.plan), []);
}

#[test]
fn places_without_the_devices_are_refused() {
    type Mutate = fn(&mut World);
    let spoiled: [(Mutate, &str); 11] = [
        (
            |w| w.snapshot.settings.device_claims = false,
            "its resource claims are disabled by the settings",
        ),
        (
            |w| w.snapshot.devices.templates.clear(),
            "resource claim gpu is not known",
        ),
        (
            |w| claim_of_template(w, "zonal-0"),
            "has 1 free devices of gpu.nvidia.com for the 2 that are claimed",
        ),
        (
            |w| types(w, |instance_type| instance_type.devices.clear()),
            "has 0 free devices of gpu.nvidia.com for the 1 that are claimed",
        ),
        (
            |w| {
                types(w, |instance_type| {
                    instance_type.devices[0].driver = "other".into()
                });
                w.snapshot.devices.classes.clear();
                w.snapshot.devices.templates[0].spec = spec(2);
            },
            "has 1 free devices for the 2 that are claimed",
        ),
        (
            |w| claim_of_template(w, "late-0"),
            "n-2 has 1 free devices of gpu.nvidia.com for the 2 that are claimed",
        ),
        (
            |w| w.snapshot.devices.slices[0].slices = 2,
            "n-2 has 0 free devices",
        ),
        (
            |w| {
                w.snapshot.devices.claims[0]
                    .allocation
                    .as_mut()
                    .unwrap()
                    .devices[0]
                    .pool = "n-9".into();
                claim_named(w, "late-0", "held")
            },
            "ResourceClaim default/held is allocated elsewhere",
        ),
        (
            |w| {
                w.snapshot.devices.claims[0].allocation = None;
                claim_named(w, "late-0", "held");
                claim_named(w, "zonal-0", "held")
            },
            "ResourceClaim default/held is at two places",
        ),
        (
            |w| {
                types(w, |instance_type| {
                    let shares = DeviceCapacity {
                        value: 1,
                        policy: Some(RequestPolicy {
                            default: Some(1),
                            ..RequestPolicy::default()
                        }),
                    };
                    instance_type.devices[0].is_shared = true;
                    instance_type.devices[0].capacity =
                        [("gpu.nvidia.com/shares".to_owned(), shares)].into();
                });
                claim_of_template(w, "zonal-0")
            },
            "has 1 of gpu.nvidia.com/shares for the 2 that are claimed",
        ),
        (
            |w| {
                let node = w.node("n-2");
                node.labels.remove("karpenter.sh/initialized");
                types(w, |instance_type| instance_type.devices.clear())
            },
            "has 0 free devices",
        ),
    ];
    for (spoil, text) in spoiled {
        let mut world = claiming();
        spoil(&mut world);
        let refusals = world.refusals();
        assert!(
            refusals.iter().any(|refusal| refusal.contains(text)),
            "{text}: {refusals:?}"
        );
    }
}

#[test]
fn unallocated_devices_may_be_claimed() {
    type Allow = fn(&mut World);
    let allowed: [(Allow, &str); 3] = [
        (
            |w| claim_named(w, "late-0", "held"),
            "pods may share a claim where it is allocated",
        ),
        (
            |w| {
                claim_of_template(w, "late-0");
                w.snapshot.devices.claims[0].reserved_for =
                    vec!["late-0-uid".into(), "small-0-uid".into()];
                let running = [("small-0", "n-1"), ("late-0", "n-1")];
                for (pod, node) in running {
                    w.pod(pod).node_name = Some(node.into());
                }
            },
            "pods that move leave their devices",
        ),
        (
            |w| {
                w.snapshot.devices.classes[0].selectors.clear();
                w.snapshot.devices.slices[0].devices.push(Device {
                    driver: "dra.net".into(),
                    ..device("n-2", 2)
                });
                claim_of_template(w, "late-0")
            },
            "devices of any driver count where a class does not say which",
        ),
    ];
    for (allow, why) in allowed {
        let mut world = claiming();
        allow(&mut world);
        let refusals = world.refusals();
        let about_devices = refusals.iter().find(|refusal| refusal.contains("devices"));
        assert_eq!(about_devices, None, "{why}");
    }
}
