//! The journal: records are found by subject, and recorded snapshots can be planned again.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic on failure")]

use fakes::Fault;
use jiff::Timestamp;
use model::{Lane, journal::Subject};
use ports::{Archive, Journal, journal::JournalQuery};
use stories::{Relay, Rig, all_bound, secs};
use turns::Report;

/// Records of the test, oldest first.
async fn records(rig: &Rig, about: Option<Subject>) -> Vec<Report> {
    let wanted = JournalQuery {
        about,
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
        most: 1_000,
    };
    let found = rig.sim.latest(&Rig::cluster(), &wanted).await.unwrap();
    let mut read: Vec<Report> = found
        .iter()
        .map(|entry| Report::read(entry).unwrap())
        .collect();
    read.reverse();
    read
}

#[tokio::test]
async fn journal_records_are_found_by_pod() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let (pod, node) = rig.sim.with(|world| {
        let pod = world.api.pods.values().next().unwrap();
        (pod.key.clone(), pod.node_name.clone().unwrap())
    });
    let reported = records(&rig, Some(Subject::Pod(pod))).await;
    let launched = reported.iter().find(|report| !report.launched.is_empty());
    let launched = launched.expect("the turn that launched its node");
    assert_eq!(launched.lane, Lane::Provisioner);
    let mut claim = launched.planned.iter().flat_map(|line| &line.about);
    let claim = claim.find(|subject| matches!(subject, Subject::NodeClaim(_)));
    let of_node = records(&rig, Some(Subject::Node(node))).await;
    let mut of_node = of_node.iter().flat_map(Report::about);
    assert!(
        of_node.any(|subject| Some(subject) == claim),
        "the node is found by its name, and leads to its NodeClaim"
    );
}

#[tokio::test]
async fn recorded_snapshot_replans_to_the_same_decision() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let reported = records(&rig, None).await;
    let launched = reported.iter().find(|report| !report.launched.is_empty());
    let launched = launched.expect("the turn that launched nodes");
    let name = launched
        .snapshot
        .as_ref()
        .expect("the snapshot is recorded");
    let packed = rig.sim.get(name).await.unwrap().unwrap();
    let snapshot = turns::journal::unpack(&packed).unwrap();
    let plan = planner::provision(&snapshot, rig.world.share);
    let again: Vec<&str> = plan
        .actions
        .iter()
        .map(|decision| decision.because.as_str())
        .collect();
    assert!(!again.is_empty());
    for (line, because) in launched.planned.iter().zip(&again) {
        assert!(line.ends_with(because), "{line} / {because}");
    }
    assert_eq!(launched.planned.len(), again.len());
}

#[tokio::test]
async fn persistent_state_is_recorded_every_ten_minutes() {
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
    let reported = records(&rig, Some(Subject::Pod(pod))).await;
    assert!(
        (2..=4).contains(&reported.len()),
        "{:#?}",
        reported.iter().map(|report| report.at).collect::<Vec<_>>()
    );
    assert!(reported.iter().all(|report| report.unplaced.len() == 1));
}

#[tokio::test]
async fn idle_cluster_is_recorded_once_an_hour() {
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
    assert_eq!(recorded, snapshots, "there is no other record");
}

#[tokio::test]
async fn failing_journal_stops_no_turn() {
    let mut rig = Rig::ready(Relay::Watching).await;
    for call in ["record", "archive"] {
        for _ in 0..20 {
            rig.sim.fail_next(call, Fault::Unavailable);
        }
    }
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let reported = rig.transcript.iter().any(|line| line.contains("journal"));
    assert!(reported, "{:#?}", rig.transcript);
}

#[tokio::test]
async fn journal_records_are_found_by_interrupted_node() {
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
    let reported = records(&rig, Some(Subject::Node(node))).await;
    let warned = reported.last().unwrap();
    assert_eq!(warned.lane, Lane::Interruption);
    let line = warned.planned.first().unwrap();
    assert!(
        line.contains(&instance.0) && line.ends_with(": drain"),
        "{line}"
    );
}
