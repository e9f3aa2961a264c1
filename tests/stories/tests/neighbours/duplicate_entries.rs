//! Two registry entries for one API server: one of them is served.

use super::*;

#[tokio::test]
async fn duplicate_registry_entry_of_an_api_server_is_rejected_in_any_spelling() {
    for second in [
        entry("demo2", "eks", ""),
        entry("demo2", "endpoint", "https://other.example.com"),
        entry("demo2", "endpoint", "https://127.0.0.1:443"),
        entry("demo2", "endpoint", "HTTPS://127.0.0.1/"),
    ] {
        let mut rig = serving(2).await;
        rig.sim
            .with(|world| world.registry.insert(0, second.clone()));
        let mut alarms = Vec::new();
        for _ in 0..3 {
            alarms = sweep(&mut rig).await.alarms;
        }
        let names_both = |alarm: &String| {
            alarm.starts_with("registry entry of demo2: ")
                && alarm.contains("is that of demo, too")
                && alarm.ends_with("unregister one of them")
        };
        assert!(alarms.iter().any(names_both), "{second:?}: {alarms:?}");
        assert_eq!(mode(&rig, "demo2"), Some(Mode::Shadow));
        assert_eq!(mode(&rig, "demo"), Some(Mode::Active));
        assert!(
            holder(&rig).ends_with("/demo/uid-of-demo"),
            "{}",
            holder(&rig)
        );
    }
}

#[tokio::test]
async fn lanes_of_two_entries_for_one_api_server_never_both_lead() {
    let mut rig = serving(2).await;
    let before = rig.sim.with(|world| world.account.requests.len());
    rig.sim
        .with(|world| world.registry.push(entry("demo2", "eks", "")));
    rig.scale(8);
    rig.pass(secs(600)).await;
    assert!(rig.sim.with(all_bound), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let requests = &world.account.requests[before..];
        assert!(!requests.is_empty());
        assert!(requests.iter().all(|request| request.cluster.0 == "demo"));
    });
}

#[tokio::test]
async fn rejected_entry_is_served_once_the_other_is_deleted() {
    let mut rig = serving(2).await;
    rig.sim
        .with(|world| world.registry.push(entry("demo2", "eks", "")));
    rig.pass(secs(180)).await;
    rig.sim.with(|world| world.registry.remove(0));
    rig.pass(secs(600)).await;
    assert_eq!(mode(&rig, "demo"), Some(Mode::Shadow));
    assert_eq!(mode(&rig, "demo2"), Some(Mode::Active));
    assert!(
        holder(&rig).ends_with("/demo2/uid-of-demo"),
        "{}",
        holder(&rig)
    );
}

/// An earlier version of the functions held the Lease in the name of its stack.
#[tokio::test]
async fn lease_of_an_earlier_version_is_renamed_without_interruption() {
    let mut rig = serving(2).await;
    rig.sim.with(|world| {
        let lease = world.api.leader.as_mut().unwrap();
        lease.holder = "whittle/123456789012/us-east-1/test".to_owned();
        world.ledger.of(&Rig::cluster()).meta.as_mut().unwrap().uid = None;
    });
    rig.scale(6);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(600)).await;
    assert!(
        holder(&rig).ends_with("/demo/uid-of-demo"),
        "{}",
        holder(&rig)
    );
}
