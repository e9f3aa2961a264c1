//! Stack whose ledger is the real one in a local DynamoDB, metered; all other parts are in memory. Time is virtual.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::AddAssign,
    sync::Arc,
    time::{Duration, Instant},
};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use fakes::Sim;
use harness::{ACCOUNT, CREDENTIALS, Ministack, REGION};
use jiff::SignedDuration;
use ledger::TableLedger;
use model::{ClusterName, Lane, PodKey, ids::TurnId};
use ports::cluster::LeaderLease;
use serde_json::{Value, json};
use stories::{Relay, Rig, cpu, secs};
use turns::World;

use crate::meter::{Meter, Units};

pub(crate) const TABLE: &str = "whittle-ledger";
/// Seconds between heartbeats of a relay in a quiet cluster.
const HEARTBEAT_SECONDS: i64 = 25;
/// Upper bound on the items of one BatchWriteItem request, set by DynamoDB.
const BATCH_WRITE_MAX: usize = 25;

/// Counts of the invocations of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    pub(crate) invocations: usize,
    pub(crate) units: Units,
    /// Calls of ports other than the ledger, by name.
    pub(crate) calls: BTreeMap<&'static str, usize>,
    /// Compute time in this build.
    pub(crate) took: Duration,
}

impl Count {
    pub(crate) fn calls(&self, names: &[&str]) -> usize {
        let named = self.calls.iter().filter(|(name, _)| names.contains(name));
        named.map(|(_, count)| count).sum()
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.invocations += other.invocations;
        self.units += other.units;
        self.took += other.took;
        for (name, count) in other.calls {
            *self.calls.entry(name).or_default() += count;
        }
    }
}

/// Counts by lane.
pub(crate) type Counts = BTreeMap<Lane, Count>;

pub(crate) struct Stack {
    pub(crate) sim: Sim,
    pub(crate) ledger: Arc<TableLedger>,
    pub(crate) meter: Meter,
    pub(crate) world: World,
    pub(crate) dynamodb: Ministack,
    seconds: i64,
    turns: u64,
    /// Changes that concern all lanes, as counted by the relays.
    changes: u64,
}

impl Stack {
    /// Stack that serves this many clusters, each with one NodePool and a running relay.
    pub(crate) fn of(clusters: usize) -> Self {
        let dynamodb = Ministack::start(&[]);
        let declared =
            harness::template("sam-template.yaml")["Resources"]["Ledger"]["Properties"].take();
        let table = json!({
            "TableName": TABLE,
            "BillingMode": declared["BillingMode"],
            "AttributeDefinitions": declared["AttributeDefinitions"],
            "KeySchema": declared["KeySchema"],
        });
        dynamodb.call("dynamodb", "create_table", table);
        let meter = Meter::default();
        let config = sdk_config(dynamodb.endpoint(), &meter);
        let ledger = Arc::new(dynamo::ledger(&config, TABLE, ACCOUNT, REGION));
        let rig = Rig::new(Relay::Dead);
        rig.sim.with(|world| {
            let entry = world.registry.remove(0);
            world.registry = (0..clusters)
                .map(|number| {
                    let mut entry = entry.clone();
                    entry.cluster = name(number);
                    if let Ok(body) = &mut entry.body {
                        body["endpoint"] = json!(format!("https://cluster-{number}"));
                    }
                    entry
                })
                .collect();
            // All clusters share one simulated API server, where only one could acquire the leader lease; this holder
            // has it from the start.
            world.api.leader = Some(LeaderLease {
                holder: rig.world.holder.clone(),
                renewed_at: Some(world.now),
                duration_seconds: 3_600,
                resource_version: Some("1".to_owned()),
            });
        });
        let world = World {
            ledger: ledger.clone(),
            journal: ledger.clone(),
            ..rig.world
        };
        Self {
            sim: rig.sim,
            ledger,
            meter,
            world,
            dynamodb,
            seconds: 0,
            turns: 0,
            changes: 0,
        }
    }

    pub(crate) fn cluster() -> ClusterName {
        name(0)
    }

