//! The sweep over idle clusters (docs/protocol.md#l5, docs/protocol.md#l6): it reads the rows of all clusters in batches and visits
//! none of them. Every end of idleness is found, whichever process sweeps and wherever it crashes.

use std::sync::Arc;

use model::{
    ClusterName, InterruptionKind, Lane,
    launch::InstanceState,
    ledger::{Lease, Mode},
};
use ports::LedgerError;
use stories::{Relay, Rig, all_bound, secs};
use turns::SweepReport;

use crate::at;

const MANY: usize = 200;
/// Call that only visits make.
const VISIT: &str = "sweep_memory";

/// A cluster with one ready node and no change for so long that a sweep has just skipped it.
async fn at_rest() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    for _ in 0..20 * 60 {
        rig.sim.with(|world| world.calls.clear());
        rig.pass(secs(1)).await;
        let (swept, visited) = rig.sim.with(|world| {
            let calls = &world.calls;
            (calls.contains(&"cluster_summaries"), calls.contains(&VISIT))
        });
        if swept && !visited {
            return rig;
        }
    }
    panic!("the cluster never becomes idle: {:#?}", rig.transcript);
}

/// Runs another sweep, a minute after the last; live relays have renewed their heartbeats meanwhile.
#[expect(
    clippy::unwrap_used,
    reason = "a sweep that cannot be run has failed the test"
)]
async fn sweep(rig: &mut Rig) -> SweepReport {
    rig.sim.advance(secs(60));
    if rig.relay == Relay::Watching {
        beat(rig);
    }
    let turn = rig.next_turn();
    Box::pin(turns::housekeep(&rig.world, &turn)).await.unwrap()
}

fn beat(rig: &Rig) {
    rig.sim.with(|world| {
        let now = world.now.to_string();
        let rows = world.ledger.of(&Rig::cluster());
        if let Some(beat) = &mut rows.beat {
            beat.beat_at = now;
        }
    });
}

/// Continues with a new process.
fn start_new_process(rig: &mut Rig) {
    rig.world.heartbeats = Arc::default();
}

#[tokio::test]
async fn l5_idle_minute_of_many_clusters_is_batch_read_without_writes() {
    let mut rig = Rig::new(Relay::Watching);
    let names: Vec<ClusterName> = (0..MANY)
        .map(|number| ClusterName(format!("cluster-{number}")))
        .collect();
    for name in &names {
        rig.sim.add_cluster(name.as_str());
    }
    let mut quiet = 0;
    let mut visited = Vec::new();
    for _ in 0..11 {
        rig.sim.with(|world| world.calls.clear());
        for _ in 0..60 {
            rig.pass(secs(1)).await;
            let beat = rig.beat.clone();
            rig.sim.with(|world| {
                for name in &names {
                    world.ledger.of(name).beat = Some(beat.clone());
                }
            });
        }
        let calls = rig.sim.with(|world| std::mem::take(&mut world.calls));
        let count = calls.iter().filter(|call| **call == VISIT).count();
        if count == 0 {
            let together = [
                "entries",
                "clusters",
                "cluster_summaries",
                "troubles",
                "renew_prices",
            ];
            assert_eq!(calls, together, "200 clusters and 200 times nothing");
            quiet += 1;
        }
        visited.push(count);
    }
    assert_eq!(rig.errors, Vec::<String>::new());
    assert!(quiet >= 3, "{visited:?}");
    let last = &visited[quiet + 2..];
    assert!(
        last.iter().all(|count| *count < MANY / 2),
        "visits of idle clusters are spread over minutes: {visited:?}"
    );
}

#[tokio::test]
async fn l5_sweep_wakes_an_idle_cluster_whose_wake_was_lost() {
    let mut rig = at_rest().await;
    rig.sim.with(|world| {
        let beat = world.ledger.of(&Rig::cluster()).beat.as_mut().unwrap();
        *beat.counters.entry("provisioner".into()).or_default() += 1;
    });
    let report = sweep(&mut rig).await;
    assert_eq!(report.woken, ["demo/provisioner: changed"]);
}

#[tokio::test]
async fn l5_due_lane_ends_idleness() {
    for lane in Lane::WOKEN {
        let mut rig = at_rest().await;
        rig.sim.with(|world| {
            let when = at(world, 30);
            let rows = world.ledger.of(&Rig::cluster());
            rows.lanes.get_mut(&lane).unwrap().due = Some(when);
        });
        let report = sweep(&mut rig).await;
        assert_eq!(report.woken, [format!("demo/{lane}: due")]);
    }
}

