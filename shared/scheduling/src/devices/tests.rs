use model::{
    PodKey,
    devices::{
        AllocatedDevice, Allocation, Allowed, Attribute, ClaimSpec, Device, DeviceAlternative,
        DeviceCapacity, DeviceClass, DeviceCount, DeviceObjects, DeviceRequest, MatchAttribute,
        PodClaim, RequestPolicy, ResourceClaim, ResourceClaimTemplate, qualified,
    },
    pod::Pod,
};

use crate::{
    BaselineCluster, SolveResult,
    baseline_cluster::SimulatedRemoval,
    test_cluster::{TestCluster, TestNode, instance_type, pods},
};

const GPU: &str = "gpu.nvidia.com";
const NET: &str = "dra.net";

fn device(driver: &str, name: &str, model: &str, root: &str) -> Device {
    let attributes = [
        (
            qualified("model", driver),
            Attribute::Text(model.to_owned()),
        ),
        ("pcieRoot".to_owned(), Attribute::Unknown(root.to_owned())),
    ];
    let memory = DeviceCapacity {
        value: 80,
        policy: None,
    };
    Device {
        driver: driver.to_owned(),
        name: name.to_owned(),
        attributes: attributes.into(),
        capacity: [(qualified("memory", driver), memory)].into(),
        ..Device::default()
    }
}

/// GPUs, two of them per PCIe root.
fn gpus(count: usize, model: &str) -> Vec<Device> {
    let all = (0..count).map(|at| {
        device(
            GPU,
            &format!("gpu-{at}"),
            model,
            &format!("root-{}", at / 2),
        )
    });
    all.collect()
}

fn alternative(class: &str, count: u32) -> DeviceAlternative {
    DeviceAlternative {
        class: class.to_owned(),
        count: DeviceCount::Exactly(count),
        ..DeviceAlternative::default()
    }
}

fn claim(requests: &[(&str, DeviceAlternative)]) -> ClaimSpec {
    let requests = requests.iter().map(|(name, wanted)| DeviceRequest {
        name: (*name).to_owned(),
        alternatives: vec![wanted.clone()],
    });
    ClaimSpec {
        requests: requests.collect(),
        ..ClaimSpec::default()
    }
}

fn gpus_claim(count: u32) -> ClaimSpec {
    claim(&[("gpu", alternative("gpu", count))])
}

