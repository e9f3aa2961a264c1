//! The product as users run it: the stack deployed into a local AWS, a cluster, simulated or real, the relay, and
//! simulated machines that join as nodes.
//!
//! The crate knows the product only by its deployed interfaces and must never depend on a crate that decides or acts.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is not there fails the test"
)]

mod cluster;
mod control_plane;
mod kubelets;
pub mod local;
mod machines;
pub mod permissions;
mod provided;
pub mod relay;
mod user_data;
pub mod wire;

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use harness::{LocalAws, Stack};
use jiff::Timestamp;
use serde_json::{Value, json};

pub use cluster::Cluster;
use machines::Machines;

pub const CLUSTER: &str = "demo";
const CREDENTIALS: &str = "/whittle/credentials/demo";
/// Interval between checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between sweeps: shorter than the schedule's minute, which is sound because a sweep may come at any time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Part of the user data in `MANIFESTS`.
pub const SECRET_OF_NODES: &str = "4d1e-only-the-node-knows";

/// NodePool of small instances, its EC2NodeClass, and a Deployment with zero replicas whose pods fit no other node.
pub const MANIFESTS: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  tags: {team: payments}
  userData: |
    #!/bin/bash
    echo 4d1e-only-the-node-knows > /etc/key
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {tier: web}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s}
  limits: {cpu: 100}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {tier: web}
      containers:
      - name: web
        image: example.com/web:1
        resources: {requests: {cpu: '1', memory: 256Mi}}
";

/// Time limit for reactions that a wake starts immediately.
pub const SOON: Duration = Duration::from_secs(90);
/// Time limit for reactions that wait until the relay counts as silent, or a lease has lapsed.
pub const BY_SWEEP: Duration = Duration::from_secs(240);

pub struct Deployed<'a> {
    pub aws: &'a LocalAws,
    pub stack: Stack<'a>,
    pub cluster: Cluster,
    machines: Machines,
    swept: Instant,
    /// Housekeeper function of each reach.
    housekeepers: Vec<String>,
}

impl<'a> Deployed<'a> {
    /// Deploys the stack and registers a cluster that has Karpenter's CRDs and no node.
    pub fn start(aws: &'a LocalAws) -> Self {
        let deployed = Self::unregistered(aws);
        deployed.register(CLUSTER, &deployed.entry());
        deployed
    }

    /// Like [`Self::start`], without the cluster's registry entry.
    pub fn unregistered(aws: &'a LocalAws) -> Self {
        let stack = aws.deploy("whittle");
        let cluster = Cluster::start();
        let token = json!({
            "Name": CREDENTIALS, "Type": "SecureString", "Value": cluster.token(), "Overwrite": true,
        });
        aws.moto.call("ssm", "put_parameter", token);
        Self {
            aws,
            stack,
            machines: Machines::default(),
            swept: Instant::now(),
            housekeepers: vec!["housekeeper".to_owned()],
            cluster,
        }
    }

    /// Registry entry of the cluster.
    pub fn entry(&self) -> Value {
        json!({
            "type": "endpoint", "endpoint": self.cluster.url(), "credentials": CREDENTIALS,
            "reach": "public", "mode": "active",
            "settings": {"kubernetesVersion": "1.34", "serviceCIDR": "10.100.0.0/16"},
        })
    }

    /// Puts a registry entry, as `aws ssm put-parameter` does.
    pub fn register(&self, cluster: &str, entry: &Value) {
        let parameter = json!({
            "Name": format!("/whittle/clusters/{cluster}"), "Type": "String", "Value": entry.to_string(), "Overwrite": true,
        });
        self.aws.moto.call("ssm", "put_parameter", parameter);
    }

    /// Event of a sample in `events/interruption`, with the current time and this instance.
    #[expect(clippy::disallowed_methods, reason = "the functions look at the clock")]
    pub fn interruption_event(&self, sample: &str, instance: &Value) -> String {
        let path = cluster::root().join(format!("events/interruption/{sample}.json"));
        let delivery: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let body = delivery["Records"][0]["body"].as_str().unwrap();
        let mut event: Value = serde_json::from_str(body).unwrap();
        let environment = self.stack.function_environment("interruption");
        event["account"] = environment["WHITTLE_ACCOUNT"].as_str().into();
        event["region"] = harness::REGION.into();
        event["time"] = Timestamp::now().to_string().into();
        event["detail"]["instance-id"] = instance.clone();
        event.to_string()
    }

    /// Sends an event to the queue that EventBridge's rules target: the local AWS rejects events of AWS' own sources.
    pub fn send_event(&self, event: &str) {
        let url = self.stack.output("InterruptQueueUrl");
        let message = json!({"QueueUrl": url, "MessageBody": event});
        self.aws.ministack.call("sqs", "send_message", message);
    }

    /// Invokes every housekeeper as its schedule does.
    pub fn sweep(&mut self) {
        self.try_sweep().unwrap_or_else(|error| panic!("{error}"));
    }

