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
use ports::ledger::BudgetLedger;

use crate::{TestCluster, failures, launch};

#[tokio::test]
async fn a2_call_has_no_more_members_than_one_transaction_can_freeze() {
    let test_cluster = TestCluster::new().await;
    let claims = (0..=Call::MEMBERS_MAX).map(|number| format!("claim-{number:02}"));
    let intents: Vec<Intent> = claims
        .map(|claim| test_cluster.intend(launch(&claim)))
        .collect();
    let outcome = test_cluster.launch(intents).await;
    assert_eq!(outcome.launched.len(), 91, "{:#?}", outcome.problems);
    let sizes = test_cluster.sim.with(|world| {
        let requests = world.account.requests.iter();
        let sizes = requests.map(|request| request.target_capacity);
        sizes.collect::<Vec<u32>>()
    });
    assert_eq!(sizes, [90, 1]);
}

#[tokio::test]
async fn five_calls_run_concurrently_and_the_sixth_waits() {
    let one = takes(1).await;
    assert_eq!(takes(5).await, one);
    assert!(takes(6).await > one, "the sixth waits for one of them");
}

/// Duration of this many launches, each by a separate call, if every call takes equally long.
async fn takes(launches: usize) -> SignedDuration {
    const TYPES: [&str; 3] = ["m5.large", "m5.xlarge", "m5.2xlarge"];
    let test_cluster = TestCluster::new().await;
    let intents = (1..=launches).map(|number| {
        let types = TYPES.iter().enumerate();
        let types = types.filter(|(at, _)| number >> at & 1 == 1);
        test_cluster.intend(Launch {
            instance_types: types.map(|(_, name)| (*name).into()).collect(),
            ..launch(&format!("claim-{number}"))
        })
    });
    let intents: Vec<Intent> = intents.collect();
    let begun = test_cluster.sim.with(|world| {
        (world.latency, world.overlapping) = (SignedDuration::from_millis(100), true);
        world.now
    });
    let outcome = test_cluster.launch(intents).await;
    assert_eq!(outcome.launched.len(), launches, "{outcome:#?}");
    let calls = test_cluster.sim.with(|world| world.account.requests.len());
    assert_eq!(calls, launches);
    test_cluster
        .sim
        .with(|world| world.now)
        .duration_since(begun)
}

#[tokio::test]
async fn a2_postponed_launches_have_no_live_lease() {
    let test_cluster = TestCluster::new().await;
    let mut other = launch("b");
    other.instance_types = vec!["m5.xlarge".into()];
    let intents = [launch("a"), other].map(|launch| test_cluster.intend(launch));
    let now = test_cluster.sim.with(|world| {
        world.budgeted = true;
        world.now
    });
    test_cluster
        .sim
        .draw(Api::CreateFleet, u32::MAX, Priority::Provisioning, now)
        .await
        .unwrap();
    let outcome = test_cluster.launch(intents.into()).await;
    let until = outcome.postponed.as_ref().map(|postponed| postponed.until);
    assert!(until.is_some_and(|until| until > now), "{outcome:#?}");
    assert_eq!(outcome.unfinished, ["a".into(), "b".into()]);
    test_cluster.sim.with(|world| {
        assert!(world.account.requests.is_empty());
        let rows = world.ledger.of(&test_cluster.cluster);
        for intent in rows.intents.values() {
            let lease = intent.lease.as_ref();
            assert!(lease.is_none_or(|lease| !lease.is_live(now)), "{intent:#?}");
        }
    });
}

#[tokio::test]
async fn a3_next_attempt_increments_the_attempt_number() {
    let test_cluster = TestCluster::new().await;
    let intent = test_cluster.intend(launch("a"));
    test_cluster.sim.fail_next("launch", Fault::Denied);
    test_cluster.launch(vec![intent]).await;
    let state = test_cluster.state("a");
    assert!(
        matches!(state, IntentState::Claimed { attempt: 2, .. }),
        "{state:?}"
    );
}

