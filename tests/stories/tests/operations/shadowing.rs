//! NodePools in shadow mode (docs/operations.md#shadow-mode).

use model::{InterruptionKind, journal::Subject};
use ports::{Journal, cluster::Unreadable, journal::JournalQuery};
use stories::{Rig, add_stray, all_bound, secs};
use turns::Report;

use crate::{alive, event_messages, in_service, mode};

/// Actions of the NodePool that the journal records as suppressed.
async fn suppressed_actions(rig: &Rig) -> Vec<String> {
    let wanted = JournalQuery {
        about: None,
        from: jiff::Timestamp::UNIX_EPOCH,
        until: jiff::Timestamp::MAX,
        most: 1_000,
    };
    let found = rig.sim.latest(&Rig::cluster(), &wanted).await.unwrap();
    let reports = found.iter().map(|entry| Report::read(entry).unwrap());
    let lines = reports.flat_map(|report| report.shadowed);
    lines.map(|line| line.text).collect()
}

#[tokio::test]
async fn node_pool_in_shadow_mode_is_planned_without_launches() {
    let mut rig = in_service(1).await;
    mode(&rig, Some("shadow"));
    rig.scale(8);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let suppressed_actions = suppressed_actions(&rig).await;
    assert!(
        suppressed_actions
            .iter()
            .any(|line| line.starts_with("launch default-")),
        "{suppressed_actions:#?}"
    );
    let waiting = event_messages(&rig, "FailedScheduling");
    let why = "NodePool default is paused (all) by annotation whittle.sh/mode: ";
    assert!(
        waiting.iter().any(|reported| reported.contains(why)),
        "{waiting:#?}"
    );
    mode(&rig, Some("active"));
    let bound = rig.until(secs(900), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn shadowed_nodes_stay_and_the_journal_names_disruptions() {
    let mut rig = in_service(1).await;
    mode(&rig, Some("shadow"));
    rig.scale(0);
    rig.pass(secs(20 * 60)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let suppressed_actions = suppressed_actions(&rig).await;
    assert!(!suppressed_actions.is_empty(), "{:#?}", rig.transcript);
    let of_node = rig.sim.with(|world| {
        let claim = world.api.node_claims.values().next().unwrap();
        Subject::NodeClaim(claim.name.clone())
    });
    let wanted = JournalQuery {
        about: Some(of_node),
        from: jiff::Timestamp::UNIX_EPOCH,
        until: jiff::Timestamp::MAX,
        most: 1,
    };
    let found = rig.sim.latest(&Rig::cluster(), &wanted).await.unwrap();
    let last = Report::read(&found[0]).unwrap();
    assert!(!last.shadowed.is_empty(), "the record is found by its node");
    // AWS reclaims the node regardless of its NodePool's mode.
    let instance = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&instance, kind, Some(secs(120)))
        .await
        .unwrap();
    let gone = rig.until(secs(300), |world| alive(world) == 0).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn invalid_mode_is_reported_and_prevents_actions() {
    let mut rig = in_service(1).await;
    mode(&rig, Some("shadwo"));
    rig.scale(8);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let reported = event_messages(&rig, "InvalidAnnotation");
    let part = "whittle.sh/mode is \"shadwo\": expected shadow or active";
    assert!(
        reported.iter().any(|reported| reported.contains(part)),
        "{reported:#?}"
    );
    mode(&rig, None);
    let bound = rig.until(secs(900), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

/// Another controller may manage this NodePool.
#[tokio::test]
async fn orphans_stay_while_their_node_pool_is_in_shadow_mode() {
    for watched in ["shadow", "shadwo"] {
        let mut rig = in_service(1).await;
        mode(&rig, Some(watched));
        rig.sim.with(add_stray);
        rig.pass(secs(900)).await;
        assert_eq!(rig.sim.with(alive), 2, "{watched}: {:#?}", rig.transcript);
        mode(&rig, Some("active"));
        let gone = rig.until(secs(600), |world| alive(world) == 1).await;
        assert!(gone.is_some(), "{watched}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn orphans_stay_while_their_node_pool_is_unreadable() {
    let mut rig = in_service(1).await;
    rig.sim.with(add_stray);
    rig.sim.with(|world| {
        world.api.unreadable_node_pools.push(Unreadable {
            name: "default".to_owned(),
            uid: "uid-default".into(),
            message: "spec.limits is a list: expected a map".to_owned(),
        });
    });
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(alive), 2, "{:#?}", rig.transcript);
    rig.sim
        .with(|world| world.api.unreadable_node_pools.clear());
    let gone = rig.until(secs(600), |world| alive(world) == 1).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}
