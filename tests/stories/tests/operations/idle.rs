//! What does not change costs next to nothing: proven by the calls that are made.

use std::collections::{BTreeMap, BTreeSet};

use fakes::Fault;
use stories::{Relay, Rig, secs};

use crate::in_service;

#[tokio::test]
async fn a_quiet_minute_is_one_sweep_that_reads_the_ledger_and_wakes_nobody() {
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
        "clusters",
        "entries",
        "cluster_summaries",
        "renew_prices",
        "troubles",
    ];
    assert_eq!(calls, together, "of the cluster itself nothing is asked");
    assert!(
        looks <= 12,
        "every lane looks at everything each ten minutes, and not more often: {looks}"
    );
}

#[tokio::test]
async fn everybody_is_told_of_in_turn_and_what_was_said_lately_is_asked_at_once() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.catalog.clear());
    // More than turns tell in the five minutes after which the first are told again.
    rig.scale(400);
    rig.pass(secs(1_200)).await;
    let told = rig.sim.with(|world| {
        let events = world.api.events.iter();
        let pods = events.filter(|event| event.reason == "FailedScheduling");
        pods.map(|event| event.about.clone())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(told.len(), 400);
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(60)).await;
    let asked = rig.sim.with(|world| {
        let calls = world.calls.iter();
        calls.filter(|call| **call == "once").count()
    });
    assert!(asked <= 60, "as many as are told, and few more: {asked}");
}

#[tokio::test]
async fn event_that_is_refused_keeps_no_other_from_being_posted() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.catalog.clear());
    rig.sim.fail_next("post_event", Fault::Denied);
    rig.scale(3);
    rig.pass(secs(30)).await;
    let told = rig.sim.with(|world| {
        let events = world.api.events.iter();
        events
            .filter(|event| event.reason == "FailedScheduling")
            .count()
    });
    assert_eq!(told, 2, "{:#?}", rig.transcript);
}

/// What the API server takes no event for costs as little for many events as for few.
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
