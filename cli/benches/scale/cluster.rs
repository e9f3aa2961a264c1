//! A large cluster at rest, written into an API server as objects of the size that real ones have.
#![expect(
    clippy::indexing_slicing,
    reason = "fields of objects that are made here"
)]

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use model::labels;
use sandbox::World;
use serde_json::{Map, Value, json};

/// Instance type of every node.
pub(crate) const TYPE: &str = "m5.xlarge";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// Number of DaemonSet pods on every node.
const DAEMONS: usize = 2;
const DEPLOYMENTS: usize = 250;
const NAMESPACES: usize = 50;
/// Images that a kubelet lists, as nodes that have run for a while have.
const IMAGES: usize = 20;
/// Age of all objects.
const AGE: SignedDuration = SignedDuration::from_hours(30);

/// Fills a world in which nothing acts: every node holds as many pods, and none is worth leaving.
pub(crate) fn fill(world: &mut World, now: Timestamp, nodes: usize, pods: usize) -> Result<()> {
    let mut writer = Writer {
        world,
        since: (now - AGE).to_string(),
        next: 0,
    };
    let spec = |spec: Value| json!({"spec": spec});
    let class = serde_json::to_value(fakes::node_class("default").spec)?;
    writer.put(
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        "",
        "default",
        spec(class),
    )?;
    let mut pool = serde_json::to_value(fakes::node_pool("default", "1h").spec)?;
    // Nothing is cheaper, so that a search for disruptions looks at every node and finds nothing.
    pool["template"]["spec"]["requirements"] = json!([
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels::INSTANCE_TYPE, "operator": "In", "values": [TYPE]},
        {"key": labels::ARCH, "operator": "In", "values": ["amd64"]},
    ]);
    writer.put("karpenter.sh/v1", "NodePool", "", "default", spec(pool))?;
    for index in 0..NAMESPACES {
        writer.put("v1", "Namespace", "", &namespace(index), json!({}))?;
    }
    for index in 0..DAEMONS {
        let name = daemon(index);
        writer.put(
            "apps/v1",
            "DaemonSet",
            "kube-system",
            &name,
            daemon_set(&name),
        )?;
    }
    let own = (pods / nodes.max(1)).saturating_sub(DAEMONS);
    for index in 0..nodes {
        let machine = Machine::new(index);
        writer.put(
            "karpenter.sh/v1",
            "NodeClaim",
            "",
            &machine.claim(),
            machine.node_claim(&writer.since),
        )?;
        writer.put(
            "v1",
            "Node",
            "",
            &machine.node(),
            machine.object(&writer.since),
        )?;
        writer.put(
            "storage.k8s.io/v1",
            "CSINode",
            "",
            &machine.node(),
            machine.csi_node(),
        )?;
        for number in 0..DAEMONS {
            let owner = daemon(number);
            let name = format!("{owner}-{index}");
            let pod = pod(
                "DaemonSet",
                &owner,
                100,
                Some(&machine.node()),
                &writer.since,
            );
            writer.put("v1", "Pod", "kube-system", &name, pod)?;
        }
        for number in 0..own {
            let serial = index * own + number;
            let deployment = serial % DEPLOYMENTS;
            let (owner, cores) = (replica_set(deployment), 380 + 10 * (deployment % 11));
            let name = format!("{owner}-{serial}");
            let pod = pod(
                "ReplicaSet",
                &owner,
                cores,
                Some(&machine.node()),
                &writer.since,
            );
            writer.put("v1", "Pod", &namespace(deployment % NAMESPACES), &name, pod)?;
        }
    }
    Ok(())
}

/// Adds pods that no node has room for; `before` of them exist already.
pub(crate) fn wait(world: &mut World, now: Timestamp, before: usize, pods: usize) -> Result<()> {
    let mut writer = Writer {
        world,
        since: now.to_string(),
        next: (1 << 32) + before as u64,
    };
    for serial in before..before + pods {
        let deployment = serial % DEPLOYMENTS;
        let (owner, cores) = (replica_set(deployment), 380 + 10 * (deployment % 11));
        let name = format!("{owner}-waits-{serial}");
        let pod = pod("ReplicaSet", &owner, cores, None, &writer.since);
        writer.put("v1", "Pod", &namespace(deployment % NAMESPACES), &name, pod)?;
    }
    Ok(())
}

