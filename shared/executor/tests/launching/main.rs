//! The rules of launching and committing (docs/protocol.md#launching, docs/protocol.md#committing) with an executor alone:
//! launches from their commit to their instances.
#![expect(clippy::unwrap_used, reason = "fixtures are known to be valid")]

mod assigning;
mod committing;
mod reserving;
mod resuming;
mod sending;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use executor::{ExecutionOutcome, Executor, LaunchInputs, ResolvedNodeClass};
use fakes::{Fault, Sim, World};
use jiff::SignedDuration;
use model::{
    ClusterName, FreeAddresses, InstanceId, Lane, NodeClassName,
    ids::TurnId,
    ledger::{Intent, IntentState, Mode},
    node_claim::{NodeClaim, NodeClaimSpec, NodeClassRef},
    plan::Launch,
};
use ports::{
    Launches,
    cluster::LeaderLease,
    ledger::{ClusterLedger, LaunchLedger},
};

/// An active cluster led by this stack, and one turn at work in it.
struct TestCluster {
    sim: Sim,
    cluster: ClusterName,
    turn: TurnId,
    classes: BTreeMap<NodeClassName, ResolvedNodeClass>,
}

impl TestCluster {
    async fn new() -> Self {
        let (sim, cluster) = (Sim::new("demo"), ClusterName::from("demo"));
        let registry = serde_json::json!({"mode": "active"});
        sim.mirror_registry(&cluster, &registry, &Mode::Active)
            .await
            .unwrap();
        let types = sim.with(|world| {
            world.api.leader = Some(LeaderLease {
                holder: "us".into(),
                renewed_at: Some(world.now),
                duration_seconds: 3_600,
                resource_version: None,
            });
            world.catalog.to_vec()
        });
        let class = ResolvedNodeClass {
            object: fakes::node_class("default"),
            types: Arc::new(types),
        };
        Self {
            sim,
            cluster,
            turn: "turn".into(),
            classes: BTreeMap::from([("default".into(), class)]),
        }
    }

    /// Launches under way whose call got no answer, though it launched an instance for each.
    async fn unanswered(claims: &[&str]) -> Self {
        Self::without_answer(claims, Fault::LostAnswer).await
    }

    /// Launches under way whose call failed.
    async fn without_answer(claims: &[&str], fault: Fault) -> Self {
        let test_cluster = Self::new().await;
        let intents = claims
            .iter()
            .map(|claim| test_cluster.intend(launch(claim)));
        let intents: Vec<Intent> = intents.collect();
        test_cluster.sim.fail_next("launch", fault);
        let outcome = test_cluster.launch(intents).await;
        assert_eq!(outcome.unfinished.len(), claims.len(), "{outcome:#?}");
        test_cluster
    }

    fn executor(&self) -> Executor<'_> {
        Executor {
            cluster: &self.cluster,
            turn: &self.turn,
            lane: Lane::Provisioner,
            holder: "us",
            uid: None,
            cloud: &self.sim,
            api: &self.sim,
            ledger: &self.sim,
            clock: &self.sim,
            deadline: self.sim.with(|world| world.now) + SignedDuration::from_secs(30),
            launch_timeout: SignedDuration::from_secs(300),
        }
    }

    /// Commits to a launch now, leased to the turn.
    fn intend(&self, launch: Launch) -> Intent {
        let lease = self.executor().lease();
        self.sim.with(|world| {
            let intent = Intent {
                plan: "plan".into(),
                generation: 1,
                launch,
                state: IntentState::Intended,
                lease: Some(lease),
                committed_at: world.now,
            };
            let rows = world.ledger.of(&self.cluster);
            rows.intents.insert(intent.name().clone(), intent.clone());
            intent
        })
    }

    async fn launch(&self, intents: Vec<Intent>) -> ExecutionOutcome {
        let builder = self.builder().await;
        let inputs = self.inputs(&*builder);
        self.executor().launch(intents, &inputs).await
    }

    /// ExecutionOutcome of a turn that resumes this many seconds later.
    async fn resumed_after(&self, seconds: i64) -> ExecutionOutcome {
        self.sim
            .with(|world| world.now += SignedDuration::from_secs(seconds));
        let intents = self.sim.intents(&self.cluster).await.unwrap();
        let builder = self.builder().await;
        let inputs = self.inputs(&*builder);
        self.executor()
            .resume(&intents, &BTreeSet::new(), &inputs)
            .await
            .unwrap()
    }

    async fn builder(&self) -> Box<dyn ports::LaunchBuilder> {
        let entry = serde_json::Value::Null;
        self.sim.prepare(&self.cluster, &entry).await.unwrap()
    }

    fn inputs<'a>(&'a self, builder: &'a dyn ports::LaunchBuilder) -> LaunchInputs<'a> {
        LaunchInputs {
            builder,
            classes: &self.classes,
            overlaid: BTreeMap::new(),
            free_addresses: FreeAddresses::default(),
            existing: BTreeMap::new(),
        }
    }

    fn state(&self, claim: &str) -> IntentState {
        self.sim.with(|world| {
            let intents = &world.ledger.of(&self.cluster).intents;
            intents.get(&claim.into()).unwrap().state.clone()
        })
    }

    fn node_claim(&self, claim: &str) -> NodeClaim {
        let claims = self.sim.with(|world| world.api.node_claims.clone());
        claims.get(&claim.into()).unwrap().clone()
    }

    /// All existing instances, by id.
    fn instances(&self) -> Vec<InstanceId> {
        let ids = |world: &mut World| world.account.instances.keys().cloned().collect();
        self.sim.with(ids)
    }
}

fn launch(claim: &str) -> Launch {
    Launch {
        spec: NodeClaimSpec {
            node_class: NodeClassRef {
                name: "default".into(),
                ..NodeClassRef::default()
            },
            ..NodeClaimSpec::default()
        },
        ..fakes::launch("default", claim)
    }
}

fn failures(outcome: &ExecutionOutcome) -> Vec<(&str, &str)> {
    let failed = outcome.failed.iter();
    failed
        .map(|failed| (failed.claim.as_str(), failed.why.as_str()))
        .collect()
}