    /// Names of the metrics that turns published for a cluster since the last call; each is charged. Names that start
    /// with `whittle_` belong to the stack and do not depend on the number of clusters.
    pub(crate) fn metrics(&self) -> BTreeSet<&'static str> {
        let published = self.sim.with(|world| std::mem::take(&mut world.metrics));
        let names = published.iter().map(|metric| metric.name);
        names.filter(|name| !name.starts_with("whittle_")).collect()
    }

    fn clusters(&self) -> Vec<ClusterName> {
        self.sim.with(|world| {
            let entries = world.registry.iter();
            entries.map(|entry| entry.cluster.clone()).collect()
        })
    }

    /// Advances time: relays send heartbeats, the sweep runs every minute, wakes are delivered.
    pub(crate) async fn pass(&mut self, time: SignedDuration) -> Counts {
        let mut counts = Counts::new();
        for _ in 0..time.as_secs() {
            self.sim.advance(secs(1));
            if self.seconds % HEARTBEAT_SECONDS == 0 {
                self.send_heartbeats();
            }
            if self.seconds % 60 == 0 {
                let swept = self.sweep().await;
                *counts.entry(Lane::Housekeeper).or_default() += swept;
            }
            self.seconds += 1;
            for wake in self.sim.take_wakes() {
                let turn = self.turn(&wake.cluster, wake.lane).await;
                *counts.entry(wake.lane).or_default() += turn;
            }
        }
        counts
    }

    pub(crate) async fn sweep(&mut self) -> Count {
        let id = self.next();
        let started = self.begin();
        let report = Box::pin(turns::housekeep(&self.world, &id)).await.unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        self.end(started)
    }

    pub(crate) async fn turn(&mut self, cluster: &ClusterName, lane: Lane) -> Count {
        let (id, deadline) = (self.next(), self.now() + turns::budget(lane));
        let started = self.begin();
        let turn = turns::run(&self.world, cluster, lane, &id, deadline);
        let report = Box::pin(turn).await.unwrap();
        assert!(matches!(report.outcome, turns::Outcome::Done), "{report:?}");
        self.end(started)
    }

    /// Reports a change that concerns all lanes, by the counters of the relays.
    pub(crate) fn report_change(&mut self) {
        self.changes += 1;
        self.send_heartbeats();
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.sim.with(|world| world.now)
    }

    pub(crate) fn next(&mut self) -> TurnId {
        self.turns += 1;
        TurnId(format!("turn-{}", self.turns))
    }

    fn begin(&self) -> Instant {
        self.meter.take();
        self.meter.expire(self.now().as_second());
        self.sim.with(|world| world.calls.clear());
        Instant::now()
    }

    fn end(&self, started: Instant) -> Count {
        let mut calls = BTreeMap::new();
        self.sim.with(|world| {
            for call in world.calls.drain(..) {
                *calls.entry(call).or_default() += 1;
            }
        });
        Count {
            invocations: 1,
            units: self.meter.take(),
            calls,
            took: started.elapsed(),
        }
    }

    /// Writes the relays' rows, which are not metered as units of turns.
    fn send_heartbeats(&self) {
        let lanes = Lane::WOKEN.iter();
        let counters: serde_json::Map<String, Value> = lanes
            .map(|lane| {
                let count = json!({"N": self.changes.to_string()});
                (lane.as_str().to_owned(), count)
            })
            .collect();
        let rows = self.clusters().into_iter().map(|cluster| {
            json!({
                "pk": {"S": format!("RELAY#{cluster}")},
                "sk": {"S": "BEAT"},
                "epoch": {"S": "relay-1"},
                "beatAt": {"S": self.now().to_string()},
                "version": {"S": env!("CARGO_PKG_VERSION")},
                "counters": {"M": counters},
            })
        });
        self.put(rows.collect());
    }

    fn put(&self, rows: Vec<Value>) {
        for batch in rows.chunks(BATCH_WRITE_MAX) {
            let puts: Vec<Value> = batch
                .iter()
                .map(|row| json!({"PutRequest": {"Item": row}}))
                .collect();
            let request = json!({"RequestItems": {TABLE: puts}});
            self.dynamodb.call("dynamodb", "batch_write_item", request);
        }
    }

    /// Launches one node by real turns and copies it until there are `nodes`, with NodeClaim, instance, pod, and rows
    /// in the ledger.
    pub(crate) async fn grow(&mut self, nodes: usize) {
        self.pass(secs(180)).await;
        self.sim.with(|world| world.api.scale("web", 1, cpu(3_000)));
        self.run_until_idle().await;
        let bound = self.sim.with(stories::all_bound);
        assert!(bound, "the first node has not joined");
        let original = self.sim.with(|world| {
            let claim = world.api.node_claims.values().next().unwrap();
            let (_, instance) = claim.status.provider_id.rsplit_once('/').unwrap();
            (claim.name.to_string(), instance.to_owned())
        });
        self.sim.with(|world| {
            world.api.deployments.clear();
            (1..nodes).for_each(|number| copy(world, number));
        });
        self.copy_rows(&original, nodes);
        self.run_until_idle().await;
    }

    /// Runs all lanes each minute until no work is left.
    async fn run_until_idle(&mut self) {
        for _ in 0..6 {
            self.report_change();
            self.pass(secs(60)).await;
        }
    }

    /// Copies every row that names the first node for each of the others.
    fn copy_rows(&self, (claim, instance): &(String, String), nodes: usize) {
        let all = self
            .dynamodb
            .call("dynamodb", "scan", json!({"TableName": TABLE}));
        let rows = all["Items"].as_array().unwrap().iter();
        let of_node: Vec<String> = rows
            .filter(|row| {
                let (pk, sk) = (row["pk"]["S"].as_str(), row["sk"]["S"].as_str());
                let keys = format!("{} {}", pk.unwrap_or_default(), sk.unwrap_or_default());
                let named = keys.contains(claim.as_str()) || keys.contains(instance.as_str());
                named && !keys.contains("JOURNAL#")
            })
            .map(Value::to_string)
            .collect();
        assert!(of_node.len() >= 3, "intent, claim and owner: {of_node:?}");
        let copies = (1..nodes).flat_map(|number| {
            let named = copied(number);
            of_node.iter().map(move |row| {
                let row = row.replace(claim, &named);
                let row = row.replace(instance.as_str(), &format!("i-{named}"));
                serde_json::from_str(&row).unwrap()
            })
        });
        self.put(copies.collect());
    }
}