#[tokio::test]
async fn l5_commit_ends_idleness_without_a_relay() {
    let mut rig = at_rest().await;
    assert_eq!(sweep(&mut rig).await.at_rest, 1);
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        rows.meta.as_mut().unwrap().generation += 1;
    });
    assert_eq!(sweep(&mut rig).await.at_rest, 0);
}

#[tokio::test]
async fn l4_registry_change_takes_effect_with_the_sweep_that_reads_it() {
    let mut rig = at_rest().await;
    rig.sim.with(|world| {
        world.registry[0].body.as_mut().unwrap()["mode"] = "shadow".into();
    });
    assert_eq!(sweep(&mut rig).await.at_rest, 0);
    let released = rig.sim.with(|world| {
        let meta = world.ledger.of(&Rig::cluster()).meta.as_ref().unwrap();
        let lease = world.api.leader.as_ref().unwrap();
        (meta.mode, lease.holder.clone())
    });
    assert_eq!(released, (Mode::Shadow, String::new()));
}

#[tokio::test]
async fn l4_pending_notifications_make_the_cluster_due_at_the_next_sweep() {
    let mut rig = at_rest().await;
    let hook = serde_json::json!([{"name": "ops", "to": "https://example.com/hook"}]);
    rig.configure(&serde_json::json!({ "notifications": hook }));
    let instance = rig.sim.with(|world| {
        let first = world.account.alive().next();
        first.unwrap().id.clone()
    });
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&instance, kind, Some(secs(120)))
        .await
        .unwrap();
    rig.sim.with(|world| {
        let now = world.now;
        let rows = world.ledger.of(&Rig::cluster());
        assert_eq!(rows.notifications.len(), 1);
        assert_eq!(rows.lanes[&Lane::Housekeeper].due, Some(now));
    });
    sweep(&mut rig).await;
    assert_eq!(rig.sim.with(|world| world.notifications.len()), 1);
}

#[tokio::test]
async fn l2_killed_visit_is_repeated() {
    for call in [
        "take_lane",
        "sweep_memory",
        "store_sweep_memory",
        "end_lane",
    ] {
        let mut rig = at_rest().await;
        rig.sim.with(|world| {
            let due = Some(world.now);
            let rows = world.ledger.of(&Rig::cluster());
            rows.lanes.get_mut(&Lane::Housekeeper).unwrap().due = due;
            world.crash_after = Some(call);
        });
        rig.sim.advance(secs(60));
        let turn = rig.next_turn();
        drop(turns::housekeep(&rig.world, &turn).await);
        assert!(
            rig.sim.with(|world| world.crash_point.is_reached()),
            "{call}"
        );
        rig.sim
            .with(|world| world.crash_point = fakes::CrashPoint::default());
        start_new_process(&mut rig);
        let visited = sweep(&mut rig).await.at_rest == 0;
        // The crash came after the end of the lane; only the answer is lost.
        assert_eq!(visited, call != "end_lane", "{call}");
        let row = rig.sim.with(|world| {
            let lanes = &world.ledger.of(&Rig::cluster()).lanes;
            (lanes[&Lane::Housekeeper].clone(), world.now)
        });
        assert!(
            row.0.lease.is_none() && row.0.due.is_some_and(|due| due > row.1),
            "{call}: {row:?}"
        );
    }
}

#[tokio::test]
async fn l1_one_of_two_concurrent_sweeps_visits_a_cluster() {
    let mut rig = at_rest().await;
    rig.sim.with(|world| {
        let (due, until) = (world.now, at(world, 100));
        let rows = world.ledger.of(&Rig::cluster());
        rows.lanes.get_mut(&Lane::Provisioner).unwrap().due = Some(due);
        let own = rows.lanes.get_mut(&Lane::Housekeeper).unwrap();
        own.lease = Some(Lease {
            owner: "another".into(),
            until,
        });
        own.due = None;
    });
    assert_eq!(
        sweep(&mut rig).await.woken,
        [""; 0],
        "the other lane wakes it"
    );
    rig.sim.with(|world| {
        let lanes = &world.ledger.of(&Rig::cluster()).lanes;
        assert!(lanes[&Lane::Housekeeper].again);
    });
    let report = sweep(&mut rig).await;
    assert_eq!(
        report.woken,
        ["demo/provisioner: due"],
        "the other turn crashed: its lease has expired"
    );
}

