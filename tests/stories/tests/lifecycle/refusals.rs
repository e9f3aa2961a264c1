//! An instance or object whose change is denied blocks no other, and the denial is reported on its owner.

use fakes::{Admission, Protected, Protection, World};
use model::{
    InstanceId, InterruptionKind, Lane, NodeName, PodKey, node::ConditionStatus,
    node_claim::NodeClaim,
};
use ports::cluster::EventTarget;
use stories::{Rig, add_stray, all_bound, secs};

use crate::{
    change_claim, change_node, claim, count, delete_claim, is_gone, serving, serving_apart,
};

pub(crate) fn instance(claim: &NodeClaim) -> InstanceId {
    claim.status.provider_id.rsplit('/').next().unwrap().into()
}

fn node_name(claim: &NodeClaim) -> NodeName {
    claim.status.node_name.clone().unwrap()
}

pub(crate) fn claims(rig: &Rig) -> Vec<NodeClaim> {
    rig.sim
        .with(|world| world.api.node_claims.values().cloned().collect())
}

fn protect(rig: &Rig, claim: &NodeClaim, why: Protection) {
    rig.sim
        .with(|world| world.account.protected.insert(instance(claim), why));
}

pub(crate) fn freeze(rig: &Rig, object: Protected, how: Admission) {
    rig.sim
        .with(|world| world.api.protected.insert(object, how));
}

/// Messages of the events with this reason on the object of this name.
pub(crate) fn events(rig: &Rig, reason: &str, name: &str) -> Vec<String> {
    rig.sim.with(|world| {
        let events = world.api.events.iter();
        let own = events.filter(|event| {
            let about = match &event.about {
                EventTarget::Node(node, _) => node.as_str() == name,
                EventTarget::NodeClaim(claim, _) => claim.as_str() == name,
                EventTarget::Pod(pod, _) => pod.name.as_str() == name,
                EventTarget::NodePool(pool, _) => pool.as_str() == name,
                EventTarget::NodeClass(class, _) => class == name,
                EventTarget::CapacityBuffer(..) => false,
            };
            about && event.reason == reason
        });
        own.map(|event| event.message.clone()).collect()
    })
}

#[tokio::test]
async fn instance_that_cannot_be_terminated_blocks_no_other_and_is_reported() {
    for (why, code, remedy) in [
        (
            Protection::Termination,
            "OperationNotPermitted",
            "disableApiTermination",
        ),
        (
            Protection::Unauthorized,
            "UnauthorizedOperation",
            "eks:eks-cluster-name",
        ),
        (Protection::State, "IncorrectInstanceState", "state"),
    ] {
        let mut rig = serving_apart(3).await;
        let [kept, first, second] = &claims(&rig)[..] else {
            panic!("{:#?}", rig.transcript)
        };
        protect(&rig, kept, why);
        for claim in [kept, first, second] {
            delete_claim(&rig, &claim.name);
        }
        for claim in [first, second] {
            let gone = rig.until(secs(300), is_gone(claim)).await;
            assert!(gone.is_some(), "{code}: {:#?}", rig.transcript);
        }
        assert!(!rig.sim.with(is_gone(kept)));
        for name in [kept.name.as_str(), node_name(kept).as_str()] {
            let reported = events(&rig, "TerminationRefused", name);
            let is_reported = |message: &String| {
                message.contains(instance(kept).as_str())
                    && message.contains(code)
                    && message.contains(remedy)
            };
            assert!(
                reported.iter().any(is_reported),
                "{code}: {name}: {reported:?}"
            );
        }
        rig.sim.with(|world| world.account.protected.clear());
        let gone = rig.until(secs(20 * 60), is_gone(kept)).await;
        assert!(gone.is_some(), "{code}: {:#?}", rig.transcript);
        assert!(rig.until(secs(300), all_bound).await.is_some());
    }
}

#[tokio::test]
async fn refused_termination_is_retried_with_backoff() {
    let mut rig = serving(2).await;
    let kept = claim(&rig);
    protect(&rig, &kept, Protection::Termination);
    delete_claim(&rig, &kept.name);
    rig.pass(secs(3_600)).await;
    let first_hour = count(&rig, "terminate");
    assert!((5..=20).contains(&first_hour), "{first_hour}");
    rig.pass(secs(3_600)).await;
    let second_hour = count(&rig, "terminate") - first_hour;
    assert!((3..=5).contains(&second_hour), "{second_hour}");
}

