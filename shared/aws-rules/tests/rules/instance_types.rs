use std::collections::BTreeMap;

use aws_rules::{
    ProviderSettings,
    instance_types::{RegionCatalog, ResolveInput, Unavailable, instance_types},
};
use model::{
    CapacityType, InstanceType, ledger::OfferingKey, requirement::Requirements,
    resources::amount_text,
};
use serde_json::json;

use crate::world::{catalog, named, node_class, types_of};

/// Name, pods, CPU, memory in MiB, and other resources of an instance type.
type Allocatable = (
    &'static str,
    i64,
    &'static str,
    i64,
    &'static [(&'static str, i64)],
);

/// Values that EKS nodes of these types report, from upstream's reference (docs/spec/aws.md#golden-values).
#[test]
fn allocatable_resources_match_real_nodes() {
    const MIB: i64 = 1 << 20;
    let golden: [Allocatable; 11] = [
        (
            "a1.medium",
            8,
            "940m",
            1392,
            &[("vpc.amazonaws.com/pod-eni", 10)],
        ),
        ("t4g.small", 11, "1930m", 1359, &[]),
        (
            "c6g.large",
            29,
            "1930m",
            3055,
            &[("vpc.amazonaws.com/pod-eni", 9)],
        ),
        (
            "t3.large",
            35,
            "1930m",
            6837,
            &[("vpc.amazonaws.com/pod-eni", 0)],
        ),
        (
            "m5.large",
            29,
            "1930m",
            6903,
            &[("vpc.amazonaws.com/pod-eni", 9)],
        ),
        (
            "m5.metal",
            737,
            "95690m",
            355_262,
            &[("vpc.amazonaws.com/pod-eni", 120)],
        ),
        (
            "m6idn.32xlarge",
            394,
            "127610m",
            480_277,
            &[
                ("vpc.amazonaws.com/efa", 2),
                ("vpc.amazonaws.com/pod-eni", 106),
            ],
        ),
        (
            "g4dn.8xlarge",
            58,
            "31850m",
            120_248,
            &[("nvidia.com/gpu", 1), ("vpc.amazonaws.com/efa", 1)],
        ),
        (
            "inf2.24xlarge",
            737,
            "95690m",
            355_262,
            &[
                ("aws.amazon.com/neuron", 6),
                ("aws.amazon.com/neuroncore", 12),
            ],
        ),
        (
            "trn1.2xlarge",
            58,
            "7910m",
            29_317,
            &[
                ("aws.amazon.com/neuron", 1),
                ("aws.amazon.com/neuroncore", 2),
            ],
        ),
        (
            "p5.48xlarge",
            100,
            "191450m",
            1_938_410,
            &[
                ("nvidia.com/gpu", 8),
                ("vpc.amazonaws.com/efa", 32),
                ("vpc.amazonaws.com/pod-eni", 120),
            ],
        ),
    ];
    let types = types_of(&node_class(json!({})));
    for (name, pods, cpu, memory, others) in golden {
        let allocatable = named(&types, name).allocatable();
        assert_eq!(allocatable.get("pods"), pods, "{name}");
        assert_eq!(amount_text("cpu", allocatable.get("cpu")), cpu, "{name}");
        assert_eq!(allocatable.get("memory"), memory * MIB, "{name}");
        assert_eq!(allocatable.get("ephemeral-storage"), 17 << 30, "{name}");
        for (resource, amount) in others {
            assert_eq!(allocatable.get(resource), *amount, "{name} {resource}");
        }
    }
}

#[test]
fn kubelet_settings_change_allocatable_resources() {
    let class = node_class(json!({ "spec": { "kubelet": {
        "maxPods": 20, "podsPerCore": 4, "systemReserved": { "cpu": "100m", "memory": "1Gi" },
        "kubeReserved": { "cpu": "200m" }, "evictionHard": { "memory.available": "5%", "nodefs.available": "100%" },
    }}}));
    let types = types_of(&class);
    let m5_large = named(&types, "m5.large");
    assert_eq!(
        m5_large.capacity.get("pods"),
        8,
        "four for each of two cores"
    );
    assert_eq!(m5_large.overhead.system_reserved.get("memory"), 1 << 30);
    assert_eq!(m5_large.overhead.kube_reserved.get("cpu"), 200);
    let capacity = m5_large.capacity.get("memory");
    assert_eq!(
        m5_large.overhead.eviction_threshold.get("memory"),
        (capacity + 19) / 20
    );
    assert_eq!(
        m5_large
            .overhead
            .eviction_threshold
            .get("ephemeral-storage"),
        0
    );
}

