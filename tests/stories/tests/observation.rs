//! How turns come to see a cluster's pods: as its relay publishes them, or, at any doubt, from the API server itself.

use jiff::SignedDuration;
use model::{Lane, PodKey, Wake};
use stories::{Publishing, Relay, Rig, all_bound};
use turns::PodsFrom;
use view::document::FULL_BYTES_MAX;

const TEN_MINUTES: SignedDuration = SignedDuration::from_mins(10);

async fn publishing(prepare: fn(&mut Publishing)) -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    let mut relay = Publishing::new(Rig::cluster(), &rig.beat);
    prepare(&mut relay);
    rig.publishing = Some(relay);
    rig.pass(SignedDuration::from_secs(150)).await;
    rig
}

/// Ten pods come, and find nodes. Says where the turns that bought them had seen the pods.
async fn ten_pods_come(rig: &mut Rig) -> Vec<PodsFrom> {
    rig.reads.clear();
    rig.scale(10);
    let bound = rig.until(TEN_MINUTES, all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    assert_eq!(rig.errors, Vec::<String>::new());
    let launching = rig.reads.iter().filter(|reads| reads.launched);
    launching.map(|reads| reads.pods.clone()).collect()
}

#[tokio::test]
async fn nodes_are_bought_for_pods_that_the_relay_published() {
    let mut rig = publishing(|_| {}).await;
    let seen = ten_pods_come(&mut rig).await;
    assert!(
        matches!(seen[..], [PodsFrom::View(_), ..]),
        "{seen:?} {:?}",
        rig.complaints
    );
    assert_eq!(
        rig.complaints,
        Vec::<String>::new(),
        "nothing is wrong with it"
    );
}

#[tokio::test]
async fn a_function_that_is_warm_reads_only_what_is_new() {
    let mut rig = publishing(|_| {}).await;
    ten_pods_come(&mut rig).await;
    // The full state is gone: who has read it does not need it any more.
    rig.sim.with(|world| {
        let full = world.ledger.archive.keys().next().cloned();
        world.ledger.archive.remove(&full.unwrap());
        world.api.scale("web", 11, stories::cpu(stories::POD));
    });
    rig.reads.clear();
    rig.until(TEN_MINUTES, all_bound).await.unwrap();
    assert_eq!(rig.complaints, Vec::<String>::new());
}

/// Whatever is wrong with the view, pods are listed, it is told, and the nodes come.
async fn falls_to_lists(prepare: fn(&mut Publishing), told: &str) {
    let mut rig = publishing(prepare).await;
    let seen = ten_pods_come(&mut rig).await;
    assert_eq!(seen.first(), Some(&PodsFrom::ApiServer));
    let complaint = rig
        .complaints
        .iter()
        .find(|complaint| complaint.contains(told));
    assert!(complaint.is_some(), "{told}: {:?}", rig.complaints);
}

#[tokio::test]
async fn garbage_in_the_bucket_is_not_believed() {
    falls_to_lists(
        |relay| {
            relay.spoil = |_, world| {
                for object in world.ledger.archive.values_mut() {
                    *object = b"garbage".to_vec();
                }
            };
        },
        "cannot be decompressed",
    )
    .await;
}

fn fill_with(object: &[u8], world: &mut fakes::World) {
    for stored in world.ledger.archive.values_mut() {
        *stored = object.to_vec();
    }
}

#[tokio::test]
async fn view_that_is_too_large_is_not_read() {
    falls_to_lists(
        |relay| {
            relay.spoil = |_, world| fill_with(&vec![0; FULL_BYTES_MAX + 1], world);
        },
        "it has more than 33554432 bytes",
    )
    .await;
}

/// A view that killed one function, or took it long, is not tried by each turn.
#[tokio::test]
async fn view_that_was_refused_is_not_read_again() {
    falls_to_lists(
        |relay| relay.spoil = |_, world| fill_with(b"garbage", world),
        "it was refused before",
    )
    .await;
}

#[tokio::test]
async fn a_version_that_is_missing_is_not_missed() {
    falls_to_lists(
        |relay| relay.spoil = |_, world| world.ledger.archive.clear(),
        "is missing",
    )
    .await;
}

#[tokio::test]
async fn a_version_that_was_not_announced_is_not_read() {
    falls_to_lists(
        |relay| relay.spoil = |pointer, _| pointer.digest = "0".repeat(64),
        "is not the one that was announced",
    )
    .await;
}

#[tokio::test]
async fn a_relay_whose_clock_is_an_hour_off_is_told_so() {
    for spoil in [
        (|pointer, _| pointer.at -= SignedDuration::from_hours(1))
            as fn(&mut model::view::ViewPointer, &mut fakes::World),
        |pointer, _| pointer.at += SignedDuration::from_hours(1),
    ] {
        let mut rig = publishing(|_| {}).await;
        rig.publishing.as_mut().unwrap().spoil = spoil;
        let seen = ten_pods_come(&mut rig).await;
        assert_eq!(seen.first(), Some(&PodsFrom::ApiServer));
        assert!(
            rig.complaints
                .iter()
                .any(|told| told.contains("its clock is wrong"))
        );
    }
}

#[tokio::test]
async fn a_view_that_lags_behind_what_was_counted_is_not_read() {
    let mut rig = publishing(|relay| {
        relay.spoil = |pointer, _| pointer.counters.clear();
    })
    .await;
    let seen = ten_pods_come(&mut rig).await;
    assert_eq!(seen.first(), Some(&PodsFrom::ApiServer));
    assert_eq!(
        rig.complaints,
        Vec::<String>::new(),
        "the next version is on its way"
    );
}

#[tokio::test]
async fn a_relay_that_makes_pods_up_buys_nothing() {
    let mut rig = publishing(|_| {}).await;
    rig.publishing.as_mut().unwrap().lie = |pods| {
        let mut made_up = model::pod::Pod {
            key: PodKey::new("default", "made-up"),
            uid: "made-up".into(),
            unschedulable: true,
            ..model::pod::Pod::default()
        };
        made_up.scheduler_name = "default-scheduler".into();
        made_up.requests = stories::cpu(stories::POD);
        pods.push(made_up);
    };
    rig.pass(SignedDuration::from_secs(30)).await;
    rig.sim.with(|world| {
        let wake = Wake::new(Rig::cluster(), Lane::Provisioner, "relay");
        world.wakes.push((world.now, wake));
    });
    rig.pass(SignedDuration::from_mins(5)).await;
    let bought = rig.sim.with(|world| world.account.instances.len());
    assert_eq!(
        bought, 0,
        "launches read their pods again: {:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn a_relay_that_hides_pods_empties_no_node() {
    let mut rig = publishing(|_| {}).await;
    ten_pods_come(&mut rig).await;
    let before = rig.sim.with(|world| world.api.pods.clone());
    rig.reads.clear();
    rig.publishing.as_mut().unwrap().lie = Vec::clear;
    rig.pass(SignedDuration::from_mins(30)).await;
    let after = rig.sim.with(|world| world.api.pods.clone());
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>(),
        "what ends is decided by what the API server says"
    );
    let looked_again =
        |read: &stories::Read| read.lane == Lane::Disruption && read.pods == PodsFrom::ApiServer;
    assert!(
        rig.reads.iter().any(looked_again),
        "and that is what the turn tells of: {:?}",
        rig.reads
    );
    assert_eq!(rig.errors, Vec::<String>::new());
}
