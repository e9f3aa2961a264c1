//! What machines do by themselves: an instance boots, its kubelet registers a node, and ends with it.

use std::collections::BTreeMap;

use harness::Moto;
use jiff::SignedDuration;
use model::{
    Resources,
    taint::{Taint, TaintEffect},
};
use sandbox::{NodeJoin, Sandbox};
use serde_json::{Value, json};

use super::{CLUSTER, tags};

const BOOT: SignedDuration = SignedDuration::from_secs(1);
/// What the kubelet keeps for itself and the system.
const RESERVED_CPU_MILLIS: i64 = 100;
const RESERVED_MEMORY: i64 = 700 << 20;
/// Of the nominal memory, what the hypervisor and the kernel leave.
const MEMORY_LEFT_PERCENT: i64 = 93;

/// The kubelets of the cluster's instances.
#[derive(Default)]
pub(crate) struct Kubelets {
    /// Node names by instance.
    nodes: BTreeMap<String, String>,
    types: BTreeMap<String, Value>,
}

impl Kubelets {
    /// Lets new instances join and loses the nodes of ended ones.
    pub(crate) fn attend(&mut self, moto: &Moto, sandbox: &Sandbox) {
        let alive: BTreeMap<String, Value> = alive(moto)
            .into_iter()
            .map(|instance| (text(&instance["InstanceId"]), instance))
            .collect();
        for (id, instance) in &alive {
            if !self.nodes.contains_key(id) {
                let join = self.join(moto, instance);
                self.nodes.insert(id.clone(), join.name.clone());
                sandbox.join_node(join, BOOT);
            }
        }
        self.nodes.retain(|id, node| {
            let runs = alive.contains_key(id);
            if !runs {
                sandbox.lose_node(node);
            }
            runs
        });
    }

    fn join(&mut self, moto: &Moto, instance: &Value) -> NodeJoin {
        let kind = text(&instance["InstanceType"]);
        let zone = text(&instance["Placement"]["AvailabilityZone"]);
        let described = self.types.entry(kind.clone()).or_insert_with(|| {
            let types = json!({"InstanceTypes": [kind]});
            moto.call("ec2", "describe_instance_types", types)["InstanceTypes"][0].take()
        });
        let number = |value: &Value| value.as_i64().unwrap();
        let cpu = number(&described["VCpuInfo"]["DefaultVCpus"]) * 1000;
        let mebibytes = number(&described["MemoryInfo"]["SizeInMiB"]);
        let memory = (mebibytes << 20) / 100 * MEMORY_LEFT_PERCENT;
        let network = &described["NetworkInfo"];
        let addresses = number(&network["Ipv4AddressesPerInterface"]) - 1;
        let pods = number(&network["MaximumNetworkInterfaces"]) * addresses + 2;
        let disk = 20_i64 << 30;
        let resources = |cpu, memory| {
            Resources::from([
                ("cpu", cpu),
                ("memory", memory),
                ("pods", pods),
                ("ephemeral-storage", disk),
            ])
        };
        NodeJoin {
            name: text(&instance["PrivateDnsName"]),
            provider_id: format!("aws:///{zone}/{}", text(&instance["InstanceId"])),
            architecture: match instance["Architecture"].as_str() {
                Some("arm64") => "arm64".to_owned(),
                _ => "amd64".to_owned(),
            },
            capacity: resources(cpu, memory),
            allocatable: resources(cpu - RESERVED_CPU_MILLIS, memory - RESERVED_MEMORY),
            taints: vec![Taint {
                key: "karpenter.sh/unregistered".into(),
                value: String::new(),
                effect: TaintEffect::NoExecute,
            }],
            internal_ip: text(&instance["PrivateIpAddress"]),
            instance_type: kind,
            zone,
            ready_after: Some(SignedDuration::from_secs(1)),
            ..NodeJoin::default()
        }
    }
}

pub(crate) fn alive(moto: &Moto) -> Vec<Value> {
    let ended = |instance: &Value| {
        matches!(
            instance["State"]["Name"].as_str(),
            Some("shutting-down" | "terminated")
        )
    };
    let mut instances = all(moto);
    instances.retain(|instance| !ended(instance));
    instances
}

pub(crate) fn all(moto: &Moto) -> Vec<Value> {
    let answer = moto.call("ec2", "describe_instances", json!({}));
    let reservations = answer["Reservations"].as_array().unwrap();
    let instances: Vec<Value> = reservations
        .iter()
        .flat_map(|reservation| reservation["Instances"].as_array().unwrap())
        .cloned()
        .collect();
    for instance in &instances {
        assert_eq!(
            tags(instance).get("eks:eks-cluster-name"),
            Some(&CLUSTER),
            "whose is {instance}?"
        );
    }
    instances
}

fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => panic!("{value} is no text"),
    }
}
