//! One cluster in memory with all turns around it: time passes second by second, wakes are delivered, the sweep comes
//! every minute, and a relay may watch.
//!
//! Suites in `tests/` tell stories with it. It must never depend on an adapter, an SDK or a network client: stories are run
//! on every change.

mod ends;
mod fleet;
mod hanging;
mod publishing;
mod relay;
mod transcript;

use std::sync::Arc;

use fakes::{CrashPoint, Sim};
use jiff::SignedDuration;
use model::{
    CapacityType, ClusterName, InstanceId, Interruption, InterruptionKind, Lane, Resources, Wake,
    ids::TurnId,
    labels,
    ledger::RelayBeat,
    node_claim::{NodeClaim, NodeClaimStatus},
};
use turns::{InterruptionOutcome, PodsFrom, Share, World};

use relay::Seen;

pub use ends::{all_bound, all_gone, consistent, settled};
pub use fleet::{fleet, wants_no_nodes};
pub use hanging::HangingStack;
pub use publishing::Publishing;
pub use relay::Relay;
pub use transcript::compare;

pub struct Rig {
    pub sim: Sim,
    pub world: World,
    pub relay: Relay,
    /// Errors of turns that could not record their own failure.
    pub errors: Vec<String>,
    pub transcript: Vec<String>,
    /// How turns came to see what they saw.
    pub reads: Vec<Read>,
    /// What turns did their work in spite of, each once.
    pub complaints: Vec<String>,
    /// Where the relay publishes pods.
    pub publishing: Option<Publishing>,
    /// How many pods each turn left to the next, where it left any.
    pub postponed: Vec<usize>,
    /// How many nodes each look for disruptions left to the next, where it left any.
    pub unconsidered: Vec<usize>,
    turn: u64,
    seconds: i64,
    seen: Seen,
    pub beat: RelayBeat,
}

pub fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// Somebody applies another NodeClaim like the first one.
pub fn add_node_claim(world: &mut fakes::World, name: &str, change: impl Fn(&mut NodeClaim)) {
    let like = world.api.node_claims.values().next().cloned();
    let made = like.map(|like| {
        let mut made = NodeClaim {
            name: name.into(),
            uid: format!("{name}-uid").into(),
            status: NodeClaimStatus::default(),
            finalizers: Vec::new(),
            created_at: Some(world.now),
            ..like
        };
        change(&mut made);
        (made.name.clone(), made)
    });
    world.api.node_claims.extend(made);
}

/// Makes an instance, its NodeClaim and its Node what they would be had EC2 launched it as spot.
pub fn make_spot(world: &mut fakes::World, id: &InstanceId) {
    let spot = || (labels::CAPACITY_TYPE.to_owned(), "spot".to_owned());
    let Some(instance) = world.account.instances.get_mut(id) else {
        return;
    };
    instance.capacity_type = CapacityType::Spot;
    let own = |provider_id: &str| provider_id.ends_with(&format!("/{id}"));
    let mut claims = world.api.node_claims.values_mut();
    if let Some(claim) = claims.find(|claim| own(&claim.status.provider_id)) {
        claim.labels.extend([spot()]);
    }
    let mut nodes = world.api.nodes.values_mut();
    if let Some(node) = nodes.find(|node| own(&node.provider_id)) {
        node.labels.extend([spot()]);
    }
}

/// Another instance like the first one, which no NodeClaim names and no launch explains.
pub fn add_stray(world: &mut fakes::World) -> InstanceId {
    let id = InstanceId::from("i-stray");
    let like = world.account.instances.values().next().cloned();
    let stray = like.map(|mut stray| {
        stray.id = id.clone();
        stray.private_dns = None;
        stray.tags.remove("whittle.sh/launch");
        (id.clone(), stray)
    });
    world.account.instances.extend(stray);
    id
}

pub fn cpu(millicores: i64) -> Resources {
    Resources::from([("cpu", millicores), ("memory", 512 << 20)])
}

/// Two pods need one m5.xlarge each at most.
pub const POD: i64 = 1_500;

