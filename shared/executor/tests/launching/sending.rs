//! Launches that share a call, and those that are not requested from EC2 (docs/protocol.md#a2).

use std::sync::Arc;

use api::{conditions::types::LAUNCHED, karpenter::EnclaveOptions};
use fakes::Fault;
use jiff::SignedDuration;
use model::{
    CapacityType, PodKey,
    budget::{Api, Priority},
    ledger::{Call, Intent, IntentState},
    node::ConditionStatus,
    plan::{Launch, PodRef},
    pod::{Deletion, Pod},
    requirement::Requirement,
    selector::Operator,
};
use ports::Ledger;

use crate::{Scene, failures, launch};

#[tokio::test]
async fn a2_a_call_has_no_more_members_than_one_transaction_can_freeze() {
    let scene = Scene::new().await;
    let claims = (0..=Call::MEMBERS_MAX).map(|number| format!("claim-{number:02}"));
    let intents: Vec<Intent> = claims.map(|claim| scene.intend(launch(&claim))).collect();
    let outcome = scene.launch(intents).await;
    assert_eq!(outcome.launched.len(), 91, "{:#?}", outcome.problems);
    let sizes = scene.sim.with(|world| {
        let requests = world.account.requests.iter();
        let sizes = requests.map(|request| request.target_capacity);
        sizes.collect::<Vec<u32>>()
    });
    assert_eq!(sizes, [90, 1]);
}

#[tokio::test]
async fn as_many_calls_as_ec2_takes_at_once_are_under_way_together() {
    let one = takes(1).await;
    assert_eq!(takes(5).await, one);
    assert!(takes(6).await > one, "the sixth waits for one of them");
}

/// Duration of this many launches, each by a call of its own, where every call takes as long.
async fn takes(launches: usize) -> SignedDuration {
    const TYPES: [&str; 3] = ["m5.large", "m5.xlarge", "m5.2xlarge"];
    let scene = Scene::new().await;
    let intents = (1..=launches).map(|number| {
        let types = TYPES.iter().enumerate();
        let types = types.filter(|(at, _)| number >> at & 1 == 1);
        scene.intend(Launch {
            instance_types: types.map(|(_, name)| (*name).into()).collect(),
            ..launch(&format!("claim-{number}"))
        })
    });
    let intents: Vec<Intent> = intents.collect();
    let begun = scene.sim.with(|world| {
        (world.latency, world.overlapping) = (SignedDuration::from_millis(100), true);
        world.now
    });
    let outcome = scene.launch(intents).await;
    assert_eq!(outcome.launched.len(), launches, "{outcome:#?}");
    let calls = scene.sim.with(|world| world.account.requests.len());
    assert_eq!(calls, launches);
    scene.sim.with(|world| world.now).duration_since(begun)
}

#[tokio::test]
async fn a2_launches_that_wait_for_the_budget_of_calls_are_free_for_whoever_comes_next() {
    let scene = Scene::new().await;
    let mut other = launch("b");
    other.instance_types = vec!["m5.xlarge".into()];
    let intents = [launch("a"), other].map(|launch| scene.intend(launch));
    let now = scene.sim.with(|world| {
        world.budgeted = true;
        world.now
    });
    scene
        .sim
        .draw(Api::CreateFleet, u32::MAX, Priority::Provisioning, now)
        .await
        .unwrap();
    let outcome = scene.launch(intents.into()).await;
    let until = outcome.postponed.as_ref().map(|postponed| postponed.until);
    assert!(until.is_some_and(|until| until > now), "{outcome:#?}");
    assert_eq!(outcome.unfinished, ["a".into(), "b".into()]);
    scene.sim.with(|world| {
        assert!(world.account.requests.is_empty());
        let rows = world.ledger.of(&scene.cluster);
        for intent in rows.intents.values() {
            let lease = intent.lease.as_ref();
            assert!(lease.is_none_or(|lease| !lease.is_live(now)), "{intent:#?}");
        }
    });
}

#[tokio::test]
async fn a3_the_next_attempt_has_the_next_number() {
    let scene = Scene::new().await;
    let intent = scene.intend(launch("a"));
    scene.sim.fail_next("launch", Fault::Denied);
    scene.launch(vec![intent]).await;
    let state = scene.state("a");
    assert!(
        matches!(state, IntentState::Claimed { attempt: 2, .. }),
        "{state:?}"
    );
}

#[tokio::test]
async fn a5_a_launch_that_cannot_be_requested_ends_with_its_node_claim() {
    let mut scene = Scene::new().await;
    scene.classes.clear();
    let intent = scene.intend(launch("a"));
    let outcome = scene.launch(vec![intent]).await;
    let why = "EC2NodeClass default does not exist";
    assert_eq!(failures(&outcome), [("a", why)], "{outcome:#?}");
    let claims = scene.sim.with(|world| world.api.node_claims.len());
    assert_eq!(claims, 0);
}

