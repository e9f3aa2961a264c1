//! A cluster counts as deleted only when EKS has reported that for a day (docs/design.md#mass-absence).

use fakes::Fault;
use stories::{Rig, all_bound, secs, transcript};

use crate::serving;

pub(crate) const HOUR: i64 = 3_600;

pub(crate) fn delete_cluster(rig: &Rig, deleted: bool) {
    rig.sim.with(|world| {
        world.deleted = match deleted {
            true => [Rig::cluster()].into(),
            false => [].into(),
        }
    });
}

pub(crate) fn alive(rig: &Rig) -> usize {
    rig.sim.with(|world| {
        let instances = world.account.instances.values();
        instances
            .filter(|instance| instance.state.is_alive())
            .count()
    })
}

#[tokio::test]
async fn instances_of_a_deleted_cluster_are_collected_after_a_day() {
    let mut rig = serving(4).await;
    rig.sim.with(|world| {
        world.account.templates = [("spent".to_owned(), "gone".to_owned())].into();
    });
    let before = alive(&rig);
    delete_cluster(&rig, true);
    rig.pass(secs(23 * HOUR)).await;
    assert_eq!(alive(&rig), before);
    assert!(
        rig.transcript.iter().any(|line| line
            .contains("EKS has had no cluster of this name since")
            && line.contains("its instances are terminated from 2026-01-02T")),
        "{:#?}",
        rig.transcript.last()
    );
    rig.pass(secs(2 * HOUR)).await;
    assert_eq!(alive(&rig), 0);
    assert!(rig.sim.with(|world| world.account.templates.is_empty()));
    transcript!(rig);
}

#[tokio::test]
async fn reappearing_cluster_keeps_its_instances() {
    let mut rig = serving(4).await;
    let before = alive(&rig);
    delete_cluster(&rig, true);
    rig.pass(secs(23 * HOUR)).await;
    delete_cluster(&rig, false);
    rig.pass(secs(120)).await;
    delete_cluster(&rig, true);
    rig.pass(secs(2 * HOUR)).await;
    assert_eq!(alive(&rig), before, "the daily period restarts");
    delete_cluster(&rig, false);
    rig.pass(secs(900)).await;
    assert!(rig.sim.with(all_bound));
    transcript!(rig);
}

#[tokio::test]
async fn unreachable_or_denied_cluster_is_not_deleted() {
    for fault in [Fault::Denied, Fault::Unavailable, Fault::Throttled] {
        let mut rig = serving(4).await;
        let before = alive(&rig);
        for _ in 0..26 * 60 {
            rig.sim.fail_next("connect", fault);
        }
        rig.pass(secs(25 * HOUR)).await;
        assert_eq!(alive(&rig), before);
        transcript!(rig, format!("{fault:?}"));
    }
}

#[tokio::test]
async fn deleted_cluster_in_shadow_mode_is_reported_and_keeps_its_instances() {
    let mut rig = serving(4).await;
    let before = alive(&rig);
    rig.sim.with(|world| {
        let body = world.registry.first_mut().unwrap().body.as_mut().unwrap();
        body["mode"] = "shadow".into();
    });
    delete_cluster(&rig, true);
    rig.pass(secs(25 * HOUR)).await;
    assert_eq!(alive(&rig), before);
    assert!(
        rig.transcript
            .iter()
            .any(|line| line.contains("because the cluster is not active"))
    );
    transcript!(rig);
}
