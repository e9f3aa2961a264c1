//! Commits of launches, and the number of lost races after which they are given up (docs/protocol.md#c1, docs/protocol.md#c2,
//! docs/protocol.md#a6).

use executor::CommitOutcome;
use fakes::{World, settings};
use model::{
    Action, Plan, PodKey, Snapshot,
    caps::AccountSpending,
    plan::{Planned, PodRef},
    pod::Pod,
};
use ports::ledger::Record;

use crate::{TestCluster, launch};

/// A plan that launches a node for these pods.
fn plan(pods: Vec<PodRef>) -> Plan {
    let mut launch = launch("a");
    launch.pods = pods;
    let actions = vec![Planned {
        action: Action::Launch(Box::new(launch)),
        because: String::new(),
    }];
    Plan {
        actions,
        ..Plan::default()
    }
}

impl TestCluster {
    async fn commit(&self, plan: Plan) -> CommitOutcome {
        let snapshot = self.sim.with(|world| {
            let pods = world.api.pods.values().cloned().collect();
            let meta = world.ledger.of(&self.cluster).meta.as_ref();
            Snapshot {
                generation: meta.unwrap().generation,
                pods,
                ..Snapshot::empty(self.cluster.clone(), world.now, settings())
            }
        });
        let executor = self.executor();
        let commitment = executor.commit(&snapshot, plan, None, &|_, plan| plan);
        commitment.await.unwrap()
    }

    fn calls(&self, name: &str) -> usize {
        self.sim
            .with(|world| world.calls.iter().filter(|call| **call == name).count())
    }
}

#[tokio::test]
async fn c1_intents_carry_the_generation_of_their_commit() {
    let test_cluster = TestCluster::new().await;
    for generation in [1, 2] {
        let CommitOutcome::Committed(committed) = test_cluster.commit(plan(Vec::new())).await
        else {
            panic!("no other turn is at work");
        };
        let intents = committed.intents.iter().map(|intent| intent.generation);
        assert_eq!(committed.generation, generation);
        assert_eq!(intents.collect::<Vec<u64>>(), [generation]);
    }
}

#[tokio::test]
async fn c1_spending_is_not_written_without_caps() {
    let test_cluster = TestCluster::new().await;
    let commitment = test_cluster.commit(plan(Vec::new())).await;
    assert!(
        matches!(commitment, CommitOutcome::Committed(_)),
        "{commitment:?}"
    );
    test_cluster
        .sim
        .with(|world| assert_eq!(world.ledger.spending, AccountSpending::default()));
}

/// Another turn commits a plan at each of this turn's attempts.
fn another_plan(world: &mut World) {
    let rows = world.ledger.of(&"demo".into());
    let meta = rows.meta.as_mut().unwrap();
    meta.generation += 1;
    rows.records.push(Record::Plan {
        generation: meta.generation,
        plan: Box::default(),
    });
    world.on_call = Some(("commit", another_plan));
}

#[tokio::test]
async fn c2_commit_is_lost_after_three_races_with_plans() {
    let test_cluster = TestCluster::new().await;
    test_cluster
        .sim
        .with(|world| world.on_call = Some(("commit", another_plan)));
    let commitment = test_cluster.commit(plan(Vec::new())).await;
    assert!(matches!(commitment, CommitOutcome::Lost), "{commitment:?}");
    assert_eq!(test_cluster.calls("commit"), 3);
}

#[tokio::test]
async fn a6_few_pods_are_read_one_by_one_and_many_are_listed() {
    for (count, lists, reads) in [(20, 0, 20), (21, 1, 0)] {
        let test_cluster = TestCluster::new().await;
        let pods = (0..count).map(|number| PodRef {
            key: PodKey::new("default", format!("pod-{number}")),
            uid: format!("uid-{number}").into(),
        });
        let pods: Vec<PodRef> = pods.collect();
        test_cluster.sim.with(|world| {
            for PodRef { key, uid } in pods.iter().cloned() {
                let pod = Pod {
                    key: key.clone(),
                    uid,
                    ..Pod::default()
                };
                world.api.pods.insert(key, pod);
            }
        });
        let commitment = test_cluster.commit(plan(pods)).await;
        assert!(
            matches!(commitment, CommitOutcome::Committed(_)),
            "{commitment:?}"
        );
        let calls = (
            test_cluster.calls("unassigned_pods"),
            test_cluster.calls("pod"),
        );
        assert_eq!(calls, (lists, reads), "of {count} pods");
    }
}
