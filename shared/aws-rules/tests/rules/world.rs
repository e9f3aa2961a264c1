use std::collections::{BTreeMap, BTreeSet};

use api::EC2NodeClass;
use aws_rules::{
    Claim, ClusterFacts, LaunchInput, LaunchRefusal, ProviderSettings, fleet_request,
    instance_types::{InstanceTypeInfo, RegionCatalog, ResolveInput, instance_types},
    prices::shipped_prices,
};
use model::{
    FreeAddresses, InstanceType, NanosPerHour, Resources,
    launch::FleetRequest,
    node_claim::NodeClaimSpec,
    selector::{NodeSelectorRequirement, Operator},
};
use serde_json::{Value, json};

/// Instance types as `aws ec2 describe-instance-types` prints them, without fields that are not read.
const TYPES: &str = include_str!("../data/instance-types.json");

pub(crate) const ZONES: [(&str, &str); 3] = [
    ("us-east-1a", "use1-az6"),
    ("us-east-1b", "use1-az1"),
    ("us-east-1c", "use1-az2"),
];

pub(crate) fn cluster() -> ClusterFacts {
    ClusterFacts {
        name: "demo".into(),
        region: "us-east-1".into(),
        endpoint: "https://demo.example.com".into(),
        certificate_authority: "Y2EK".into(),
        service_cidr: Some("10.100.0.0/16".into()),
        dns_ip: Some("10.100.0.10".into()),
        version: "1.35".parse().unwrap(),
    }
}

/// Every type in every zone; spot for a third of the on-demand price.
pub(crate) fn catalog() -> RegionCatalog {
    let infos: Vec<InstanceTypeInfo> = serde_json::from_str(TYPES).unwrap();
    let zones: BTreeSet<String> = ZONES.iter().map(|(zone, _)| (*zone).to_owned()).collect();
    let on_demand = shipped_prices("us-east-1");
    let spot = on_demand.iter().map(|(name, price)| {
        let third = NanosPerHour(price.0 / 3);
        let of_zone = |(zone, _): &(&str, &str)| ((*zone).to_owned(), third);
        (name.clone(), ZONES.iter().map(of_zone).collect())
    });
    RegionCatalog {
        region: "us-east-1".into(),
        zones: infos
            .iter()
            .map(|info| (info.instance_type.clone(), zones.clone()))
            .collect(),
        spot: Some(spot.collect()),
        on_demand,
        instance_types: infos,
    }
}

/// An AL2023 NodeClass that is ready, with `changes` merged over its manifest.
pub(crate) fn node_class(changes: Value) -> EC2NodeClass {
    let arch =
        |arch: &str| json!({ "key": "kubernetes.io/arch", "operator": "In", "values": [arch] });
    let plain = |key: &str| json!({ "key": key, "operator": "DoesNotExist" });
    let gpu = "karpenter.k8s.aws/instance-gpu-count";
    let accelerator = "karpenter.k8s.aws/instance-accelerator-count";
    let mut manifest = json!({
        "metadata": { "name": "default", "uid": "11111111-2222", "generation": 1 },
        "spec": {
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "demo" } }],
            "securityGroupSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "demo" } }],
            "role": "KarpenterNodeRole-demo",
        },
        "status": {
            "subnets": ZONES.map(|(zone, id)| json!({
                "id": format!("subnet-{}", &zone[zone.len() - 1..]), "zone": zone, "zoneID": id,
            })),
            "securityGroups": [{ "id": "sg-1" }, { "id": "sg-2" }],
            "amis": [
                { "id": "ami-x86", "requirements": [arch("amd64"), plain(gpu), plain(accelerator)] },
                { "id": "ami-arm", "requirements": [arch("arm64"), plain(gpu), plain(accelerator)] },
                { "id": "ami-gpu", "requirements": [arch("amd64"), { "key": gpu, "operator": "Exists" }] },
            ],
            "instanceProfile": "demo_profile",
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    merge(&mut manifest, changes);
    serde_json::from_value(manifest).unwrap()
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(into.entry(key).or_insert(Value::Null), change);
            }
        }
        (into, changes) => *into = changes,
    }
}

