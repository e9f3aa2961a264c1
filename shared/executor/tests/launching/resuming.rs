//! Launches that other turns left: which of them are resumed, and when they are given up (docs/protocol.md#a3).

use fakes::Fault;
use model::{
    NodeClaimName,
    launch::InstanceState,
    ledger::{Intent, IntentState, Lease},
    node::ConditionStatus,
    node_claim::Condition,
};

use crate::{Scene, failures, launch};

impl Scene {
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
async fn withdrawn_launch_is_over_and_nobody_takes_it_up() {
    let scene = Scene::new().await;
    let intents = [scene.intend(launch("a"))];
    let executor = scene.executor();
    let withdrawn = executor.withdraw(&intents, "its node stays");
    withdrawn.await.unwrap();
    let state = scene.state("a");
    assert!(
        matches!(&state, IntentState::Void { why } if why == "its node stays"),
        "{state:?}"
    );
    let outcome = scene.resumed_after(60).await;
    assert!(outcome.launched.is_empty(), "{outcome:#?}");
    scene.sim.with(|world| {
        assert!(world.account.requests.is_empty());
        assert!(world.api.node_claims.is_empty());
    });
}

#[tokio::test]
async fn a3_what_is_over_or_in_other_hands_is_not_taken_up() {
    let scene = Scene::new().await;
    for claim in ["held", "over"] {
        scene.intend(launch(claim));
    }
    scene.change("held", |intent| {
        intent.lease = Some(Lease {
            owner: "another".into(),
            until: jiff::Timestamp::MAX,
        });
    });
    scene.change("over", |intent| {
        intent.state = IntentState::Failed { why: "x".into() };
        intent.lease = None;
    });
    let before = scene.intents();
    let outcome = scene.resumed_after(60).await;
    assert!(outcome.launched.is_empty() && outcome.unfinished.is_empty());
    assert_eq!(scene.intents(), before);
}

#[tokio::test]
async fn a3_a_launch_is_not_begun_once_the_launch_time_out_is_over() {
    let why = "it was not begun within the launch time-out";
    for (seconds, ends) in [(299, vec![]), (300, vec![("a", why)])] {
        let scene = Scene::new().await;
        scene.intend(launch("a"));
        let outcome = scene.resumed_after(seconds).await;
        assert_eq!(failures(&outcome), ends, "{seconds}");
        assert_eq!(outcome.launched.len(), 1 - ends.len(), "{seconds}");
    }
}

#[tokio::test]
async fn a3_a_launch_that_was_begun_goes_on_after_the_launch_time_out() {
    let scene = Scene::new().await;
    scene.claim("a").await;
    let outcome = scene.resumed_after(600).await;
    assert_eq!(outcome.launched.len(), 1, "{outcome:#?}");
}

#[tokio::test]
async fn a3_an_attempt_whose_instance_died_says_what_ec2_says_of_it() {
    for (reason, said) in [
        (Some("Client.InternalError"), "Client.InternalError"),
        (None, "no reason given"),
    ] {
        let scene = Scene::unanswered(&["a"]).await;
        let id = scene.instances().remove(0);
        scene.sim.with(|world| {
            let instance = world.account.instances.get_mut(&id).unwrap();
            instance.state = InstanceState::Terminated;
            instance.state_reason = reason.map(str::to_owned);
        });
        let outcome = scene.resumed_after(60).await;
        assert_eq!(outcome.unfinished, [NodeClaimName::from("a")]);
        let problem = format!("NodeClaim a: {id} ended: {said}");
        assert_eq!(outcome.problems, [problem]);
    }
}

#[tokio::test]
async fn a3_an_attempt_that_fails_takes_back_no_instance_that_another_turn_has_shown() {
    let scene = Scene::new().await;
    scene.claim("a").await;
    scene.sim.with(|world| {
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
    scene.sim.fail_next("launch", Fault::Denied);
    scene.resumed_after(60).await;
    assert!(scene.node_claim("a").is_true("Launched"));
}