/// Writes objects past admission, which would take minutes for as many.
struct Writer<'a> {
    world: &'a mut World,
    since: String,
    next: u64,
}

impl Writer<'_> {
    fn put(
        &mut self,
        version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<()> {
        let served = self.world.server.kinds.by_kind(version, kind);
        let table = served
            .with_context(|| format!("{kind} is not served"))?
            .table
            .clone();
        self.next += 1;
        let mut whole = Map::new();
        whole.insert("apiVersion".to_owned(), version.into());
        whole.insert("kind".to_owned(), kind.into());
        if let Value::Object(fields) = object {
            whole.extend(fields);
        }
        let metadata = whole.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = name.into();
        metadata["uid"] = format!("00000000-0000-4000-8000-{:012x}", self.next).into();
        metadata["creationTimestamp"] = self.since.clone().into();
        metadata["generation"] = 1.into();
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        self.world.server.store.put(&table, Value::Object(whole));
        Ok(())
    }
}

fn namespace(index: usize) -> String {
    format!("team-{index}")
}

fn daemon(index: usize) -> String {
    format!("agent-{index}")
}

fn replica_set(deployment: usize) -> String {
    format!("service-{deployment}-7d9c5b6f4c")
}

/// One node, with all that belongs to it.
struct Machine {
    index: usize,
}

impl Machine {
    fn new(index: usize) -> Self {
        Self { index }
    }

    fn claim(&self) -> String {
        format!("default-{:05}", self.index)
    }

    fn node(&self) -> String {
        let (high, low) = (self.index / 250, self.index % 250);
        format!("ip-10-0-{high}-{low}.ec2.internal")
    }

    fn zone(&self) -> &'static str {
        ZONES
            .get(self.index % ZONES.len())
            .copied()
            .unwrap_or_default()
    }

    fn provider_id(&self) -> String {
        format!("aws:///{}/i-{:017x}", self.zone(), self.index + 1)
    }

    fn labels(&self) -> Value {
        json!({
            labels::ARCH: "amd64", labels::OS: "linux", labels::REGION: "us-east-1", labels::ZONE: self.zone(),
            labels::INSTANCE_TYPE: TYPE, labels::CAPACITY_TYPE: "on-demand", labels::NODE_POOL: "default",
            "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.k8s.aws/instance-category": "m",
            "karpenter.k8s.aws/instance-cpu": "4", "karpenter.k8s.aws/instance-cpu-manufacturer": "intel",
            "karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-generation": "5",
            "karpenter.k8s.aws/instance-hypervisor": "nitro", "karpenter.k8s.aws/instance-memory": "16384",
            "karpenter.k8s.aws/instance-size": "xlarge", "topology.k8s.aws/zone-id": "use1-az1",
        })
    }

    fn node_claim(&self, since: &str) -> Value {
        let on = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since, "observedGeneration": 1});
        json!({
            "metadata": {
                "labels": self.labels(), "finalizers": ["karpenter.sh/termination"],
                "annotations": {"karpenter.k8s.aws/tagged": "true"},
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                    {"key": labels::INSTANCE_TYPE, "operator": "In", "values": [TYPE]},
                    {"key": labels::ARCH, "operator": "In", "values": ["amd64"]},
                ],
                "resources": {"requests": {"cpu": "3640m", "memory": "6Gi", "pods": "10"}},
                "expireAfter": "Never",
            },
            "status": {
                "providerID": self.provider_id(), "nodeName": self.node(), "imageID": "ami-0123456789abcdef0",
                "capacity": capacity(), "allocatable": allocatable(), "lastPodEventTime": since,
                "conditions": [on("Launched"), on("Registered"), on("Initialized"), on("Ready"), on("Consolidatable")],
            },
        })
    }

    fn object(&self, since: &str) -> Value {
        let mut labels = self.labels();
        labels["kubernetes.io/hostname"] = self.node().into();
        labels["karpenter.sh/registered"] = "true".into();
        labels["karpenter.sh/initialized"] = "true".into();
        let condition = |kind: &str, status: &str| {
            json!({
                "type": kind, "status": status, "reason": format!("Kubelet{kind}"), "message": "kubelet says so",
                "lastHeartbeatTime": since, "lastTransitionTime": since,
            })
        };
        let images: Vec<Value> = (0..IMAGES)
            .map(|image| {
                json!({"names": [format!("registry.example.com/team/service-{image}:v1.{image}.0")], "sizeBytes": 123_456_789 + image})
            })
            .collect();
        json!({
            "metadata": {
                "labels": labels, "finalizers": ["karpenter.sh/termination"],
                "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": "{\"ebs.csi.aws.com\":\"i-1\"}"},
            },
            "spec": {"providerID": self.provider_id()},
            "status": {
                "capacity": capacity(), "allocatable": allocatable(),
                "conditions": [
                    condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                    condition("PIDPressure", "False"), condition("Ready", "True"),
                ],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": self.node()}],
                "nodeInfo": {
                    "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.1.0", "kubeletVersion": "v1.33.0",
                    "containerRuntimeVersion": "containerd://2.0.0", "osImage": "Amazon Linux 2023", "machineID": "ec2",
                    "systemUUID": "ec2", "bootID": "b", "kubeProxyVersion": "",
                },
                "images": images,
            },
        })
    }

    fn csi_node(&self) -> Value {
        json!({"spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": format!("i-{:017x}", self.index + 1), "topologyKeys": [labels::ZONE], "allocatable": {"count": 25}},
        ]}})
    }
}