#[tokio::test]
async fn launch_that_its_node_class_refuses_says_why_and_asks_ec2_for_nothing() {
    const ENCLAVES: &str = "eks.amazonaws.com/nitro-sandbox";
    let mut scene = Scene::new().await;
    let class = scene.classes.get_mut(&"default".into()).unwrap();
    class.object.spec.enclave_options = Some(EnclaveOptions { enabled: false });
    let mut wants_enclaves = launch("a");
    wants_enclaves.spec.requests.set(ENCLAVES, 1);
    let intents = [wants_enclaves, launch("b")].map(|launch| scene.intend(launch));
    let outcome = scene.launch(intents.into()).await;
    let launched = scene.node_claim("a").condition(LAUNCHED).cloned().unwrap();
    assert_eq!(launched.status, ConditionStatus::Unknown);
    assert_eq!(launched.reason, "NitroEnclavesDisabled");
    assert!(launched.message.contains(ENCLAVES), "{launched:?}");
    let requests = |scene: &Scene| scene.sim.with(|world| world.account.requests.len());
    assert_eq!(requests(&scene), 1, "of the other");
    assert!(scene.node_claim("b").is_true(LAUNCHED));
    // There was no attempt, so none has ended.
    assert!(outcome.failed.is_empty(), "{outcome:#?}");
    assert_eq!(outcome.unfinished, ["a".into()]);
    let state = scene.state("a");
    assert!(
        matches!(state, IntentState::Claimed { attempt: 1, .. }),
        "{state:?}"
    );
    let class = scene.classes.get_mut(&"default".into()).unwrap();
    class.object.spec.enclave_options = Some(EnclaveOptions { enabled: true });
    scene.resumed_after(60).await;
    assert!(scene.node_claim("a").is_true(LAUNCHED));
    assert_eq!(requests(&scene), 2);
}

#[tokio::test]
async fn a_node_claim_is_labelled_with_what_its_type_has_one_of() {
    let mut scene = Scene::new().await;
    let class = scene.classes.get_mut(&"default".into()).unwrap();
    let of = |key: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned());
        Requirement::new(key, Operator::In, values)
    };
    for kind in Arc::make_mut(&mut class.types) {
        let more = [
            of("example.com/one", &["a"]),
            of("example.com/two", &["a", "b"]),
        ];
        let more = more.map(|requirement| (requirement.key.clone(), requirement));
        kind.requirements.0.extend(more);
    }
    let intent = scene.intend(launch("a"));
    scene.launch(vec![intent]).await;
    let labels = scene.node_claim("a").labels;
    assert_eq!(labels.get("example.com/one").map(String::as_str), Some("a"));
    assert_eq!(labels.get("example.com/two"), None);
}

#[tokio::test]
async fn only_pods_that_wait_for_a_node_hear_of_missing_capacity() {
    let scene = Scene::new().await;
    let pods = [
        "first",
        "second",
        "third",
        "runs",
        "ends",
        "is-another",
        "is-gone",
    ];
    let references = pods.map(|name| PodRef {
        key: PodKey::new("default", name),
        uid: name.into(),
    });
    scene.sim.with(|world| {
        for reference in references.iter().filter(|pod| pod.key.name != "is-gone") {
            let mut pod = Pod {
                key: reference.key.clone(),
                uid: reference.uid.clone(),
                ..Pod::default()
            };
            match pod.key.name.as_str() {
                "runs" => pod.node_name = Some("node".into()),
                "ends" => {
                    pod.deletion = Some(Deletion {
                        at: world.now,
                        grace_seconds: 30,
                    })
                }
                "is-another" => pod.uid = "new".into(),
                _ => {}
            }
            world.api.pods.insert(pod.key.clone(), pod);
        }
    });
    scene.sim.with(|world| {
        for zone in ["us-east-1a", "us-east-1b"] {
            let of_type = |capacity_type| (capacity_type, "m5.large".into(), zone.into());
            let offerings = [CapacityType::OnDemand, CapacityType::Spot].map(of_type);
            world.account.no_capacity.extend(offerings);
        }
    });
    let intent = scene.intend(Launch {
        pods: references.to_vec(),
        ..launch("claim")
    });
    let outcome = scene.launch(vec![intent]).await;
    assert_eq!(outcome.failed.len(), 1, "{outcome:#?}");
    let told = outcome.events.iter().map(|event| {
        assert_eq!(event.reason, "InsufficientCapacityError");
        event.about.to_string()
    });
    let told: Vec<String> = told.collect();
    let pods = ["first", "second", "third"].map(|name| format!("Pod default/{name}"));
    assert_eq!(told[0], "NodeClaim claim");
    assert_eq!(told[1..], pods);
}