pub(crate) fn name(number: usize) -> ClusterName {
    match number {
        0 => Rig::cluster(),
        _ => ClusterName(format!("cluster-{number}")),
    }
}

pub(crate) fn copied(number: usize) -> String {
    format!("default-{number:010}")
}

fn copy(world: &mut fakes::World, number: usize) {
    let mut claim = world.api.node_claims.values().next().unwrap().clone();
    let mut node = world.api.nodes.values().next().unwrap().clone();
    let mut pod = world.api.pods.values().next().unwrap().clone();
    let mut instance = world.account.instances.values().next().unwrap().clone();
    let name = copied(number);
    instance.id = format!("i-{name}").as_str().into();
    instance.private_dns = Some(name.clone());
    instance
        .tags
        .insert("karpenter.sh/nodeclaim".to_owned(), name.clone());
    claim.name = name.as_str().into();
    claim.uid = format!("{name}-uid").as_str().into();
    claim.status.provider_id = format!("aws:///{}/i-{name}", instance.zone);
    claim.status.node_name = Some(name.as_str().into());
    node.name = name.as_str().into();
    node.uid = format!("node-{name}-uid").as_str().into();
    node.provider_id.clone_from(&claim.status.provider_id);
    pod.key = PodKey::new("default", &name);
    pod.uid = format!("pod-{name}-uid").as_str().into();
    pod.node_name = Some(node.name.clone());
    world
        .account
        .instances
        .insert(instance.id.clone(), instance);
    world.api.node_claims.insert(claim.name.clone(), claim);
    world.api.nodes.insert(node.name.clone(), node);
    world.api.pods.insert(pod.key.clone(), pod);
}

fn sdk_config(endpoint: &str, meter: &Meter) -> SdkConfig {
    let [(_, key), (_, secret), ..] = CREDENTIALS;
    let credentials = Credentials::new(key, secret, None, None, "bench");
    let client = aws_smithy_http_client::Builder::new().build_http();
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(meter.over(client))
        .build()
}
