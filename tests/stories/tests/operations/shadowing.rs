use model::{InterruptionKind, journal::Subject};
use ports::{Journal, cluster::Unreadable, journal::JournalQuery};
use stories::{Rig, add_stray, all_bound, secs};
use turns::Report;

use crate::{alive, in_service, mode, told};

/// What would have been done for the NodePool, by the journal.
async fn would(rig: &Rig) -> Vec<String> {
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
async fn a_node_pool_in_shadow_mode_is_planned_for_and_nothing_is_launched() {
    let mut rig = in_service(1).await;
    mode(&rig, Some("shadow"));
    rig.scale(8);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let would = would(&rig).await;
    assert!(
        would.iter().any(|line| line.starts_with("launch default-")),
        "{would:#?}"
    );
    let waiting = told(&rig, "FailedScheduling");
    let why = "NodePool default is paused (all) by annotation whittle.sh/mode: ";
    assert!(
        waiting.iter().any(|told| told.contains(why)),
        "{waiting:#?}"
    );
    mode(&rig, Some("active"));
    let bound = rig.until(secs(900), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn its_nodes_stay_and_the_journal_says_which_would_go() {
    let mut rig = in_service(1).await;
    mode(&rig, Some("shadow"));
    rig.scale(0);
    rig.pass(secs(20 * 60)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let would = would(&rig).await;
    assert!(!would.is_empty(), "{:#?}", rig.transcript);
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
    assert!(
        !last.shadowed.is_empty(),
        "the node leads to what would become of it"
    );
    // AWS takes a node back whatever its NodePool's mode.
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
async fn a_mode_that_cannot_be_read_is_told_and_nothing_is_done() {
    let mut rig = in_service(1).await;
    mode(&rig, Some("shadwo"));
    rig.scale(8);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
    let said = told(&rig, "InvalidAnnotation");
    let part = "whittle.sh/mode is \"shadwo\": expected shadow or active";
    assert!(said.iter().any(|told| told.contains(part)), "{said:#?}");
    mode(&rig, None);
    let bound = rig.until(secs(900), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

/// It may be somebody else's who looks after this NodePool.
#[tokio::test]
async fn what_belongs_to_nobody_stays_until_its_node_pool_is_acted_for() {
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
async fn what_belongs_to_nobody_stays_while_its_node_pool_cannot_be_read() {
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
