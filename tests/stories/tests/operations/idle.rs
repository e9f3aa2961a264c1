//! Number of calls for an idle cluster.

use std::collections::{BTreeMap, BTreeSet};

use fakes::Fault;
use stories::{Relay, Rig, secs};

use crate::in_service;

#[tokio::test]
async fn idle_minute_is_one_sweep_that_reads_the_ledger_and_sends_no_wake() {
    let mut rig = in_service(3).await;
    rig.pass(secs(1_200)).await;
    let mut quietest: Option<BTreeMap<&str, usize>> = None;
    let mut looks = 0;
    for _ in 0..30 {
        rig.sim.with(|world| world.calls.clear());
        rig.pass(secs(60)).await;
        let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
        for call in rig.sim.with(|world| world.calls.clone()) {
            *calls.entry(call).or_default() += 1;
        }
        looks += calls.get("pods").copied().unwrap_or_default();
        if quietest
            .as_ref()
            .is_none_or(|other| calls.len() < other.len())
        {
            quietest = Some(calls);
        }
    }
    let calls: Vec<&str> = quietest.unwrap_or_default().into_keys().collect();
    let together = [
        "cluster_summaries",
        "clusters",
        "entries",
        "renew_prices",
        "troubles",
    ];
    assert_eq!(calls, together, "the cluster gets no request");
    assert!(
        looks <= 12,
        "every lane has one full look each ten minutes: {looks}"
    );
}

#[tokio::test]
async fn every_pod_gets_its_event_and_few_recent_ones_are_rechecked() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.catalog.clear());
    // More pods than turns write events for in the five minutes before events are repeated.
    rig.scale(400);
    rig.pass(secs(1_200)).await;
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        let pods = events.filter(|event| event.reason == "FailedScheduling");
        pods.map(|event| event.about.clone())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(reported.len(), 400);
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(60)).await;
    let asked = rig.sim.with(|world| {
        let calls = world.calls.iter();
        calls.filter(|call| **call == "once").count()
    });
    assert!(asked <= 60, "few more reads than events: {asked}");
}

#[tokio::test]
async fn refused_event_blocks_no_other() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.catalog.clear());
    rig.sim.fail_next("post_event", Fault::Denied);
    rig.scale(3);
    rig.pass(secs(30)).await;
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        events
            .filter(|event| event.reason == "FailedScheduling")
            .count()
    });
    assert_eq!(reported, 2, "{:#?}", rig.transcript);
}

/// Many refused events cost the API server no more than few.
#[tokio::test]
async fn events_that_are_all_refused_are_tried_a_few_at_a_time() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.catalog.clear());
    for _ in 0..1_000 {
        rig.sim.fail_next("post_event", Fault::Denied);
    }
    rig.scale(100);
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(10)).await;
    let tries = rig.sim.with(|world| {
        let calls = world.calls.iter();
        calls.filter(|call| **call == "post_event").count()
    });
    assert!((1..=10).contains(&tries), "{tries}");
}