fn capacity() -> Value {
    json!({"cpu": "4", "memory": "15896988Ki", "ephemeral-storage": "20959212Ki", "pods": "58", "hugepages-1Gi": "0", "hugepages-2Mi": "0"})
}

fn allocatable() -> Value {
    json!({"cpu": "3920m", "memory": "14880156Ki", "ephemeral-storage": "18181869946", "pods": "58", "hugepages-1Gi": "0", "hugepages-2Mi": "0"})
}

fn daemon_set(name: &str) -> Value {
    json!({
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}],
            }},
        },
    })
}

/// A pod of the size usual in a service mesh: a sidecar, an init container, environment, probes and annotations.
fn pod(kind: &str, owner: &str, millicores: usize, node: Option<&str>, since: &str) -> Value {
    let environment: Vec<Value> = (0..12)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("value-of-the-setting-{index}")}))
        .collect();
    let mounts = json!([
        {"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        {"name": "config", "mountPath": "/etc/service"},
    ]);
    let container = |name: &str, cores: usize| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{owner}/{name}:v1.2.3"), "env": environment,
            "ports": [{"containerPort": 8080, "protocol": "TCP"}], "volumeMounts": mounts,
            "resources": {"requests": {"cpu": format!("{cores}m"), "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1},
            "livenessProbe": {"httpGet": {"path": "/live", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        })
    };
    let status = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{owner}/{name}:v1.2.3"), "ready": true, "restartCount": 0, "started": true,
            "imageID": "registry.example.com/team/service@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "containerID": "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "state": {"running": {"startedAt": since}},
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": since});
    let mut pod = json!({
        "metadata": {
            "labels": {"app": owner, "pod-template-hash": "7d9c5b6f4c", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": "v1.2.3"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": "0123456789abcdef0123456789abcdef"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": format!("uid-of-{owner}"), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "containers": [container("service", millicores - 50), container("proxy", 50)],
            "volumes": [
                {"name": "config", "configMap": {"name": "config", "defaultMode": 420}},
                {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}},
            ],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 5, "topologyKey": labels::ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": owner}},
            }],
            "serviceAccountName": "service", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        },
    });
    match node {
        Some(node) => {
            pod["spec"]["nodeName"] = node.into();
            pod["status"] = json!({
                "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.0.1.2", "startTime": since, "qosClass": "Burstable",
                "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
                "containerStatuses": [status("service"), status("proxy")],
            });
        }
        None => {
            pod["status"] = json!({
                "phase": "Pending", "qosClass": "Burstable",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available", "lastTransitionTime": since}],
            });
        }
    }
    pod
}
