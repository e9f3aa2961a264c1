//! A cluster whose registry entry is deleted is no longer served, and is served again once the entry is back.

use model::{Lane, Wake};
use turns::Outcome;

use super::*;

fn take_entry(rig: &Rig) -> RegistryEntry {
    rig.sim.with(|world| world.registry.remove(0))
}

#[tokio::test]
async fn unregistered_cluster_is_left_alone_and_its_lease_is_released() {
    let mut rig = serving(2).await;
    let before = rig.sim.with(alive);
    take_entry(&rig);
    rig.pass(secs(240)).await;
    assert_eq!(mode(&rig, "demo"), Some(Mode::Shadow));
    assert_eq!(holder(&rig), "");
    rig.scale(0);
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(3_600)).await;
    assert_eq!(rig.sim.with(alive), before, "no further action is taken");
    let asked = rig.sim.with(|world| world.calls.contains(&"connect"));
    assert!(!asked, "the API server gets no request");
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn single_list_without_an_entry_changes_nothing() {
    let mut rig = serving(2).await;
    let taken = take_entry(&rig);
    sweep(&mut rig).await;
    assert_eq!(mode(&rig, "demo"), Some(Mode::Active));
    rig.sim.with(|world| world.registry.push(taken.clone()));
    sweep(&mut rig).await;
    take_entry(&rig);
    sweep(&mut rig).await;
    assert_eq!(
        mode(&rig, "demo"),
        Some(Mode::Active),
        "the counter restarts"
    );
    sweep(&mut rig).await;
    assert_eq!(mode(&rig, "demo"), Some(Mode::Shadow));
}

#[tokio::test]
async fn re_registered_entry_is_served_again() {
    let mut rig = serving(2).await;
    let taken = take_entry(&rig);
    rig.pass(secs(600)).await;
    rig.sim.with(|world| world.registry.push(taken));
    rig.scale(6);
    let bound = rig.until(secs(300), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn empty_registry_list_unregisters_no_cluster() {
    let mut rig = serving(2).await;
    rig.sim.add_cluster("other");
    sweep(&mut rig).await;
    rig.sim.with(|world| world.registry.clear());
    let mut alarms = Vec::new();
    for _ in 0..4 {
        alarms = sweep(&mut rig).await.alarms;
    }
    assert_eq!(mode(&rig, "demo"), Some(Mode::Active));
    let reported =
        |alarm: &String| alarm.starts_with("the registry is empty, but 2 clusters are known");
    assert!(alarms.iter().any(reported), "{alarms:?}");
}

#[tokio::test]
async fn failing_registry_list_unregisters_no_cluster() {
    let mut rig = serving(2).await;
    rig.sim.with(|world| world.down.insert("entries"));
    for _ in 0..4 {
        sweep(&mut rig).await;
    }
    assert_eq!(mode(&rig, "demo"), Some(Mode::Active));
}

#[tokio::test]
async fn unregistering_a_deleted_cluster_ends_its_alarms() {
    let mut rig = serving(2).await;
    rig.sim
        .with(|world| world.deleted = [Rig::cluster()].into());
    assert_ne!(sweep(&mut rig).await.alarms, [""; 0]);
    take_entry(&rig);
    for _ in 0..3 {
        sweep(&mut rig).await;
    }
    let report = sweep(&mut rig).await;
    assert_eq!(report.alarms, [""; 0]);
    assert_eq!(report.problems, [""; 0]);
}

#[tokio::test]
async fn wakes_of_unregistered_clusters_are_consumed_without_effect() {
    let mut rig = serving(1).await;
    take_entry(&rig);
    rig.pass(secs(240)).await;
    for cluster in ["demo", "never-registered"] {
        let wake = Wake::new(cluster.into(), Lane::Provisioner, "relay");
        let (turn, deadline) = (rig.next_turn(), rig.deadline(Lane::Provisioner));
        let report = turns::woken(&rig.world, &wake, &turn, deadline)
            .await
            .unwrap();
        assert_eq!(report.outcome, Outcome::Unregistered);
    }
}