fn key(name: &str) -> PodKey {
    PodKey {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

/// Pods whose claims are generated from this template.
fn with_template(mut pods: Vec<Pod>, template: &str) -> Vec<Pod> {
    for pod in &mut pods {
        pod.resource_claims = true;
        pod.device_claims.push(PodClaim {
            name: "devices".to_owned(),
            template: Some(template.to_owned()),
            ..PodClaim::default()
        });
    }
    pods
}

/// Pods that share this claim.
fn with_claim(mut pods: Vec<Pod>, claim: &str) -> Vec<Pod> {
    for pod in &mut pods {
        pod.resource_claims = true;
        pod.device_claims.push(PodClaim {
            name: "devices".to_owned(),
            claim: Some(claim.to_owned()),
            ..PodClaim::default()
        });
    }
    pods
}

/// Two types with one GPU, one with four, and a type without GPUs, which is the cheapest.
fn cluster(spec: ClaimSpec, pods: Vec<Pod>) -> TestCluster {
    let mut types = vec![
        instance_type("plain", 16, 64, 10),
        instance_type("l4", 16, 64, 40),
        instance_type("h100", 16, 64, 90),
        instance_type("four", 16, 64, 200),
    ];
    types[1].devices = gpus(1, "L4");
    types[2].devices = gpus(1, "H100");
    types[3].devices = gpus(4, "L4");
    let classes = [(GPU, "gpu"), (NET, "net")].map(|(driver, name)| DeviceClass {
        name: name.to_owned(),
        selectors: vec![format!("device.driver == '{driver}'")],
    });
    let mut cluster = TestCluster::new(types, pods);
    cluster.devices = Some(DeviceObjects {
        classes: classes.into(),
        templates: vec![ResourceClaimTemplate {
            key: key("template"),
            spec,
        }],
        ..DeviceObjects::default()
    });
    cluster
}

fn waiting(spec: ClaimSpec, count: usize) -> TestCluster {
    cluster(spec, with_template(pods("p", count, 1_000, 1), "template"))
}

/// Per new node, its types and its number of pods.
fn new_nodes_of(cluster: &TestCluster) -> Vec<(Vec<&str>, usize)> {
    let result = cluster.solve();
    let nodes = result.new_nodes.iter().map(|node| {
        let types = node.choices.iter();
        let types = types.map(|choice| cluster.types[choice.instance_type()].name.as_str());
        (types.collect(), node.pods.len())
    });
    nodes.collect()
}

fn reason(cluster: &TestCluster) -> String {
    let result: SolveResult = cluster.solve();
    assert_eq!(result.new_nodes.len() + result.existing.len(), 0);
    result.unplaced[0].reasons[0].1.to_string()
}

#[test]
fn types_without_the_devices_are_excluded() {
    assert_eq!(
        new_nodes_of(&waiting(gpus_claim(1), 1)),
        [(vec!["l4", "h100", "four"], 1)]
    );
    assert_eq!(
        new_nodes_of(&waiting(gpus_claim(2), 1)),
        [(vec!["four"], 1)]
    );
}

#[test]
fn allocated_devices_are_not_reused_for_the_next_pod() {
    assert_eq!(
        new_nodes_of(&waiting(gpus_claim(1), 2)),
        [(vec!["four"], 2)]
    );
    assert_eq!(
        new_nodes_of(&waiting(gpus_claim(3), 2)),
        [(vec!["four"], 1), (vec!["four"], 1)]
    );
}

#[test]
fn reason_names_devices_that_no_type_has() {
    assert_eq!(
        reason(&waiting(gpus_claim(5), 1)),
        "request gpu needs 5 devices of DeviceClass gpu, no instance type has more than 4"
    );
    let net = claim(&[("efa", alternative("net", 1))]);
    assert_eq!(
        reason(&waiting(net, 1)),
        "no instance type has a device of DeviceClass net for request efa"
    );
}

#[test]
fn selectors_choose_among_devices() {
    let mut wanted = alternative("gpu", 1);
    wanted.selectors = vec![format!("device.attributes['{GPU}'].model == 'H100'")];
    assert_eq!(
        new_nodes_of(&waiting(claim(&[("gpu", wanted)]), 1)),
        [(vec!["h100"], 1)]
    );
}

#[test]
fn reason_names_missing_objects_and_invalid_selectors() {
    let selecting = |expression: &str| {
        let mut wanted = alternative("gpu", 1);
        wanted.selectors = vec![expression.to_owned()];
        reason(&waiting(claim(&[("gpu", wanted)]), 1))
    };
    let unknown = selecting("device.attributes['gpu.nvidia.com'].uuid == 'x'");
    let expected =
        "expression \"device.attributes['gpu.nvidia.com'].uuid == 'x'\" cannot be evaluated: ";
    assert!(unknown.starts_with(expected), "{unknown}");
    let broken = selecting("device.driver ==");
    let expected = "resource claim devices: expression \"device.driver ==\" cannot be evaluated: ";
    assert!(broken.starts_with(expected), "{broken}");
    assert_eq!(
        reason(&waiting(claim(&[("gpu", alternative("tpu", 1))]), 1)),
        "resource claim devices: DeviceClass tpu does not exist"
    );
    let mut unsupported = gpus_claim(1);
    unsupported.problems = vec!["adminAccess of request gpu".to_owned()];
    assert_eq!(
        reason(&waiting(unsupported, 1)),
        "resource claim devices: adminAccess of request gpu is not supported"
    );
    let missing = cluster(
        gpus_claim(1),
        with_template(pods("p", 1, 1_000, 1), "other"),
    );
    assert_eq!(
        reason(&missing),
        "ResourceClaimTemplate other does not exist"
    );
    let missing = cluster(gpus_claim(1), with_claim(pods("p", 1, 1_000, 1), "other"));
    assert_eq!(reason(&missing), "ResourceClaim other does not exist");
}

#[test]
fn pods_with_claims_are_not_placed_if_claims_are_ignored() {
    let mut cluster = waiting(gpus_claim(1), 1);
    cluster.devices = None;
    let why = reason(&cluster);
    assert!(why.starts_with("uses resource claims"), "{why}");
}

#[test]
fn constraint_holds_for_devices_of_all_its_requests() {
    let root = |requests: &[&str]| MatchAttribute {
        attribute: "pcieRoot".to_owned(),
        requests: requests.iter().map(|name| (*name).to_owned()).collect(),
    };
    let mut three = gpus_claim(3);
    three.constraints = vec![root(&[])];
    assert_eq!(
        reason(&waiting(three, 1)),
        "no instance type has the devices of its resource claim that meet its constraints and capacity requests"
    );
    let mut two = gpus_claim(2);
    two.constraints = vec![root(&["gpu"])];
    assert_eq!(new_nodes_of(&waiting(two.clone(), 1)), [(vec!["four"], 1)]);
    // A third request takes a device of each pair first if it may.
    let both = claim(&[
        ("gpu", alternative("gpu", 1)),
        ("efa", alternative("net", 1)),
    ]);
    let mut aligned = both.clone();
    aligned.constraints = vec![root(&["gpu", "efa"])];
    let with_interface = |root: &str, spec: &ClaimSpec| {
        let mut cluster = waiting(spec.clone(), 1);
        let interface = device(NET, "efa-0", "EFA", root);
        cluster.types[3].devices.push(interface);
        cluster.solve().new_nodes.len()
    };
    assert_eq!(with_interface("root-1", &both), 1);
    assert_eq!(with_interface("root-1", &aligned), 1);
    assert_eq!(with_interface("elsewhere", &aligned), 0);
}

#[test]
fn first_satisfiable_alternative_is_used() {
    let mut preferred = gpus_claim(1);
    let named = |name: &str, count| DeviceAlternative {
        name: name.to_owned(),
        ..alternative("gpu", count)
    };
    preferred.requests[0].alternatives = vec![named("many", 3), named("few", 1)];
    let cluster = waiting(preferred.clone(), 1);
    assert_eq!(new_nodes_of(&cluster), [(vec!["l4", "h100", "four"], 1)]);
    // On a node with four GPUs, the first pod takes three, so the second takes one.
    let two = waiting(preferred, 2);
    assert_eq!(new_nodes_of(&two), [(vec!["four"], 2)]);
}

#[test]
fn allocation_mode_all_takes_every_matching_device() {
    let mut all = gpus_claim(1);
    all.requests[0].alternatives[0].count = DeviceCount::All;
    let cluster = waiting(all, 2);
    let new_nodes_of = new_nodes_of(&cluster);
    assert_eq!(
        new_nodes_of
            .iter()
            .map(|(_, pods)| *pods)
            .collect::<Vec<_>>(),
        [1, 1]
    );
}

#[test]
fn pods_that_share_a_claim_share_a_node() {
    let shared = |count| {
        let pods = with_claim(pods("p", count, 9_000, 1), "shared");
        let mut cluster = cluster(gpus_claim(1), pods);
        let objects = cluster.devices.as_mut().unwrap();
        objects.claims = vec![ResourceClaim {
            key: key("shared"),
            spec: gpus_claim(1),
            ..ResourceClaim::default()
        }];
        cluster
    };
    assert_eq!(new_nodes_of(&shared(1)), [(vec!["l4", "h100", "four"], 1)]);
    let mut together = shared(2);
    for pod in &mut together.pods {
        pod.requests.set("cpu", 4_000);
    }
    assert_eq!(new_nodes_of(&together), [(vec!["l4", "h100", "four"], 2)]);
    // Two pods do not fit on one node, and the device is on the node of the first.
    let apart = shared(2).solve();
    assert_eq!(apart.new_nodes.len(), 1);
    assert_eq!(apart.unplaced.len(), 1);
}

/// Node with these GPUs, the first of which is allocated to a claim of a pod there.
fn in_use(name: &str, count: usize) -> (TestNode, ResourceClaim) {
    let mut machine = TestNode::new(
        name,
        [("cpu", 8_000), ("memory", 64 << 30), ("pods", 9)].into(),
    );
    machine.devices = gpus(count, "L4");
    for device in &mut machine.devices {
        device.pool = name.to_owned();
    }
    let user = with_claim(pods(&format!("user-{name}"), 1, 1_000, 1), name).remove(0);
    let claim = ResourceClaim {
        key: key(name),
        spec: gpus_claim(1),
        allocation: Some(Allocation {
            devices: vec![AllocatedDevice {
                driver: GPU.to_owned(),
                pool: name.to_owned(),
                device: "gpu-0".to_owned(),
                consumed: None,
            }],
            nodes: Some(Vec::new()),
        }),
        reserved_for: vec![user.uid.clone()],
        owner: None,
    };
    (machine.running(user), claim)
}

#[test]
fn allocated_devices_of_existing_nodes_are_not_free() {
    let with_node = |count, waiting: usize| {
        let mut cluster = self::waiting(gpus_claim(1), waiting);
        let (machine, claim) = in_use("n", count);
        cluster.nodes.push(machine);
        cluster.devices.as_mut().unwrap().claims = vec![claim];
        let result = cluster.solve();
        let existing: usize = result.existing.iter().map(|(_, pods)| pods.len()).sum();
        (existing, result.new_nodes.len())
    };
    assert_eq!(with_node(1, 1), (0, 1));
    assert_eq!(with_node(2, 1), (1, 0));
    assert_eq!(with_node(2, 2), (1, 1));
}

#[test]
fn pod_with_an_allocated_shared_claim_goes_to_its_node() {
    let sharing = |name: &str| {
        let mut cluster = cluster(gpus_claim(1), with_claim(pods("p", 1, 1_000, 1), name));
        for name in ["a", "b"] {
            let (machine, claim) = in_use(name, 1);
            cluster.nodes.push(machine);
            cluster.devices.as_mut().unwrap().claims.push(claim);
        }
        cluster.solve().existing
    };
    assert_eq!(sharing("a"), [(0, vec![0])]);
    assert_eq!(sharing("b"), [(1, vec![0])]);
}

#[test]
fn devices_of_moved_pods_are_freed() {
    let mut cluster = cluster(gpus_claim(1), Vec::new());
    for name in ["a", "b"] {
        let (machine, claim) = in_use(name, 1);
        cluster.pods.extend(machine.pods.clone());
        cluster.nodes.push(machine);
        cluster.devices.as_mut().unwrap().claims.push(claim);
    }
    let moves = |leaving: &[usize]| {
        let nodes = leaving.iter().copied().collect();
        cluster.with_input(|input| {
            let baseline = BaselineCluster::new(input.clone(), 0, None);
            let moved = vec![true; leaving.len()];
            baseline.without(&SimulatedRemoval {
                pods: leaving,
                moved: &moved,
                nodes: &nodes,
                remaining: input
                    .pools
                    .iter()
                    .map(|pool| pool.remaining.clone())
                    .collect(),
                wanted: &[],
            })
        })
    };
    // The node's only device belongs to another pod.
    let result = moves(&[0]);
    assert_eq!((result.existing.len(), result.new_nodes.len()), (0, 1));
    let result = moves(&[0, 1]);
    assert_eq!((result.existing.len(), result.new_nodes.len()), (0, 1));
    assert_eq!(result.new_nodes[0].pods.len(), 2);
}

#[test]
fn claims_share_a_device_by_its_capacity() {
    let shares = |claims, capacity: &[(&str, i64)]| {
        let mut spec = gpus_claim(1);
        spec.requests[0].alternatives[0].capacity = capacity
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), *amount))
            .collect();
        let mut cluster = waiting(spec, claims);
        cluster.types.truncate(2);
        let device = &mut cluster.types[1].devices[0];
        device.is_shared = true;
        let policy = |default, most, step| {
            Some(RequestPolicy {
                default: Some(default),
                allowed: Allowed::Range {
                    least: 1,
                    most,
                    step: Some(step),
                },
            })
        };
        let shares = DeviceCapacity {
            value: 4,
            policy: policy(1, Some(4), 1),
        };
        device.capacity.insert(qualified("shares", GPU), shares);
        let memory = device.capacity.get_mut("gpu.nvidia.com/memory").unwrap();
        memory.policy = policy(0, None, 10);
        let result = cluster.solve();
        let pods = result.new_nodes.iter().map(|node| node.pods.len());
        let mut pods: Vec<usize> = pods.collect();
        pods.sort_unstable();
        pods
    };
    assert_eq!(shares(8, &[]), [4, 4]);
    assert_eq!(shares(4, &[("shares", 2)]), [2, 2]);
    // A request for 25 takes 31, because steps of ten start at one.
    assert_eq!(shares(3, &[("gpu.nvidia.com/memory", 25)]), [1, 2]);
    assert_eq!(shares(1, &[("shares", 5)]), [0_usize; 0]);
    assert_eq!(shares(1, &[("cores", 1)]), [0_usize; 0]);
}