pub(crate) fn types_of(class: &EC2NodeClass) -> Vec<InstanceType> {
    types_with(class, &ProviderSettings::default())
}

fn types_with(class: &EC2NodeClass, settings: &ProviderSettings) -> Vec<InstanceType> {
    let through = ResolveInput {
        node_class: class,
        settings,
        measured_memory: &[],
        placement_group: None,
    };
    instance_types(&catalog(), through).unwrap()
}

pub(crate) fn named<'a>(types: &'a [InstanceType], name: &str) -> &'a InstanceType {
    types.iter().find(|t| t.name == name).unwrap()
}

/// A NodeClaim of NodePool `default`.
pub(crate) struct TestClaim {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) spec: NodeClaimSpec,
}

pub(crate) fn claim() -> TestClaim {
    TestClaim {
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec {
            requests: Resources::from([("cpu", 1_000), ("memory", 1 << 30), ("pods", 3)]),
            ..NodeClaimSpec::default()
        },
    }
}

impl TestClaim {
    pub(crate) fn wants(mut self, key: &str, values: &[&str]) -> Self {
        self.spec.requirements.push(NodeSelectorRequirement {
            key: key.to_owned(),
            operator: Operator::In,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            min_values: None,
        });
        self
    }

    pub(crate) fn types(self, names: &[&str]) -> Self {
        self.wants("node.kubernetes.io/instance-type", names)
    }

    pub(crate) fn capacity(self, capacity_types: &[&str]) -> Self {
        self.wants("karpenter.sh/capacity-type", capacity_types)
    }

    pub(crate) fn asks(mut self, resource: &str, amount: i64) -> Self {
        self.spec.requests.set(resource, amount);
        self
    }

    pub(crate) fn get(&self) -> Claim<'_> {
        Claim {
            labels: &self.labels,
            annotations: &self.annotations,
            spec: &self.spec,
        }
    }
}

pub(crate) fn launch(
    class: &EC2NodeClass,
    claim: &TestClaim,
) -> Result<FleetRequest, LaunchRefusal> {
    launch_from(class, claim, &types_of(class), &FreeAddresses::default())
}

/// The request with other cluster settings.
pub(crate) fn launch_with(
    class: &EC2NodeClass,
    claim: &TestClaim,
    settings: &ProviderSettings,
) -> Result<FleetRequest, LaunchRefusal> {
    let input = LaunchInput {
        cluster: &cluster(),
        settings,
        node_class: class,
        instance_types: &types_with(class, settings),
        free_addresses: &FreeAddresses::default(),
    };
    fleet_request(&input, claim.get())
}

pub(crate) fn launch_from(
    class: &EC2NodeClass,
    claim: &TestClaim,
    types: &[InstanceType],
    free_addresses: &FreeAddresses,
) -> Result<FleetRequest, LaunchRefusal> {
    let input = LaunchInput {
        cluster: &cluster(),
        settings: &ProviderSettings::default(),
        node_class: class,
        instance_types: types,
        free_addresses,
    };
    fleet_request(&input, claim.get())
}

/// `type zone` of every override, in order.
pub(crate) fn overrides(request: &FleetRequest) -> Vec<String> {
    let overrides = request.templates.iter().flat_map(|t| &t.overrides);
    overrides
        .map(|choice| format!("{} {}", choice.instance_type, choice.zone))
        .collect()
}

pub(crate) fn types_asked_for(request: &FleetRequest) -> BTreeSet<&str> {
    let overrides = request.templates.iter().flat_map(|t| &t.overrides);
    overrides
        .map(|choice| choice.instance_type.as_str())
        .collect()
}