#[tokio::test]
async fn orphan_that_cannot_be_terminated_blocks_no_collection() {
    let mut rig = serving_apart(20).await;
    let stray = rig.sim.with(add_stray);
    let lost = claim(&rig);
    rig.sim.with(|world| {
        world
            .account
            .protected
            .insert(stray.clone(), Protection::Termination);
        let own = world.account.instances.get_mut(&instance(&lost)).unwrap();
        own.state = model::launch::InstanceState::Terminated;
        own.private_dns = None;
    });
    let name = node_name(&lost);
    change_node(&rig, &name, |node| {
        node.ready.status = ConditionStatus::Unknown
    });
    let gone = rig.until(secs(900), is_gone(&lost)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    assert!(
        rig.sim
            .with(|world| world.account.instances[&stray].state.is_alive())
    );
    rig.sim.with(|world| world.account.protected.clear());
    let is_ended = move |world: &mut World| !world.account.instances[&stray].state.is_alive();
    assert!(rig.until(secs(20 * 60), is_ended).await.is_some());
}

#[tokio::test]
async fn existing_instance_that_ec2_neither_lists_nor_terminates_keeps_its_node_claim() {
    let mut rig = serving(2).await;
    let kept = claim(&rig);
    protect(&rig, &kept, Protection::Unauthorized);
    rig.sim.with(|world| {
        world.account.describe_lag = secs(7_200);
        let own = world.account.instances.get_mut(&instance(&kept)).unwrap();
        own.private_dns = None;
    });
    let name = node_name(&kept);
    change_node(&rig, &name, |node| {
        node.ready.status = ConditionStatus::Unknown
    });
    rig.pass(secs(60)).await;
    delete_claim(&rig, &kept.name);
    rig.pass(secs(600)).await;
    let stays = rig
        .sim
        .with(|world| world.api.node_claims.contains_key(&kept.name));
    assert!(stays, "the instance still runs: {:#?}", rig.transcript);
}

#[tokio::test]
async fn immutable_objects_of_an_interrupted_node_block_no_other_drain() {
    for how in [
        Admission::Denied,
        Admission::Invalid,
        Admission::WebhookDown,
    ] {
        let mut rig = serving_apart(2).await;
        let [frozen, other] = &claims(&rig)[..] else {
            panic!("{:#?}", rig.transcript)
        };
        freeze(&rig, Protected::NodeClaim(frozen.name.clone()), how);
        freeze(&rig, Protected::Node(node_name(frozen)), how);
        let spot = InterruptionKind::SpotInterrupted;
        rig.announce(&instance(frozen), spot, Some(secs(3_600)))
            .await
            .unwrap();
        delete_claim(&rig, &other.name);
        let gone = rig.until(secs(300), is_gone(other)).await;
        assert!(gone.is_some(), "{:#?}", rig.transcript);
        let reported = events(&rig, "ChangeRefused", frozen.name.as_str());
        assert!(
            reported.iter().any(|text| text.contains("forensics")),
            "{reported:?}"
        );
        rig.sim.with(|world| world.api.protected.clear());
        let gone = rig.until(secs(600), is_gone(frozen)).await;
        assert!(gone.is_some(), "{:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn node_that_cannot_be_tainted_loses_no_pod_to_eviction() {
    let mut rig = serving_apart(2).await;
    let [frozen, other] = &claims(&rig)[..] else {
        panic!("{:#?}", rig.transcript)
    };
    freeze(&rig, Protected::Node(node_name(frozen)), Admission::Denied);
    let name = node_name(frozen);
    // The deletion was requested before the policy existed.
    rig.sim.with(|world| {
        world.api.request_node_deletion(&name, world.now);
        world.api.request_deletion(&frozen.name, world.now);
    });
    delete_claim(&rig, &other.name);
    let gone = rig.until(secs(300), is_gone(other)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let mut pods = world.api.pods.values();
        let stays = pods.any(|pod| pod.node_name == Some(name.clone()) && pod.deletion.is_none());
        assert!(stays, "the workload would create new pods");
    });
    assert!(!events(&rig, "ChangeRefused", name.as_str()).is_empty());
}

#[tokio::test]
async fn pod_whose_eviction_is_denied_blocks_no_other_of_its_node() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    let node = node_name(&old);
    let pods: Vec<PodKey> = rig.sim.with(|world| {
        let pods = world.api.pods.values();
        let own = pods.filter(|pod| pod.node_name.as_ref() == Some(&node));
        own.map(|pod| pod.key.clone()).collect()
    });
    let [frozen, others @ ..] = &pods[..] else {
        panic!("{pods:?}")
    };
    assert!(!others.is_empty());
    freeze(&rig, Protected::Pod(frozen.clone()), Admission::Denied);
    delete_claim(&rig, &old.name);
    let moved = |world: &mut World| others.iter().all(|pod| !world.api.pods.contains_key(pod));
    assert!(
        rig.until(secs(120), moved).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(rig.sim.with(|world| world.api.pods.contains_key(frozen)));
    assert!(!events(&rig, "ChangeRefused", &frozen.name).is_empty());
}

#[tokio::test]
async fn immutable_node_claim_blocks_no_registration_of_another() {
    let mut rig = serving_apart(1).await;
    rig.sim.with(|world| world.api.closed = true);
    rig.scale(3);
    let launched = |world: &mut World| world.account.alive().count() == 3;
    assert!(rig.until(secs(60), launched).await.is_some());
    rig.pass(secs(20)).await;
    let all = claims(&rig);
    let frozen = all.iter().find(|claim| claim.status.node_name.is_none());
    let frozen = frozen.unwrap().clone();
    freeze(
        &rig,
        Protected::NodeClaim(frozen.name.clone()),
        Admission::Denied,
    );
    freeze(
        &rig,
        Protected::NodePool("default".into()),
        Admission::Denied,
    );
    rig.sim.with(|world| world.api.closed = false);
    let others = |world: &mut World| {
        let claims = world.api.node_claims.values();
        let mut others = claims.filter(|claim| claim.name != frozen.name);
        others.all(|claim| claim.is_true("Initialized"))
    };
    assert!(
        rig.until(secs(300), others).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    for name in [frozen.name.as_str(), "default"] {
        let reported = events(&rig, "ChangeRefused", name);
        assert!(!reported.is_empty(), "{name}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn node_claim_whose_deletion_is_denied_blocks_no_consolidation() {
    let mut rig = serving_apart(3).await;
    let frozen = claim(&rig);
    freeze(
        &rig,
        Protected::NodeClaim(frozen.name.clone()),
        Admission::Denied,
    );
    rig.scale(0);
    let others = |world: &mut World| world.api.node_claims.len() == 1;
    assert!(
        rig.until(secs(900), others).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(
        rig.sim
            .with(|world| world.api.node_claims.contains_key(&frozen.name))
    );
}

/// Generation of the ledger, and number of lifecycle and disruption turns in the journal.
fn recorded(rig: &Rig) -> (u64, usize) {
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        let generation = rows.meta.as_ref().map_or(0, |meta| meta.generation);
        let lanes = [Lane::Lifecycle, Lane::Disruption];
        let records = rows.journal.keys();
        let records = records.filter(|(_, _, lane)| lanes.contains(lane));
        (generation, records.count())
    })
}

#[tokio::test]
async fn permanently_denied_deletion_is_recorded_once_and_retried_with_backoff() {
    for how in [
        Admission::Denied,
        Admission::Invalid,
        Admission::WebhookDown,
    ] {
        let mut rig = serving(2).await;
        let frozen = claim(&rig);
        freeze(&rig, Protected::NodeClaim(frozen.name.clone()), how);
        change_claim(&rig, &frozen.name, |claim| {
            claim.spec.expire_after = Some("1s".into());
        });
        // The displaced pods have another node by then.
        rig.pass(secs(1_200)).await;
        let (generation, records) = recorded(&rig);
        let tries = count(&rig, "delete_node_claim");
        let transactions = rig
            .sim
            .with(|world| world.ledger.table().counts().transactions);
        assert!(tries > 0, "{how:?}: {:#?}", rig.transcript);
        rig.pass(secs(3_600)).await;
        let (then, after) = recorded(&rig);
        assert_eq!(then, generation, "{how:?}: {:#?}", rig.transcript);
        assert!(after - records <= 15, "{how:?}: {}", after - records);
        let again = count(&rig, "delete_node_claim") - tries;
        assert!((3..=12).contains(&again), "{how:?}: {again}");
        let more = rig
            .sim
            .with(|world| world.ledger.table().counts().transactions)
            - transactions;
        assert!(more < 60, "{how:?}: {more} transactions");
        let reported = events(&rig, "ChangeRefused", frozen.name.as_str());
        assert!(!reported.is_empty(), "{how:?}");
        rig.sim.with(|world| world.api.protected.clear());
        let gone = rig.until(secs(20 * 60), is_gone(&frozen)).await;
        assert!(gone.is_some(), "{how:?}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn node_missing_in_lists_is_not_terminated_under_its_pods() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    rig.sim
        .with(|world| world.api.unlisted_nodes.insert(node_name(&old)));
    delete_claim(&rig, &old.name);
    rig.pass(secs(300)).await;
    let lives = rig
        .sim
        .with(|world| world.account.instances[&instance(&old)].state.is_alive());
    assert!(lives, "{:#?}", rig.transcript);
    rig.sim.with(|world| world.api.unlisted_nodes.clear());
    let gone = rig.until(secs(600), is_gone(&old)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn pods_of_a_node_that_cannot_register_get_another_after_the_timeout() {
    let mut rig = serving_apart(1).await;
    // The next node has this name.
    let frozen = Protected::Node("ip-10-0-0-2.ec2.internal".into());
    freeze(&rig, frozen, Admission::Denied);
    rig.scale(2);
    let launched = rig.until(secs(60), |world| world.account.alive().count() == 2);
    assert!(launched.await.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(15 * 60 - 30)).await;
    assert!(!rig.sim.with(all_bound), "the node may still register");
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}
