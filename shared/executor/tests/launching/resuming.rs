//! Launches that other turns left: which of them are resumed, and when they are given up (docs/protocol.md#a3).

use executor::ExecutionOutcome;
use fakes::Fault;
use model::{
    NodeClaimName,
    launch::InstanceState,
    ledger::{Intent, IntentState, Lease},
    node::ConditionStatus,
    node_claim::Condition,
};
use ports::ledger::LaunchLedger;

use crate::{TestCluster, failures, launch};

impl TestCluster {
    fn intents(&self) -> Vec<Intent> {
        self.sim.with(|world| {
            let rows = world.ledger.of(&self.cluster);
            rows.intents.values().cloned().collect()
        })
    }

    /// A launch that another turn left after it had created the NodeClaim.
    async fn claim(&self, claim: &str) {
        let intent = self.intend(launch(claim));
        let created = ports::Cluster::create_node_claim(&self.sim, &intent.launch).await;
        let uid = created.unwrap().uid;
        self.change(claim, |intent| {
            intent.state = IntentState::Claimed { uid, attempt: 1 };
        });
    }

    fn change(&self, claim: &str, change: impl FnOnce(&mut Intent)) {
        self.sim.with(|world| {
            let rows = world.ledger.of(&self.cluster);
            change(rows.intents.get_mut(&claim.into()).unwrap());
        });
    }
}

#[tokio::test]
async fn withdrawn_launch_is_void_and_not_resumed() {
    let test_cluster = TestCluster::new().await;
    let intents = [test_cluster.intend(launch("a"))];
    let executor = test_cluster.executor();
    let withdrawn = executor.withdraw(&intents, "its node stays");
    withdrawn.await.unwrap();
    let state = test_cluster.state("a");
    assert!(
        matches!(&state, IntentState::Void { why } if why == "its node stays"),
        "{state:?}"
    );
    let outcome = test_cluster.resumed_after(60).await;
    assert!(outcome.launched.is_empty(), "{outcome:#?}");
    test_cluster.sim.with(|world| {
        assert!(world.account.requests.is_empty());
        assert!(world.api.node_claims.is_empty());
    });
}

#[tokio::test]
async fn a3_finished_or_leased_launch_is_not_resumed() {
    let test_cluster = TestCluster::new().await;
    for claim in ["held", "over"] {
        test_cluster.intend(launch(claim));
    }
    test_cluster.change("held", |intent| {
        intent.lease = Some(Lease {
            owner: "another".into(),
            until: jiff::Timestamp::MAX,
        });
    });
    test_cluster.change("over", |intent| {
        intent.state = IntentState::Failed { why: "x".into() };
        intent.lease = None;
    });
    let before = test_cluster.intents();
    let outcome = test_cluster.resumed_after(60).await;
    assert!(outcome.launched.is_empty() && outcome.unfinished.is_empty());
    assert_eq!(test_cluster.intents(), before);
}

#[tokio::test]
async fn a3_intent_older_than_launch_timeout_is_not_begun() {
    let why = "its launch did not begin within the launch timeout";
    for (seconds, ends) in [(299, vec![]), (300, vec![("a", why)])] {
        let test_cluster = TestCluster::new().await;
        test_cluster.intend(launch("a"));
        let outcome = test_cluster.resumed_after(seconds).await;
        assert_eq!(failures(&outcome), ends, "{seconds}");
        assert_eq!(outcome.launched.len(), 1 - ends.len(), "{seconds}");
    }
}

#[tokio::test]
async fn a3_claimed_launch_is_resumed_after_launch_timeout() {
    let test_cluster = TestCluster::new().await;
    test_cluster.claim("a").await;
    let outcome = test_cluster.resumed_after(600).await;
    assert_eq!(outcome.launched.len(), 1, "{outcome:#?}");
}

#[tokio::test]
async fn a3_attempt_of_dead_instance_reports_ec2_state_reason() {
    for (reason, expected) in [
        (Some("Client.InternalError"), "Client.InternalError"),
        (None, "no reason given"),
    ] {
        let test_cluster = TestCluster::unanswered(&["a"]).await;
        let id = test_cluster.instances().remove(0);
        test_cluster.sim.with(|world| {
            let instance = world.account.instances.get_mut(&id).unwrap();
            instance.state = InstanceState::Terminated;
            instance.state_reason = reason.map(str::to_owned);
        });
        let outcome = test_cluster.resumed_after(60).await;
        assert_eq!(outcome.unfinished, [NodeClaimName::from("a")]);
        let problem = format!("NodeClaim a: {id} ended: {expected}");
        assert_eq!(outcome.problems, [problem]);
    }
}

#[tokio::test]
async fn a3_failed_attempt_keeps_launched_condition_of_another_turn() {
    let test_cluster = TestCluster::new().await;
    test_cluster.claim("a").await;
    test_cluster.sim.with(|world| {
        let now = world.now;
        let claim = world.api.node_claims.get_mut(&"a".into()).unwrap();
        claim.status.conditions.push(Condition {
            kind: "Launched".into(),
            status: ConditionStatus::True,
            reason: "Launched".into(),
            message: String::new(),
            last_transition: now,
            observed_generation: None,
        });
    });
    test_cluster.sim.fail_next("launch", Fault::Denied);
    test_cluster.resumed_after(60).await;
    assert!(test_cluster.node_claim("a").is_true("Launched"));
}

fn launched(outcome: &ExecutionOutcome) -> Vec<&str> {
    let launched = outcome.launched.iter();
    launched.map(|(claim, _)| claim.as_str()).collect()
}

#[tokio::test]
async fn unreadable_launch_blocks_no_sibling_and_keeps_its_call_open() {
    for fault in [Fault::LostAnswer, Fault::Unavailable] {
        let test_cluster = TestCluster::without_answer(&["a", "b"], fault).await;
        let spoil = |world: &mut fakes::World| world.ledger.spoil("CLUSTER#demo", "INTENT#b");
        let spoilt = test_cluster.sim.with(spoil);
        let open = async || {
            let calls = test_cluster.sim.open_calls(&test_cluster.cluster);
            calls.await.unwrap().len()
        };
        for expected in [vec!["a"], vec![]] {
            let outcome = test_cluster.resumed_after(60).await;
            assert_eq!(launched(&outcome), expected, "{fault:?}: {outcome:#?}");
            assert_eq!(open().await, 1, "{fault:?}: b may own an instance");
        }
        test_cluster.sim.with(|world| world.ledger.mend(&spoilt));
        let outcome = test_cluster.resumed_after(60).await;
        assert_eq!(launched(&outcome), ["b"], "{fault:?}: {outcome:#?}");
        assert_eq!(open().await, 0, "{fault:?}");
        assert_eq!(test_cluster.instances().len(), 2, "{fault:?}");
    }
}
