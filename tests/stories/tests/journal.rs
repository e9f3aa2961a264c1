//! What turns leave for later: records that are found by what they are about, and what was seen, to be planned again.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do, by panicking"
)]

use fakes::Fault;
use jiff::Timestamp;
use model::{Lane, journal::Subject};
use ports::{Archive, Journal, journal::JournalQuery};
use stories::{Relay, Rig, all_bound, secs};
use turns::Report;

/// The records of the story, oldest first.
async fn records(rig: &Rig, about: Option<Subject>) -> Vec<Report> {
    let wanted = JournalQuery {
        about,
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
        most: 1_000,
    };
    let found = rig.sim.latest(&Rig::cluster(), &wanted).await.unwrap();
    let mut read: Vec<Report> = found.iter().map(|one| Report::read(one).unwrap()).collect();
    read.reverse();
    read
}

#[tokio::test]
async fn a_pod_can_be_asked_about() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let (pod, node) = rig.sim.with(|world| {
        let pod = world.api.pods.values().next().unwrap();
        (pod.key.clone(), pod.node_name.clone().unwrap())
    });
    let told = records(&rig, Some(Subject::Pod(pod))).await;
    let bought = told.iter().find(|report| !report.launched.is_empty());
    let bought = bought.expect("the turn that bought its node");
    assert_eq!(bought.lane, Lane::Provisioner);
    let mut claim = bought.planned.iter().flat_map(|line| &line.about);
    let claim = claim.find(|one| matches!(one, Subject::NodeClaim(_)));
    let of_node = records(&rig, Some(Subject::Node(node))).await;
    let mut of_node = of_node.iter().flat_map(Report::about);
    assert!(
        of_node.any(|one| Some(one) == claim),
        "the node is found by its name, and leads to its NodeClaim"
    );
}

#[tokio::test]
async fn what_a_turn_saw_is_planned_again_to_the_same_end() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let told = records(&rig, None).await;
    let bought = told.iter().find(|report| !report.launched.is_empty());
    let bought = bought.expect("the turn that bought nodes");
    let name = bought.snapshot.as_ref().expect("what it saw is kept");
    let packed = rig.sim.get(name).await.unwrap().unwrap();
    let snapshot = turns::journal::unpack(&packed).unwrap();
    let plan = planner::provision(&snapshot, rig.world.share);
    let again: Vec<&str> = plan
        .actions
        .iter()
        .map(|one| one.because.as_str())
        .collect();
    assert!(!again.is_empty());
    for (line, because) in bought.planned.iter().zip(&again) {
        assert!(line.ends_with(because), "{line} / {because}");
    }
    assert_eq!(bought.planned.len(), again.len());
}

#[tokio::test]
async fn what_lasts_is_recorded_every_ten_minutes() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        let pools = world.api.node_pools.values_mut();
        for pool in pools {
            pool.spec.limits = Some([("cpu".to_owned(), "0".into())].into());
        }
    });
    rig.scale(1);
    rig.pass(secs(25 * 60)).await;
    let pod = rig
        .sim
        .with(|world| world.api.pods.values().next().unwrap().key.clone());
    let told = records(&rig, Some(Subject::Pod(pod))).await;
    assert!(
        (2..=4).contains(&told.len()),
        "{:#?}",
        told.iter().map(|report| report.at).collect::<Vec<_>>()
    );
    assert!(told.iter().all(|report| report.unplaced.len() == 1));
}

#[tokio::test]
async fn a_quiet_cluster_is_kept_once_an_hour() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(10 * 60)).await;
    let kept = |rig: &Rig| rig.sim.with(|world| world.ledger.archive.len());
    let (before, recorded) = (kept(&rig), records(&rig, None).await.len());
    rig.pass(secs(3 * 3600)).await;
    let snapshots = kept(&rig) - before;
    assert!((2..=4).contains(&snapshots), "{snapshots}");
    let recorded = records(&rig, None).await.len() - recorded;
    assert_eq!(recorded, snapshots, "nothing else was worth a record");
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_stops_nothing() {
    let mut rig = Rig::ready(Relay::Watching).await;
    for call in ["record", "archive"] {
        for _ in 0..20 {
            rig.sim.fail_next(call, Fault::Unavailable);
        }
    }
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let said = rig.transcript.iter().any(|line| line.contains("journal"));
    assert!(said, "{:#?}", rig.transcript);
}

#[tokio::test]
async fn an_interrupted_node_can_be_asked_about() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let (instance, node) = rig.sim.with(|world| {
        let pod = world.api.pods.values().next().unwrap();
        let instance = world.account.alive().next().unwrap();
        (instance.id.clone(), pod.node_name.clone().unwrap())
    });
    let kind = model::InterruptionKind::SpotInterrupted;
    rig.announce(&instance, kind, Some(secs(120)))
        .await
        .unwrap();
    let told = records(&rig, Some(Subject::Node(node))).await;
    let warned = told.last().unwrap();
    assert_eq!(warned.lane, Lane::Interruption);
    let line = warned.planned.first().unwrap();
    assert!(
        line.contains(&instance.0) && line.ends_with(": drain"),
        "{line}"
    );
}
