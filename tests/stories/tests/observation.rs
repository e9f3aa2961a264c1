//! Sources of a cluster's pods: the view that its relay publishes, or the API server if the view is in doubt.

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

/// Creates ten pods that get nodes, and returns the sources of the pods for the turns that launched them.
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
async fn nodes_are_launched_for_pods_of_the_view() {
    let mut rig = publishing(|_| {}).await;
    let seen = ten_pods_come(&mut rig).await;
    assert!(
        matches!(seen[..], [PodsFrom::View(_), ..]),
        "{seen:?} {:?}",
        rig.warnings
    );
    assert_eq!(rig.warnings, Vec::<String>::new(), "the node is healthy");
}

#[tokio::test]
async fn warm_function_reads_only_new_view_versions() {
    let mut rig = publishing(|_| {}).await;
    ten_pods_come(&mut rig).await;
    // The full state is deleted: a function that has read it needs only newer versions.
    rig.sim.with(|world| {
        let full = world.ledger.archive.keys().next().cloned();
        world.ledger.archive.remove(&full.unwrap());
        world.api.scale("web", 11, stories::cpu(stories::POD));
    });
    rig.reads.clear();
    rig.until(TEN_MINUTES, all_bound).await.unwrap();
    assert_eq!(rig.warnings, Vec::<String>::new());
}

/// With a corrupted view, pods are listed, a warning names the cause, and the nodes are launched.
async fn falls_to_lists(prepare: fn(&mut Publishing), reported: &str) {
    let mut rig = publishing(prepare).await;
    let seen = ten_pods_come(&mut rig).await;
    assert_eq!(seen.first(), Some(&PodsFrom::ApiServer));
    let warning = rig
        .warnings
        .iter()
        .find(|warning| warning.contains(reported));
    assert!(warning.is_some(), "{reported}: {:?}", rig.warnings);
}

#[tokio::test]
async fn corrupt_view_falls_back_to_lists() {
    falls_to_lists(
        |relay| {
            relay.corrupt = |_, world| {
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
async fn oversized_view_falls_back_to_lists() {
    falls_to_lists(
        |relay| {
            relay.corrupt = |_, world| fill_with(&vec![0; FULL_BYTES_MAX + 1], world);
        },
        "it has more than 33554432 bytes",
    )
    .await;
}

/// A view that crashed or delayed one function is not read again by each turn.
#[tokio::test]
async fn rejected_view_is_not_read_again() {
    falls_to_lists(
        |relay| relay.corrupt = |_, world| fill_with(b"garbage", world),
        "it was refused before",
    )
    .await;
}

#[tokio::test]
async fn missing_view_version_falls_back_to_lists() {
    falls_to_lists(
        |relay| relay.corrupt = |_, world| world.ledger.archive.clear(),
        "is missing",
    )
    .await;
}

#[tokio::test]
async fn unannounced_view_version_is_not_read() {
    falls_to_lists(
        |relay| relay.corrupt = |pointer, _| pointer.digest = "0".repeat(64),
        "does not have the announced digest",
    )
    .await;
}

#[tokio::test]
async fn relay_with_an_hour_of_clock_skew_is_reported() {
    for corrupt in [
        (|pointer, _| pointer.at -= SignedDuration::from_hours(1))
            as fn(&mut model::view::ViewPointer, &mut fakes::World),
        |pointer, _| pointer.at += SignedDuration::from_hours(1),
    ] {
        let mut rig = publishing(|_| {}).await;
        rig.publishing.as_mut().unwrap().corrupt = corrupt;
        let seen = ten_pods_come(&mut rig).await;
        assert_eq!(seen.first(), Some(&PodsFrom::ApiServer));
        assert!(
            rig.warnings
                .iter()
                .any(|reported| reported.contains("its clock is wrong"))
        );
    }
}

#[tokio::test]
async fn stale_view_falls_back_to_lists() {
    let mut rig = publishing(|relay| {
        relay.corrupt = |pointer, _| pointer.counters.clear();
    })
    .await;
    let seen = ten_pods_come(&mut rig).await;
    assert_eq!(seen.first(), Some(&PodsFrom::ApiServer));
    assert_eq!(
        rig.warnings,
        Vec::<String>::new(),
        "a lagging view is no warning"
    );
}

#[tokio::test]
async fn relay_that_invents_pods_launches_nothing() {
    let mut rig = publishing(|_| {}).await;
    rig.publishing.as_mut().unwrap().falsify = |pods| {
        let mut invented = model::pod::Pod {
            key: PodKey::new("default", "made-up"),
            uid: "made-up".into(),
            unschedulable: true,
            ..model::pod::Pod::default()
        };
        invented.scheduler_name = "default-scheduler".into();
        invented.requests = stories::cpu(stories::POD);
        pods.push(invented);
    };
    rig.pass(SignedDuration::from_secs(30)).await;
    rig.sim.with(|world| {
        let wake = Wake::new(Rig::cluster(), Lane::Provisioner, "relay");
        world.wakes.push((world.now, wake));
    });
    rig.pass(SignedDuration::from_mins(5)).await;
    let launched = rig.sim.with(|world| world.account.instances.len());
    assert_eq!(
        launched, 0,
        "launches read their pods again: {:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn relay_that_hides_pods_removes_no_node() {
    let mut rig = publishing(|_| {}).await;
    ten_pods_come(&mut rig).await;
    let before = rig.sim.with(|world| world.api.pods.clone());
    rig.reads.clear();
    rig.publishing.as_mut().unwrap().falsify = Vec::clear;
    rig.pass(SignedDuration::from_mins(30)).await;
    let after = rig.sim.with(|world| world.api.pods.clone());
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>(),
        "removals are decided by the API server's lists"
    );
    let looked_again =
        |read: &stories::Read| read.lane == Lane::Disruption && read.pods == PodsFrom::ApiServer;
    assert!(
        rig.reads.iter().any(looked_again),
        "the turn reports the mismatch: {:?}",
        rig.reads
    );
    assert_eq!(rig.errors, Vec::<String>::new());
}