#[tokio::test]
async fn l6_silent_relay_of_an_idle_cluster_is_noticed() {
    let mut rig = at_rest().await;
    // One more second, just after that sweep.
    rig.sim.advance(secs(1));
    beat(&rig);
    rig.relay = Relay::Dead;
    let mut reports = Vec::new();
    for _ in 0..3 {
        reports.push(sweep(&mut rig).await);
    }
    let [first, second, third] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    assert_eq!((first.at_rest, second.at_rest), (1, 1), "{reports:?}");
    assert_eq!((third.at_rest, third.silent), (0, 1), "{third:?}");
    assert_eq!(third.woken.len(), Lane::WOKEN.len(), "{third:?}");
    assert!(third.woken[0].ends_with("relay-silent"), "{third:?}");
}

/// The last visit may be minutes old, so the heartbeat that it read proves nothing about the present.
#[tokio::test]
async fn l6_new_process_visits_clusters_whose_relay_it_has_not_heard() {
    let mut rig = at_rest().await;
    for _ in 0..2 {
        assert_eq!(sweep(&mut rig).await.at_rest, 1);
    }
    start_new_process(&mut rig);
    let report = sweep(&mut rig).await;
    assert_eq!((report.at_rest, report.silent), (0, 0), "{report:?}");
    assert_eq!(report.woken.len(), Lane::WOKEN.len(), "{report:?}");
    // The next process reads the records of this one.
    rig.sim.take_wakes();
    start_new_process(&mut rig);
    let next = sweep(&mut rig).await;
    assert_eq!((next.silent, next.woken), (0, Vec::new()));
}

/// Only visits keep anything in memory.
#[tokio::test]
async fn l6_silence_is_noticed_by_processes_that_sweep_once() {
    let mut rig = at_rest().await;
    for _ in 0..4 {
        start_new_process(&mut rig);
        sweep(&mut rig).await;
        rig.sim.take_wakes();
    }
    rig.relay = Relay::Dead;
    let mut silent_for = 0;
    loop {
        start_new_process(&mut rig);
        let report = sweep(&mut rig).await;
        if !report.woken.is_empty() {
            break;
        }
        silent_for += 1;
        assert!(silent_for <= 2, "{report:?}");
    }
}

#[tokio::test]
async fn b1_idle_cluster_keeps_its_leader_lease_longer_than_any_turn() {
    let mut rig = at_rest().await;
    for _ in 0..180 {
        rig.pass(secs(60)).await;
        let left = rig.sim.with(|world| {
            let lease = world.api.leader.as_ref().unwrap();
            let until = lease.renewed_at.unwrap() + secs(lease.duration_seconds);
            until.duration_since(world.now)
        });
        assert!(left > secs(300 + 60) * 5, "{left}");
    }
}

#[tokio::test]
async fn g2_orphan_of_an_idle_cluster_is_collected_without_an_event() {
    let mut rig = at_rest().await;
    let lost = rig.sim.with(|world| {
        let mut lost = world.account.instances.values().next().unwrap().clone();
        lost.id = "i-lost".into();
        lost.launched_at = Some(world.now);
        world
            .account
            .instances
            .insert(lost.id.clone(), lost.clone());
        // There are enough instances that one more missing does not trigger the brake.
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["approvals"] = serde_json::json!({"collectUntil": "2099-01-01T00:00:00Z"});
        lost.id
    });
    let gone = |world: &mut fakes::World| {
        let state = world.account.instances[&lost].state;
        matches!(
            state,
            InstanceState::ShuttingDown | InstanceState::Terminated
        )
    };
    let took = rig.until(secs(900), gone).await;
    assert!(
        took.is_some_and(|took| took >= 120),
        "after two sweeps: {took:?}"
    );
}

#[tokio::test]
async fn unreadable_cluster_is_reported_and_hides_no_other() {
    let mut rig = at_rest().await;
    let error = LedgerError::Corrupt {
        pk: "CLUSTER#broken".into(),
        sk: "SWEEP".into(),
        message: "attribute body is missing".into(),
    };
    let reported = format!("broken: {error}");
    rig.sim.with(|world| {
        let mut entry = world.registry[0].clone();
        entry.cluster = "broken".into();
        world.registry.insert(0, entry);
        world.ledger.spoil("CLUSTER#broken", "SWEEP");
        let now = world.now;
        let rows = world.ledger.of(&Rig::cluster());
        rows.lanes.get_mut(&Lane::Provisioner).unwrap().due = Some(now);
    });
    let report = sweep(&mut rig).await;
    assert_eq!(report.problems, [reported]);
    assert_eq!(report.woken, ["demo/provisioner: due"]);
}
