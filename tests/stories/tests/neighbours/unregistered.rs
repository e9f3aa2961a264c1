//! A registry entry that goes away puts its cluster to rest, and one that comes back has it served again.

use model::{Lane, Wake};
use turns::Outcome;

use super::*;

fn take_entry(rig: &Rig) -> RegistryEntry {
    rig.sim.with(|world| world.registry.remove(0))
}

#[tokio::test]
async fn cluster_whose_entry_is_gone_is_left_alone_and_its_lease_is_free() {
    let mut rig = serving(2).await;
    let before = rig.sim.with(alive);
    take_entry(&rig);
    rig.pass(secs(240)).await;
    assert_eq!(mode(&rig, "demo"), Some(Mode::Shadow));
    assert_eq!(holder(&rig), "");
    rig.scale(0);
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(3_600)).await;
    assert_eq!(rig.sim.with(alive), before, "nothing is done any more");
    let asked = rig.sim.with(|world| world.calls.contains(&"connect"));
    assert!(!asked, "nobody asks its API server for anything");
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn one_list_without_an_entry_changes_nothing() {
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
        "the count begins anew"
    );
    sweep(&mut rig).await;
    assert_eq!(mode(&rig, "demo"), Some(Mode::Shadow));
}

#[tokio::test]
async fn entry_that_comes_back_is_served_again() {
    let mut rig = serving(2).await;
    let taken = take_entry(&rig);
    rig.pass(secs(600)).await;
    rig.sim.with(|world| world.registry.push(taken));
    rig.scale(6);
    let bound = rig.until(secs(300), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn registry_that_lists_none_of_several_clusters_is_not_believed() {
    let mut rig = serving(2).await;
    rig.sim.add_cluster("other");
    sweep(&mut rig).await;
    rig.sim.with(|world| world.registry.clear());
    let mut alarms = Vec::new();
    for _ in 0..4 {
        alarms = sweep(&mut rig).await.alarms;
    }
    assert_eq!(mode(&rig, "demo"), Some(Mode::Active));
    let told =
        |alarm: &String| alarm.starts_with("the registry is empty, but 2 clusters are known");
    assert!(alarms.iter().any(told), "{alarms:?}");
}

#[tokio::test]
async fn list_that_cannot_be_read_removes_no_entry() {
    let mut rig = serving(2).await;
    rig.sim.with(|world| world.down.insert("entries"));
    for _ in 0..4 {
        sweep(&mut rig).await;
    }
    assert_eq!(mode(&rig, "demo"), Some(Mode::Active));
}

#[tokio::test]
async fn alarms_of_a_deleted_cluster_end_with_its_entry() {
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
async fn wakes_of_clusters_that_are_not_registered_are_done_and_do_nothing() {
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