/// How one turn came to see the pods, and whether it launched anything.
#[derive(Debug)]
pub struct Read {
    pub lane: Lane,
    pub pods: PodsFrom,
    pub launched: bool,
}

impl Rig {
    /// An active cluster with one NodePool, swept twice so that everything is resolved.
    pub fn new(relay: Relay) -> Self {
        let sim = Sim::new("demo");
        sim.with(|world| {
            world
                .api
                .node_classes
                .insert("default".into(), fakes::node_class("default"));
            world
                .api
                .node_pools
                .insert("default".into(), fakes::node_pool("default", "60s"));
        });
        let shared = Arc::new(sim.clone());
        let world = World {
            cloud: shared.clone(),
            ledger: shared.clone(),
            journal: shared.clone(),
            archive: shared.clone(),
            wakes: shared.clone(),
            clock: shared.clone(),
            catalog: shared.clone(),
            node_classes: shared.clone(),
            launches: shared.clone(),
            registry: shared.clone(),
            clusters: shared.clone(),
            upkeep: shared.clone(),
            metrics: shared.clone(),
            notifier: shared,
            holder: "whittle/123456789012/us-east-1/test".into(),
            share: Share::TURN,
            views: Arc::default(),
            heartbeats: Arc::default(),
            reach: turns::PUBLIC.to_owned(),
        };
        Self {
            sim,
            world,
            relay,
            errors: Vec::new(),
            transcript: Vec::new(),
            postponed: Vec::new(),
            reads: Vec::new(),
            complaints: Vec::new(),
            publishing: None,
            unconsidered: Vec::new(),
            turn: 0,
            seconds: 0,
            seen: Seen::default(),
            beat: RelayBeat {
                epoch: "relay-1".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                ..RelayBeat::default()
            },
        }
    }

    /// A cluster in which the first sweeps have happened and the NodePool is ready.
    pub async fn ready(relay: Relay) -> Self {
        let mut rig = Self::new(relay);
        rig.pass(secs(150)).await;
        assert_eq!(rig.errors, Vec::<String>::new());
        rig
    }

    /// Sets the `settings` of the cluster's registry entry.
    pub fn configure(&self, settings: &serde_json::Value) {
        let entry = serde_json::json!({
            "type": "endpoint", "endpoint": "https://127.0.0.1", "mode": "active", "settings": settings,
        });
        self.sim.with(|world| {
            for registered in &mut world.registry {
                registered.body = Ok(entry.clone());
            }
            if let Some(meta) = &mut world.ledger.of(&Self::cluster()).meta {
                meta.registry = entry;
            }
        });
    }

    pub fn cluster() -> ClusterName {
        "demo".into()
    }

    /// When a turn that begins now must have ended.
    pub fn deadline(&self, lane: Lane) -> jiff::Timestamp {
        self.sim.with(|world| world.now) + turns::budget(lane)
    }

    pub fn next_turn(&mut self) -> TurnId {
        self.turn += 1;
        TurnId(format!("turn-{}", self.turn))
    }

    /// AWS announces something about one instance, now. What AWS announces of spot instances only makes it one.
    pub async fn announce(
        &mut self,
        instance: &InstanceId,
        kind: InterruptionKind,
        deadline: Option<SignedDuration>,
    ) -> InterruptionOutcome {
        if !kind.applies_to_capacity_type(CapacityType::OnDemand) {
            self.make_spot(instance);
        }
        self.send(instance, kind, deadline).await
    }

    /// Something arrives in the interrupt queue, from AWS or from whoever may write to it.
    pub async fn send(
        &mut self,
        instance: &InstanceId,
        kind: InterruptionKind,
        deadline: Option<SignedDuration>,
    ) -> InterruptionOutcome {
        let now = self.sim.with(|world| world.now);
        let fact = Interruption {
            instance: instance.clone(),
            kind,
            at: Some(now),
            deadline: deadline.map(|left| now + left),
            hook: None,
            event: String::new(),
            reboots: false,
        };
        let turn = self.next_turn();
        let mut outcomes = Box::pin(turns::interrupt(&self.world, &[fact], &turn)).await;
        outcomes.remove(0)
    }

