//! A plan above a limit waits for a person's approval of exactly that plan.

use fakes::World;
use model::{
    InterruptionKind, Lane,
    ledger::{Approval, ApprovalError, Request},
};
use serde_json::json;
use stories::{Rig, all_bound, secs};

use crate::{alive, event_messages, in_service};

fn requests(world: &mut World) -> Vec<Request> {
    world.ledger.of(&Rig::cluster()).requests.clone()
}

/// Approves a request as `whittle approve demo <id>` does.
fn approve(rig: &Rig, id: &str) -> Result<(), ApprovalError> {
    rig.sim.with(|world| {
        let now = world.now;
        let by = "ann".to_owned();
        let until = now + secs(3_600);
        let rows = world.ledger.of(&Rig::cluster());
        (rows.requests, _) = Request::approve(&rows.requests, id, Approval { by, until }, now)?;
        for lane in [Lane::Provisioner, Lane::Disruption] {
            rows.lanes.entry(lane).or_default().due = Some(now);
        }
        Ok(())
    })
}

fn ask_above(rig: &Rig, limits: &serde_json::Value) {
    rig.configure(&json!({"guards": {"approveAbove": limits}}));
}

#[tokio::test]
async fn launches_above_a_limit_wait_for_approval() {
    let mut rig = in_service(1).await;
    ask_above(&rig, &json!({"dollarsPerHour": "0.10"}));
    rig.scale(9);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let waiting = rig.sim.with(requests);
    let [request] = &waiting[..] else {
        panic!("{waiting:?}")
    };
    let how = format!("`whittle approve demo {}`", request.id);
    for reason in ["FailedScheduling", "ApprovalRequired"] {
        let events = event_messages(&rig, reason);
        let named = |event: &String| event.contains("launching ") && event.contains(&how);
        assert!(events.iter().any(named), "{reason}: {events:?}");
    }
    approve(&rig, &request.id).unwrap();
    assert!(
        rig.until(secs(300), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert_eq!(rig.sim.with(requests), [], "an approval counts once");
}

#[tokio::test]
async fn expired_or_unknown_request_cannot_be_approved_and_is_renewed() {
    let mut rig = in_service(1).await;
    ask_above(&rig, &json!({"nodes": 0}));
    rig.scale(9);
    rig.pass(secs(60)).await;
    let first = rig.sim.with(requests).remove(0);
    let now = rig.sim.with(|world| world.now);
    rig.sim
        .with(|world| world.ledger.of(&Rig::cluster()).requests[0].until = now);
    let before = rig.sim.with(requests);
    let expired = approve(&rig, &first.id).unwrap_err().to_string();
    assert!(expired.contains("expired at"), "{expired}");
    let unknown = approve(&rig, "nothing").unwrap_err().to_string();
    assert!(unknown.contains("there is no request nothing"), "{unknown}");
    assert_eq!(rig.sim.with(requests), before, "nothing is changed");
    rig.pass(secs(660)).await;
    let open: Vec<Request> = rig.sim.with(|world| {
        let now = world.now;
        let all = requests(world).into_iter();
        all.filter(|request| request.is_open(now)).collect()
    });
    assert!(matches!(&open[..], [one] if one.id != first.id), "{open:?}");
    assert_eq!(rig.sim.with(alive), 1);
}

#[tokio::test]
async fn plan_within_the_limit_needs_no_approval() {
    let mut rig = in_service(1).await;
    ask_above(&rig, &json!({"dollarsPerHour": "10", "nodes": 5}));
    rig.scale(9);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    assert_eq!(rig.sim.with(requests), []);
}

#[tokio::test]
async fn replacement_of_an_interrupted_node_needs_no_approval() {
    let mut rig = in_service(1).await;
    ask_above(&rig, &json!({"nodes": 0}));
    rig.pass(secs(30)).await;
    let first = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&first, kind, Some(secs(120))).await.unwrap();
    let replaced = rig
        .until(secs(120), |world| {
            world.account.alive().any(|instance| instance.id != first)
        })
        .await;
    assert!(replaced.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn disruption_with_evictions_above_the_limit_waits_for_approval() {
    let mut rig = in_service(1).await;
    ask_above(&rig, &json!({"evictions": 0}));
    let first = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    rig.sim.with(crate::caps::relabel);
    rig.pass(secs(900)).await;
    let is_there = |world: &mut World| world.account.alive().any(|instance| instance.id == first);
    assert!(rig.sim.with(is_there), "{:#?}", rig.transcript);
    let request = rig.sim.with(requests).remove(0);
    assert!(
        request.description.starts_with("evicting 1 pod (Drifted: "),
        "{}",
        request.description
    );
    approve(&rig, &request.id).unwrap();
    let gone = rig.until(secs(600), |world| !is_there(world)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn pending_pod_needs_approval_although_a_draining_node_needs_none() {
    let mut rig = in_service(2).await;
    ask_above(&rig, &json!({"nodes": 0}));
    let old = rig.sim.with(|world| {
        let claim = world.api.node_claims.values().next().unwrap().clone();
        world.api.request_deletion(&claim.name, world.now);
        claim.name
    });
    // More pods than one node holds: pods of a tenant are planned together with the displaced ones.
    rig.scale(9);
    let replaced = |world: &mut World| !world.api.node_claims.contains_key(&old);
    let took = rig.until(secs(300), replaced).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(120)).await;
    let waiting = rig.sim.with(|world| {
        let pods = world.api.pods.values();
        pods.filter(|pod| pod.node_name.is_none()).count()
    });
    assert!(
        waiting > 0,
        "no further node was approved: {:#?}",
        rig.transcript
    );
    assert!(!rig.sim.with(requests).is_empty());
}
