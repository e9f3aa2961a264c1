//! Machines of instances: each joins the cluster as a node of its instance type, as its kubelet and a cloud controller
//! manager would describe it.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use harness::Moto;
use serde_json::{Value, json};

use super::{
    CLUSTER,
    kubelets::{Kubelets, ready},
    provided::STAND_IN,
    tags,
    user_data::{Registration, registration},
};

/// CPU that the kubelet reserves for itself and the system.
const RESERVED_CPU_MILLIS: i64 = 100;
const RESERVED_MEMORY: i64 = 700 << 20;
/// Percentage of the nominal memory that hypervisor and kernel leave.
const MEMORY_LEFT_PERCENT: i64 = 93;

/// Instances seen so far.
#[derive(Default)]
pub(crate) struct Machines {
    /// Node names by instance id.
    nodes: BTreeMap<String, String>,
    types: BTreeMap<String, Value>,
}

impl Machines {
    /// Boots new instances and stops the machines of terminated ones, whose ids it returns.
    pub(crate) fn reconcile(&mut self, moto: &Moto, kubelets: &Kubelets) -> Vec<String> {
        let mut gone = Vec::new();
        let alive: BTreeMap<String, Value> = alive(moto)
            .into_iter()
            .map(|instance| (text(&instance["InstanceId"]), instance))
            .collect();
        for (id, instance) in &alive {
            if !self.nodes.contains_key(id) {
                self.nodes
                    .insert(id.clone(), text(&instance["PrivateDnsName"]));
                // An instance whose user data starts no kubelet runs without a Node.
                if let Some(registration) = registration(&user_data(moto, id)) {
                    kubelets.boot(self.node(moto, instance, &registration));
                }
            }
        }
        self.nodes.retain(|id, node| {
            let runs = alive.contains_key(id);
            if !runs {
                kubelets.end(node);
                gone.push(id.clone());
            }
            runs
        });
        gone
    }

    fn node(&mut self, moto: &Moto, instance: &Value, registration: &Registration) -> Value {
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
        let most = number(&network["MaximumNetworkInterfaces"]) * addresses + 2;
        let pods = registration
            .max_pods
            .map_or(most.to_string(), |pods| pods.to_string());
        let resources = |cpu: i64, memory: i64| {
            json!({
                "cpu": format!("{cpu}m"), "memory": memory.to_string(), "pods": pods,
                "ephemeral-storage": "20Gi",
            })
        };
        let architecture = match instance["Architecture"].as_str() {
            Some("arm64") => "arm64",
            _ => "amd64",
        };
        let name = &instance["PrivateDnsName"];
        let id = text(&instance["InstanceId"]);
        // The kubelet's own labels take precedence over those in its flags.
        let mut labels = json!(registration.labels);
        let own = json!({
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture,
            "node.kubernetes.io/instance-type": kind, "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": harness::REGION, (STAND_IN): "true",
        });
        labels
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "providerID": format!("aws:///{zone}/{id}"),
                "taints": registration.taints,
            },
            "status": {
                "capacity": resources(cpu, memory),
                "allocatable": resources(cpu - RESERVED_CPU_MILLIS, memory - RESERVED_MEMORY),
                "addresses": [
                    {"type": "InternalIP", "address": instance["PrivateIpAddress"]},
                    {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {
                    "architecture": architecture, "operatingSystem": "linux", "kubeletVersion": "v1.34.0",
                    "kubeProxyVersion": "", "containerRuntimeVersion": "containerd://2.1.0", "osImage": "Linux",
                    "kernelVersion": "6.12.0", "machineID": "", "systemUUID": "", "bootID": "",
                },
                "conditions": [ready("False", "KubeletNotReady")],
            },
        })
    }
}

/// User data of an instance, as its metadata service returns it.
fn user_data(moto: &Moto, instance: &str) -> String {
    let request = json!({"InstanceId": instance, "Attribute": "userData"});
    let answer = moto.call("ec2", "describe_instance_attribute", request);
    let encoded = answer["UserData"]["Value"].as_str().unwrap_or_default();
    let decoded = BASE64_STANDARD.decode(encoded).unwrap();
    String::from_utf8(decoded).unwrap()
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