    pub fn make_spot(&self, instance: &InstanceId) {
        self.sim.with(|world| make_spot(world, instance));
    }

    pub fn scale(&self, replicas: usize) {
        self.sim
            .with(|world| world.api.scale("web", replicas, cpu(POD)));
    }

    /// Lets time pass; a process that died is replaced by a new one at once.
    pub async fn pass(&mut self, time: SignedDuration) {
        for _ in 0..time.as_secs() {
            self.second().await;
        }
    }

    /// Lets time pass until a sweep has just been: the next one is almost a minute away.
    pub async fn until_swept(&mut self) {
        loop {
            self.second().await;
            if self.seconds % 60 == 1 {
                return;
            }
        }
    }

    /// Lets time pass until the world looks so; says after how many seconds, or `None` if it never did within `limit`.
    pub async fn until(
        &mut self,
        limit: SignedDuration,
        is_so: impl Fn(&mut fakes::World) -> bool,
    ) -> Option<i64> {
        let start = self.seconds;
        while self.seconds - start < limit.as_secs() {
            if self.sim.with(&is_so) {
                return Some(self.seconds - start);
            }
            self.second().await;
        }
        self.sim.with(is_so).then_some(limit.as_secs())
    }

    async fn second(&mut self) {
        self.sim.advance(secs(1));
        self.seconds += 1;
        if self.relay == Relay::Watching {
            self.watch();
        }
        if self.seconds % 60 == 1 {
            let turn = self.next_turn();
            match Box::pin(turns::housekeep(&self.world, &turn)).await {
                Ok(report) => self.transcript.extend(
                    report
                        .alarms
                        .iter()
                        .map(|alarm| format!("{:>4}s alarm: {alarm}", self.seconds)),
                ),
                Err(error) => self.errors.push(error.to_string()),
            }
            self.mend();
        }
        for wake in self.sim.take_wakes() {
            // A turn is large, and stories await each other.
            Box::pin(self.deliver(&wake)).await;
        }
    }

    async fn deliver(&mut self, wake: &Wake) {
        let turn = self.next_turn();
        let deadline = self.deadline(wake.lane);
        match Box::pin(turns::woken(&self.world, wake, &turn, deadline)).await {
            Ok(report) => {
                self.reads.push(Read {
                    lane: report.lane,
                    pods: report.reads.pods.clone(),
                    launched: !report.launched.is_empty(),
                });
                for complaint in &report.complaints {
                    if !self.complaints.contains(complaint) {
                        self.complaints.push(complaint.clone());
                    }
                }
                if report.postponed > 0 {
                    self.postponed.push(report.postponed);
                }
                if report.unconsidered > 0 {
                    self.unconsidered.push(report.unconsidered);
                }
                self.transcript.extend(
                    report
                        .planned
                        .iter()
                        .map(|line| format!("{:>4}s {}: {line}", self.seconds, wake.lane)),
                );
                self.transcript.extend(
                    report
                        .problems
                        .iter()
                        .map(|line| format!("{:>4}s {}! {line}", self.seconds, wake.lane)),
                );
                self.transcript.extend(
                    report
                        .refused
                        .iter()
                        .map(|line| format!("{:>4}s {} refused {line}", self.seconds, wake.lane)),
                );
                if let turns::Outcome::Failed(error) = &report.outcome {
                    self.transcript.push(format!(
                        "{:>4}s {} failed: {error}",
                        self.seconds, wake.lane
                    ));
                }
            }
            Err(error) => self
                .errors
                .push(format!("{:>4}s {}: {error}", self.seconds, wake.lane)),
        }
        self.mend();
    }

    fn mend(&mut self) {
        let died = self.sim.with(|world| {
            let died = world.crash_point.is_reached();
            if died {
                world.crash_point = CrashPoint::default();
            }
            died
        });
        if died {
            self.world.heartbeats = Arc::default();
        }
    }
}