    fn try_sweep(&mut self) -> Result<(), String> {
        self.swept = Instant::now();
        let event = json!({"source": "aws.scheduler"});
        self.housekeepers.iter().try_for_each(|housekeeper| {
            let swept = self.stack.invoke(housekeeper, &event);
            swept
                .map(drop)
                .map_err(|error| format!("the sweep of {housekeeper} failed: {error}"))
        })
    }

    /// Deploys the functions that serve a VPC, too.
    pub fn serve_vpc(&mut self) -> String {
        let seed = &self.aws.moto.seed;
        let subnets: Vec<&str> = seed.subnets.values().map(String::as_str).collect();
        let lane = self
            .stack
            .deploy_lane(&seed.vpc, &subnets.join(","), &seed.security_group);
        assert!(lane.output("ProvisionQueueUrl").contains(&seed.vpc));
        self.housekeepers.push(format!("{}-housekeeper", seed.vpc));
        seed.vpc.clone()
    }

    /// Runs machines and sweeps until the condition holds.
    ///
    /// A condition returns `Err` with the reason while it does not hold.
    pub fn until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut check: impl FnMut(&Self) -> Result<T, String>,
    ) -> T {
        let started = Instant::now();
        loop {
            self.reconcile();
            let missing = match check(self) {
                Ok(found) => {
                    eprintln!("{what}: after {:.0?}", started.elapsed());
                    return found;
                }
                Err(missing) => missing,
            };
            if started.elapsed() > limit {
                panic!(
                    "{what}: not within {limit:?}: {missing}\n{}",
                    self.diagnostics()
                );
            }
            if self.swept.elapsed() > SWEEP_INTERVAL {
                self.sweep();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Runs machines and sweeps until `ended` returns true. A failed sweep is reported, and the next one comes as
    /// scheduled.
    pub fn serve(&mut self, sweep_every: Duration, ended: impl Fn() -> bool) {
        while !ended() {
            self.reconcile();
            if self.swept.elapsed() > sweep_every
                && let Err(error) = self.try_sweep()
            {
                eprintln!("{error}");
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Boots the machines of new instances, and stops those of terminated instances, which EC2 announces.
    fn reconcile(&mut self) {
        let gone = self
            .machines
            .reconcile(&self.aws.moto, &self.cluster.kubelets);
        for instance in gone {
            self.send_event(&self.interruption_event("state-change", &instance.into()));
        }
    }

    /// Deletes the stack, as `sam delete` does.
    pub fn end(self) -> Result<(), String> {
        self.stack.delete()
    }

    /// Instances of the cluster that are not terminated, with any tags.
    pub fn instances(&self) -> Vec<Value> {
        machines::alive(&self.aws.moto)
    }

    /// Every instance that was ever launched.
    pub fn all_instances(&self) -> Vec<Value> {
        machines::all(&self.aws.moto)
    }

    /// Cluster state and logs for the message of a failed test.
    fn diagnostics(&self) -> String {
        let mut lines = Vec::new();
        let kinds = "nodepools,ec2nodeclasses,nodeclaims,nodes,pods,events";
        match self.cluster.try_kubectl(&["get", kinds, "-A"], "") {
            Ok(text) | Err(text) => lines.push(text),
        }
        for function in [
            "housekeeper",
            "provisioner",
            "lifecycle",
            "disruption",
            "terminator",
            "interruption",
        ] {
            lines.push(format!("---- {function} ----"));
            let mut logs = self.stack.logs(function);
            // Lambda's own lines, and turns whose lane was held by another, give no information.
            logs.retain(|line| line.starts_with('{') && !line.contains(r#""outcome":"held""#));
            let last = logs.len().saturating_sub(12);
            lines.extend(logs.drain(last..));
        }
        lines.join("\n")
    }
}

/// Tags of an AWS resource by key.
pub fn tags(resource: &Value) -> BTreeMap<&str, &str> {
    let tags = resource["Tags"].as_array().into_iter().flatten();
    tags.filter_map(|tag| Some((tag["Key"].as_str()?, tag["Value"].as_str()?)))
        .collect()
}

/// Status of a condition; `Unknown` if the object does not have it.
pub fn condition<'o>(object: &'o Value, kind: &str) -> &'o str {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or("Unknown")
}

pub fn all_run(deployed: &Deployed<'_>, count: usize) -> Result<(), String> {
    let mut pods = deployed.cluster.list("pods");
    pods.retain(|pod| pod["metadata"]["namespace"] == "default");
    let running = pods.iter().filter(|pod| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    });
    match running.count() {
        running if running == count && pods.len() == count => Ok(()),
        running => Err(format!("{running} of {} pods run", pods.len())),
    }
}

pub fn all_true(objects: &[Value], conditions: &[&str], count: usize) -> Result<(), String> {
    let missing: Vec<String> = objects
        .iter()
        .flat_map(|object| conditions.iter().map(move |kind| (object, kind)))
        .filter(|(object, kind)| condition(object, kind) != "True")
        .map(|(object, kind)| format!("{} is not {kind}", object["metadata"]["name"]))
        .collect();
    if missing.is_empty() && objects.len() == count {
        return Ok(());
    }
    Err(format!(
        "{} of {count}: {}",
        objects.len(),
        missing.join(", ")
    ))
}