#[test]
fn new_node_lists_the_drivers_it_waits_for() {
    let result = waiting(gpus_claim(1), 1).solve();
    let drivers: Vec<&str> = result.new_nodes[0]
        .drivers
        .iter()
        .map(String::as_str)
        .collect();
    assert_eq!(drivers, [GPU]);
}

#[test]
fn claim_has_at_most_32_devices() {
    let with = |count| {
        let mut cluster = waiting(gpus_claim(count), 1);
        cluster.types[3].devices = gpus(40, "L4");
        cluster.solve().new_nodes.len()
    };
    assert_eq!([32, 33].map(with), [1, 0]);
}

#[test]
fn driver_of_an_undone_choice_is_not_awaited() {
    let mut spec = claim(&[
        ("any", alternative("net", 1)),
        ("gpu", alternative("gpu", 1)),
    ]);
    spec.requests[0].alternatives = vec![
        DeviceAlternative {
            name: "net".to_owned(),
            ..alternative("net", 1)
        },
        DeviceAlternative {
            name: "gpu".to_owned(),
            ..alternative("gpu", 1)
        },
    ];
    spec.constraints = vec![MatchAttribute {
        attribute: "pcieRoot".to_owned(),
        requests: Vec::new(),
    }];
    let mut cluster = waiting(spec, 1);
    let mut interface = device(NET, "efa-0", "EFA", "elsewhere");
    interface.is_shared = true;
    cluster.types[3].devices.push(interface);
    let result = cluster.solve();
    let drivers: Vec<&str> = result.new_nodes[0]
        .drivers
        .iter()
        .map(String::as_str)
        .collect();
    assert_eq!(drivers, [GPU]);
}