#[test]
fn ami_families_differ_in_pods_and_storage() {
    let of = |family: &str| {
        let class = node_class(json!({ "spec": { "amiFamily": family } }));
        let types = types_of(&class);
        let m5_large = named(&types, "m5.large").clone();
        (
            m5_large.capacity.get("pods"),
            m5_large.capacity.get("ephemeral-storage") >> 30,
        )
    };
    assert_eq!(of("Bottlerocket"), (29, 20));
    assert_eq!(of("Windows2022"), (110, 50));
    assert_eq!(of("Custom"), (29, 20));
}

#[test]
fn windows_storage_is_its_root_device_with_named_block_devices() {
    let storage = |device: &str| {
        let mappings = json!([{ "deviceName": device, "ebs": { "volumeSize": "100Gi", "volumeType": "gp3" } }]);
        let spec = json!({ "amiFamily": "Windows2022", "blockDeviceMappings": mappings });
        let types = types_of(&node_class(json!({ "spec": spec })));
        named(&types, "m5.large").capacity.get("ephemeral-storage") >> 30
    };
    assert_eq!(storage("/dev/sda1"), 100);
    assert_eq!(storage("/dev/xvda"), 50, "what its image has");
}

#[test]
fn joined_local_disks_become_ephemeral_storage() {
    let class = node_class(json!({ "spec": { "instanceStorePolicy": "RAID0" } }));
    let types = types_of(&class);
    let storage = |name| named(&types, name).capacity.get("ephemeral-storage");
    assert_eq!(storage("m6idn.32xlarge"), 7_600_000_000_000);
    assert_eq!(storage("m5.large"), 20 << 30);
}