#[tokio::test]
async fn a5_launch_without_node_class_fails_and_removes_its_node_claim() {
    let mut test_cluster = TestCluster::new().await;
    test_cluster.classes.clear();
    let intent = test_cluster.intend(launch("a"));
    let outcome = test_cluster.launch(vec![intent]).await;
    let why = "EC2NodeClass default does not exist";
    assert_eq!(failures(&outcome), [("a", why)], "{outcome:#?}");
    let claims = test_cluster.sim.with(|world| world.api.node_claims.len());
    assert_eq!(claims, 0);
}

#[tokio::test]
async fn launch_refused_by_node_class_is_explained_and_makes_no_call() {
    const ENCLAVES: &str = "eks.amazonaws.com/nitro-sandbox";
    let mut test_cluster = TestCluster::new().await;
    let class = test_cluster.classes.get_mut(&"default".into()).unwrap();
    class.object.spec.enclave_options = Some(EnclaveOptions { enabled: false });
    let mut wants_enclaves = launch("a");
    wants_enclaves.spec.requests.set(ENCLAVES, 1);
    let intents = [wants_enclaves, launch("b")].map(|launch| test_cluster.intend(launch));
    let outcome = test_cluster.launch(intents.into()).await;
    let launched = test_cluster
        .node_claim("a")
        .condition(LAUNCHED)
        .cloned()
        .unwrap();
    assert_eq!(launched.status, ConditionStatus::Unknown);
    assert_eq!(launched.reason, "NitroEnclavesDisabled");
    assert!(launched.message.contains(ENCLAVES), "{launched:?}");
    let requests =
        |test_cluster: &TestCluster| test_cluster.sim.with(|world| world.account.requests.len());
    assert_eq!(requests(&test_cluster), 1, "of the other");
    assert!(test_cluster.node_claim("b").is_true(LAUNCHED));
    // There was no attempt, so none has ended.
    assert!(outcome.failed.is_empty(), "{outcome:#?}");
    assert_eq!(outcome.unfinished, ["a".into()]);
    let state = test_cluster.state("a");
    assert!(
        matches!(state, IntentState::Claimed { attempt: 1, .. }),
        "{state:?}"
    );
    let class = test_cluster.classes.get_mut(&"default".into()).unwrap();
    class.object.spec.enclave_options = Some(EnclaveOptions { enabled: true });
    test_cluster.resumed_after(60).await;
    assert!(test_cluster.node_claim("a").is_true(LAUNCHED));
    assert_eq!(requests(&test_cluster), 2);
}

#[tokio::test]
async fn node_claim_gets_labels_of_single_valued_requirements() {
    let mut test_cluster = TestCluster::new().await;
    let class = test_cluster.classes.get_mut(&"default".into()).unwrap();
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
    let intent = test_cluster.intend(launch("a"));
    test_cluster.launch(vec![intent]).await;
    let labels = test_cluster.node_claim("a").labels;
    assert_eq!(labels.get("example.com/one").map(String::as_str), Some("a"));
    assert_eq!(labels.get("example.com/two"), None);
}

#[tokio::test]
async fn only_unbound_pods_get_insufficient_capacity_events() {
    let test_cluster = TestCluster::new().await;
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
    test_cluster.sim.with(|world| {
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
    test_cluster.sim.with(|world| {
        for zone in ["us-east-1a", "us-east-1b"] {
            let of_type = |capacity_type| (capacity_type, "m5.large".into(), zone.into());
            let offerings = [CapacityType::OnDemand, CapacityType::Spot].map(of_type);
            world.account.no_capacity.extend(offerings);
        }
    });
    let intent = test_cluster.intend(Launch {
        pods: references.to_vec(),
        ..launch("claim")
    });
    let outcome = test_cluster.launch(vec![intent]).await;
    assert_eq!(outcome.failed.len(), 1, "{outcome:#?}");
    let emitted = outcome.events.iter().map(|event| {
        assert_eq!(event.reason, "InsufficientCapacityError");
        event.about.to_string()
    });
    let emitted: Vec<String> = emitted.collect();
    let pods = ["first", "second", "third"].map(|name| format!("Pod default/{name}"));
    assert_eq!(emitted[0], "NodeClaim claim");
    assert_eq!(emitted[1..], pods);
}
