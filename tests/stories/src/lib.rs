//! A simulated cluster in memory with all turns around it: virtual time advances by the second, wakes are delivered, the
//! housekeeper sweeps every minute, and a relay may watch.
//!
//! The suites in `tests/` run whole turns with it. The crate must never depend on an adapter, an SDK or a network client, because
//! the suites run on every change.

mod conditions;
mod fleet;
mod hanging_stack;
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

pub use conditions::{all_bound, all_gone, consistent, settled};
pub use fleet::{fleet, wants_no_nodes};
pub use hanging_stack::HangingStack;
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
    /// Sources of the pods that each turn read.
    pub reads: Vec<Read>,
    /// Warnings of turns, each once: failures that did not stop the turn.
    pub warnings: Vec<String>,
    /// Publisher of the view, if the relay publishes pods.
    pub publishing: Option<Publishing>,
    /// Number of pods that each turn postponed, for turns that postponed any.
    pub postponed: Vec<usize>,
    /// Number of nodes that each disruption evaluation left to the next, for evaluations that left any.
    pub unconsidered: Vec<usize>,
    turn: u64,
    seconds: i64,
    seen: Seen,
    pub beat: RelayBeat,
}

pub fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// Creates a NodeClaim by hand: a copy of the first one with `change` applied.
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

/// Turns an instance, its NodeClaim and its Node into spot capacity.
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

/// Adds a copy of the first instance that no NodeClaim names and no launch explains.
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

/// CPU of a pod in millicores. At most two such pods fit on an m5.xlarge.
pub const POD: i64 = 1_500;

/// Source of the pods that a turn read, and whether the turn launched anything.
#[derive(Debug)]
pub struct Read {
    pub lane: Lane,
    pub pods: PodsFrom,
    pub launched: bool,
}

impl Rig {
    /// Returns an active cluster with one NodePool, before the first sweep.
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
            warnings: Vec::new(),
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

    /// Returns a cluster after its first sweeps, with a ready NodePool.
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

    /// Deadline of a turn that begins now.
    pub fn deadline(&self, lane: Lane) -> jiff::Timestamp {
        self.sim.with(|world| world.now) + turns::budget(lane)
    }

    pub fn next_turn(&mut self) -> TurnId {
        self.turn += 1;
        TurnId(format!("turn-{}", self.turn))
    }

    /// Delivers an interruption of an instance from AWS, now. The instance becomes a spot one if only spot instances can have an
    /// interruption of this kind.
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

    /// Delivers a message of any sender to the interrupt queue.
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

    /// Advances the clock. A crashed process is replaced by a new one immediately.
    pub async fn pass(&mut self, time: SignedDuration) {
        for _ in 0..time.as_secs() {
            self.second().await;
        }
    }

    /// Advances the clock until just after a sweep, so that the next one is almost a minute away.
    pub async fn until_swept(&mut self) {
        loop {
            self.second().await;
            if self.seconds % 60 == 1 {
                return;
            }
        }
    }

    /// Advances the clock until the condition holds. Returns the seconds that took, or `None` if the condition did not hold within `limit`.
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
            self.replace_crashed_process();
        }
        for wake in self.sim.take_wakes() {
            // Boxed because the future of a turn is large and the suites nest it.
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
                for warning in &report.warnings {
                    if !self.warnings.contains(warning) {
                        self.warnings.push(warning.clone());
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
        self.replace_crashed_process();
    }

    fn replace_crashed_process(&mut self) {
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