#[test]
fn instance_type_has_its_labels() {
    let types = types_of(&node_class(json!({})));
    let text = |requirements: &Requirements| {
        let line = |entry: &model::selector::NodeSelectorRequirement| {
            format!(
                "{} {:?} {}\n",
                entry.key,
                entry.operator,
                entry.values.join(" ")
            )
        };
        let entries = requirements.to_selector();
        entries.iter().map(line).collect::<String>()
    };
    expect_test::expect![[r#"
        karpenter.k8s.aws/capacity-reservation-id DoesNotExist 
        karpenter.k8s.aws/capacity-reservation-interruptible DoesNotExist 
        karpenter.k8s.aws/capacity-reservation-type DoesNotExist 
        karpenter.k8s.aws/instance-accelerator-count DoesNotExist 
        karpenter.k8s.aws/instance-accelerator-manufacturer DoesNotExist 
        karpenter.k8s.aws/instance-accelerator-name DoesNotExist 
        karpenter.k8s.aws/instance-capability-flex In false
        karpenter.k8s.aws/instance-category In g
        karpenter.k8s.aws/instance-cpu In 32
        karpenter.k8s.aws/instance-cpu-manufacturer In intel
        karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz In 2500
        karpenter.k8s.aws/instance-ebs-bandwidth In 9500
        karpenter.k8s.aws/instance-encryption-in-transit-supported In true
        karpenter.k8s.aws/instance-family In g4dn
        karpenter.k8s.aws/instance-generation In 4
        karpenter.k8s.aws/instance-gpu-count In 1
        karpenter.k8s.aws/instance-gpu-manufacturer In nvidia
        karpenter.k8s.aws/instance-gpu-memory In 16384
        karpenter.k8s.aws/instance-gpu-name In t4
        karpenter.k8s.aws/instance-hypervisor In nitro
        karpenter.k8s.aws/instance-local-nvme In 900
        karpenter.k8s.aws/instance-memory In 131072
        karpenter.k8s.aws/instance-network-bandwidth In 50000
        karpenter.k8s.aws/instance-size In 8xlarge
        karpenter.k8s.aws/instance-tenancy In dedicated default
        karpenter.k8s.aws/nitro-sandbox In true
        karpenter.sh/capacity-type In on-demand spot
        kubernetes.io/arch In amd64
        kubernetes.io/os In linux
        node.kubernetes.io/instance-type In g4dn.8xlarge
        node.kubernetes.io/windows-build DoesNotExist 
        topology.k8s.aws/zone-id In use1-az1 use1-az2 use1-az6
        topology.kubernetes.io/region In us-east-1
        topology.kubernetes.io/zone In us-east-1a us-east-1b us-east-1c
    "#]]
    .assert_eq(&text(&named(&types, "g4dn.8xlarge").requirements));
}

#[test]
fn offerings_are_zones_with_a_subnet_times_capacity_types() {
    let class = node_class(json!({ "status": { "subnets": [
        { "id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az6" },
        { "id": "subnet-z", "zone": "us-east-1z", "zoneID": "use1-az9" },
    ]}}));
    let types = types_of(&class);
    let offerings: Vec<_> = named(&types, "m5.large")
        .offerings
        .iter()
        .map(|o| format!("{} {} {} {}", o.capacity_type, o.zone, o.price, o.available))
        .collect();
    assert_eq!(
        offerings,
        [
            "on-demand us-east-1a 0.0960 true",
            "on-demand us-east-1z 0.0960 false",
            "spot us-east-1a 0.0320 true",
            "spot us-east-1z 0.0000 false",
        ]
    );
}

#[test]
fn on_demand_prices_stand_in_for_unread_spot_prices() {
    let class = node_class(json!({}));
    let mut catalog = catalog();
    let prices = |catalog: &RegionCatalog| {
        let through = ResolveInput {
            node_class: &class,
            settings: &ProviderSettings::default(),
            measured_memory: &[],
            placement_group: None,
        };
        let types = instance_types(catalog, through).unwrap();
        let offerings = named(&types, "m5.large").offerings.iter();
        let spot = offerings.filter(|offering| offering.capacity_type == CapacityType::Spot);
        spot.map(|offering| (offering.price.to_string(), offering.available))
            .collect::<Vec<_>>()
    };
    catalog.spot = None;
    assert_eq!(prices(&catalog), vec![("0.0960".to_owned(), true); 3]);
    // Once spot prices are known, a type without one has no spot offering.
    catalog.spot = Some(BTreeMap::new());
    assert_eq!(prices(&catalog), vec![("0.0000".to_owned(), false); 3]);
}

#[test]
fn type_without_a_price_is_not_launched() {
    let class = node_class(json!({}));
    let mut catalog = catalog();
    catalog.on_demand.remove("m5.large");
    let types = || {
        let through = ResolveInput {
            node_class: &class,
            settings: &ProviderSettings::default(),
            measured_memory: &[],
            placement_group: None,
        };
        instance_types(&catalog, through).unwrap()
    };
    let on_demand = |types: &[InstanceType], name: &str| -> Vec<(String, bool, bool)> {
        let offerings = named(types, name).offerings.iter();
        let offerings =
            offerings.filter(|offering| offering.capacity_type == CapacityType::OnDemand);
        offerings
            .map(|offering| (offering.zone.clone(), offering.available, offering.unpriced))
            .collect()
    };
    let zones = ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned);
    let all = |available, unpriced| zones.clone().map(|zone| (zone, available, unpriced));
    assert_eq!(on_demand(&types(), "m5.large"), all(false, true));
    assert_eq!(on_demand(&types(), "m5.xlarge"), all(true, false));
    // A price does not make an offering available that is unavailable for other reasons.
    let marked = |unavailable: Unavailable| {
        let mut types = types();
        unavailable.mark_unavailable(&mut types, &class);
        let left = on_demand(&types, "m5.large").into_iter();
        left.filter(|(_, _, unpriced)| *unpriced)
            .map(|(zone, ..)| zone)
            .collect::<Vec<_>>()
    };
    let without_capacity = OfferingKey {
        capacity_type: CapacityType::OnDemand,
        instance_type: "m5.large".into(),
        zone_id: "use1-az6".into(),
        scope: None,
    };
    let short = Unavailable {
        offerings: [without_capacity].into(),
        ..Unavailable::default()
    };
    assert_eq!(marked(short), zones[1..]);
    let shifted = Unavailable {
        zone_ids: ["use1-az6".to_owned()].into(),
        ..Unavailable::default()
    };
    assert_eq!(marked(shifted), zones[1..]);
}

#[test]
fn incompatible_types_have_no_available_offering() {
    let available = |changes, name| {
        let types = types_of(&node_class(changes));
        let mut offerings = named(&types, name).offerings.iter();
        offerings.any(|offering| offering.available)
    };
    assert!(
        !available(json!({}), "a1.medium"),
        "AL2023 does not run on the first Graviton"
    );
    assert!(available(
        json!({ "spec": { "amiFamily": "Bottlerocket" } }),
        "a1.medium"
    ));
    let tracking = json!({ "spec": { "connectionTracking": { "udpTimeout": 30 } } });
    assert!(available(tracking.clone(), "m5.large"));
    assert!(
        !available(tracking, "m5.metal"),
        "only the Nitro hypervisor tracks connections"
    );
    let efa = json!({ "spec": { "networkInterfaces": [
        { "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" },
        { "networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only" },
    ]}});
    assert!(available(efa.clone(), "m6idn.32xlarge"));
    assert!(!available(efa, "m5.large"), "it has one network card");
    let enclaves = |enabled| json!({ "spec": { "enclaveOptions": { "enabled": enabled } } });
    assert!(available(enclaves(true), "m5.xlarge"));
    assert!(
        !available(enclaves(true), "m5.large"),
        "it is too small for an enclave"
    );
    assert!(available(enclaves(false), "m5.large"));
}

#[test]
fn attach_limit_excludes_volumes_and_interfaces_of_the_node_class() {
    let limit = |changes| {
        let mut catalog = catalog();
        let mut infos = catalog.instance_types.iter_mut();
        let info = infos.find(|info| info.instance_type == "m5.large").unwrap();
        info.ebs_info.maximum_ebs_attachments = Some(28);
        info.ebs_info.attachment_limit_type = Some("shared".to_owned());
        let through = ResolveInput {
            node_class: &node_class(changes),
            settings: &ProviderSettings::default(),
            measured_memory: &[],
            placement_group: None,
        };
        let types = instance_types(&catalog, through).unwrap();
        named(&types, "m5.large").ebs_attach_limit
    };
    assert_eq!(limit(json!({})), Some(25));
    let volume = |name: &str| json!({ "deviceName": name, "ebs": { "volumeSize": "20Gi" } });
    let volumes = [volume("/dev/xvda"), volume("/dev/xvdb")];
    assert_eq!(
        limit(json!({ "spec": { "blockDeviceMappings": volumes } })),
        Some(24)
    );
    let interfaces: Vec<_> = (0..3)
        .map(|at| json!({ "networkCardIndex": 0, "deviceIndex": at, "interfaceType": "interface" }))
        .collect();
    assert_eq!(
        limit(json!({ "spec": { "networkInterfaces": interfaces } })),
        Some(24)
    );
}

#[test]
fn offerings_without_capacity_are_unavailable() {
    let class = node_class(json!({}));
    let mut types = types_of(&class);
    let unavailable = Unavailable {
        offerings: [OfferingKey {
            capacity_type: CapacityType::Spot,
            instance_type: "m5.large".into(),
            zone_id: "use1-az6".into(),
            scope: None,
        }]
        .into(),
        subnets: ["subnet-b".to_owned()].into(),
        ..Unavailable::default()
    };
    unavailable.mark_unavailable(&mut types, &class);
    let left: Vec<_> = named(&types, "m5.large")
        .offerings
        .iter()
        .filter(|offering| offering.available)
        .map(|offering| format!("{} {}", offering.capacity_type, offering.zone))
        .collect();
    assert_eq!(
        left,
        [
            "on-demand us-east-1a",
            "on-demand us-east-1c",
            "spot us-east-1c"
        ]
    );
}
