//! Clusters whose API servers hang cost no other cluster more than their own time slice.

use std::collections::BTreeSet;

use super::{Relay, Rig, SweepReport, secs};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Lane};

/// A call that is answered promptly takes this long.
const PROMPT: SignedDuration = SignedDuration::from_millis(20);
/// An API server that hangs answers within the client's time limit, each time.
const HANGS: SignedDuration = SignedDuration::from_secs(20);

/// A stack of that many clusters besides the first, which no relay tells of. All are led, and their Leases are due to be renewed,
/// when some of them begin to hang. From then on the clock is moved by calls alone.
async fn stack(clusters: usize, hangs: impl Fn(usize) -> bool) -> Rig {
    let mut rig = Rig::new(Relay::Dead);
    for number in 0..clusters {
        rig.sim.add_cluster(&name(number).0);
    }
    rig.pass(secs(2)).await;
    rig.sim.with(|world| {
        world.now += secs(15 * 60);
        world.wakes.clear();
        world.calls.clear();
        world.looked_up.clear();
        world.overlapping = true;
        world.latency = PROMPT;
        let hanging = (0..clusters).filter(|number| hangs(*number));
        world.slow = hanging.map(|number| (name(number), HANGS)).collect();
    });
    rig
}

fn name(number: usize) -> ClusterName {
    ClusterName(format!("cluster-{number:03}"))
}

fn now(rig: &Rig) -> Timestamp {
    rig.sim.with(|world| world.now)
}

/// Sweeps now, says how long that took, and moves the clock to the next minute.
async fn sweep(rig: &mut Rig) -> (SweepReport, SignedDuration) {
    let begun = now(rig);
    let turn = rig.next_turn();
    let report = Box::pin(turns::housekeep(&rig.world, &turn)).await.unwrap();
    let took = now(rig).duration_since(begun);
    rig.sim.with(|world| world.now = begun + secs(60));
    (report, took)
}

/// Whether the stack has renewed the cluster's leader Lease since then.
fn is_renewed(rig: &Rig, number: usize, since: Timestamp) -> bool {
    rig.sim.in_cluster(&name(number)).look(|world| {
        let renewed = world.api.leader.as_ref().and_then(|lease| lease.renewed_at);
        renewed.is_some_and(|at| at >= since)
    })
}

/// The clusters of which every lane was woken so that its wake arrives by then.
fn woken(rig: &Rig, by: Timestamp) -> BTreeSet<ClusterName> {
    rig.sim.with(|world| {
        let woken = |cluster: &ClusterName| {
            Lane::WOKEN.into_iter().all(|lane| {
                let mut wakes = world.wakes.iter();
                wakes.any(|(at, wake)| *at <= by && wake.lane == lane && wake.cluster == *cluster)
            })
        };
        let clusters = world.clusters().into_iter();
        clusters
            .filter(|cluster| *cluster != Rig::cluster() && woken(cluster))
            .collect()
    })
}

#[tokio::test]
async fn cluster_whose_api_server_hangs_delays_no_other_cluster() {
    let mut rig = stack(40, |number| number == 0).await;
    let begun = now(&rig);
    let (report, took) = sweep(&mut rig).await;
    assert!(took < secs(50), "{took}: {report:?}");
    assert!(is_renewed(&rig, 39, begun), "{report:?}");
    assert_eq!(woken(&rig, begun + secs(60)).len(), 40, "{report:?}");
    let told = |problem: &&String| problem.starts_with("cluster-000: cut off after 12s");
    assert_eq!(report.problems.iter().filter(told).count(), 1, "{report:?}");
}

#[tokio::test]
async fn of_200_clusters_of_which_20_hang_the_others_are_visited_within_the_minute() {
    let mut rig = stack(200, |number| number % 10 == 0).await;
    let begun = now(&rig);
    let (report, took) = sweep(&mut rig).await;
    assert!(took < secs(50), "{took}");
    let renewed = (0..200).filter(|number| is_renewed(&rig, *number, begun));
    assert_eq!(renewed.count(), 180, "{:?}", report.problems);
    assert_eq!(woken(&rig, begun + secs(60)).len(), 200);
}

#[tokio::test]
async fn where_most_clusters_hang_each_of_the_others_is_visited_within_minutes() {
    let hangs = |number: usize| number % 10 != 9;
    let mut rig = stack(300, hangs).await;
    let begun = now(&rig);
    for _ in 0..10 {
        let (_, took) = sweep(&mut rig).await;
        assert!(took < secs(60), "{took}");
    }
    let healthy: Vec<usize> = (0..300).filter(|number| !hangs(*number)).collect();
    let starved = healthy
        .iter()
        .filter(|number| !is_renewed(&rig, **number, begun));
    assert_eq!(starved.count(), 0, "of {}", healthy.len());
}

#[tokio::test]
async fn account_is_seen_to_however_many_clusters_hang() {
    let mut rig = stack(300, |_| true).await;
    let (report, _) = sweep(&mut rig).await;
    rig.sim.with(|world| {
        assert!(world.calls.contains(&"troubles"), "{:?}", world.calls);
        assert_eq!(world.looked_up.len(), 1, "prices were renewed");
    });
    let left = |problem: &String| problem.contains("clusters are left to the next sweep");
    assert!(report.problems.iter().any(left), "{report:?}");
}

#[tokio::test]
async fn lane_of_visit_that_was_cut_off_is_free_and_due_for_the_next_sweep() {
    let mut rig = stack(1, |_| true).await;
    sweep(&mut rig).await;
    rig.sim.with(|world| {
        let now = world.now;
        let row = &world.ledger.of(&name(0)).lanes[&Lane::Housekeeper];
        assert!(row.lease.is_none() && row.failures == 1, "{row:?}");
        assert!(row.due.is_some_and(|due| due <= now), "{row:?}");
    });
}
