//! Rows that expire: experience, markers, nominations, notifications.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use model::{
    CapacityType, ClusterName, Evidence, InstanceId, Lane, Notification, NotificationClass,
    budget::{Api, Priority},
    evidence::{Failure, Shared},
    experience::ZonalShift,
    ledger::{OfferingKey, SweepMemory},
    plan::Expected,
};
use ports::Ledger;

use super::{activate, at};

pub async fn g4_unmanaged_instances_are_remembered_until_expiry(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let unmanaged = InstanceId(format!("i-{c}-9"));
    assert!(!ledger.is_unmanaged(&unmanaged, at(0)).await.unwrap());
    ledger.remember_unmanaged(&unmanaged, at(60)).await.unwrap();
    assert!(ledger.is_unmanaged(&unmanaged, at(59)).await.unwrap(), "G4");
    assert!(
        !ledger.is_unmanaged(&unmanaged, at(60)).await.unwrap(),
        "G4: expiry is a number compared"
    );
    assert_eq!(
        ledger.owner(&unmanaged).await.unwrap(),
        None,
        "G4: in its own row"
    );
}

pub async fn unavailable_offering_is_avoided_longer_each_time(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let key = OfferingKey {
        capacity_type: CapacityType::Spot,
        instance_type: format!("{c}.large"),
        zone_id: "use1-az1".into(),
        scope: None,
    };
    let known = async |now: i64| {
        let all = ledger.experience(c, at(now)).await.unwrap();
        all.unavailable
            .into_iter()
            .find(|entry| entry.offering == key)
    };
    ledger.mark_unavailable(&key, at(0)).await.unwrap();
    assert_eq!(known(0).await.unwrap().until, at(180));
    assert_eq!(known(180).await, None, "lapsed");
    ledger.mark_unavailable(&key, at(180)).await.unwrap();
    let entry = known(180).await.unwrap();
    assert_eq!(
        (entry.count, entry.until),
        (2, at(180) + SignedDuration::from_mins(6))
    );
}

pub async fn full_subnets_are_avoided_for_three_minutes(ledger: &dyn Ledger, c: &ClusterName) {
    let subnet = format!("subnet-{c}");
    let until = async |now: i64| {
        let all = ledger.experience(c, at(now)).await.unwrap().full_subnets;
        let found = all.into_iter().find(|entry| entry.subnet == subnet);
        found.map(|entry| entry.until)
    };
    ledger.mark_full(&subnet, at(0)).await.unwrap();
    assert_eq!(until(179).await, Some(at(180)));
    ledger.mark_full(&subnet, at(60)).await.unwrap();
    assert_eq!(until(180).await, Some(at(240)), "marked again");
    assert_eq!(until(240).await, None, "lapsed");
}

pub async fn least_measured_memory_is_shared_by_all_clusters(ledger: &dyn Ledger, c: &ClusterName) {
    let kind = format!("{c}.large");
    let other = ClusterName(format!("{c}-other"));
    let known = async |image: &str, now: i64| {
        let all = ledger.experience(&other, at(now)).await.unwrap().memory;
        let mut of_it = all.into_iter();
        let found = of_it.find(|entry| entry.instance_type == kind && entry.image == image);
        found.map(|entry| entry.bytes)
    };
    for (bytes, now) in [(7_900, 0), (7_800, 1), (8_000, 2)] {
        let measured = ledger.measure_memory(&kind, "ami-1", bytes, at(now)).await;
        measured.unwrap();
    }
    assert_eq!(known("ami-1", 3).await, Some(7_800));
    assert_eq!(
        known("ami-2", 3).await,
        None,
        "another image is another node"
    );
    let two_months = 60 * 24 * 3600;
    assert_eq!(known("ami-1", two_months + 1).await, None, "lapsed");
}

pub async fn newer_evidence_replaces_a_clusters_older(ledger: &dyn Ledger, c: &ClusterName) {
    let evidence = |image: &str, until: i64| Evidence {
        cluster: c.clone(),
        failures: [Failure {
            condition: "Ready=Unknown".into(),
            shared: Shared::Image(image.to_owned()),
        }]
        .into(),
        until: at(until),
    };
    for stored in [evidence("ami-1", 60), evidence("ami-2", 120)] {
        ledger.store_evidence(&stored).await.unwrap();
        let mut all = ledger.evidence().await.unwrap();
        all.retain(|other| other.cluster == *c);
        assert_eq!(all, [stored]);
    }
}

pub async fn zonal_shift_applies_to_its_cluster_until_it_ends(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let shift = ZonalShift {
        zone_id: "use1-az1".into(),
        until: at(60),
    };
    let shifted = async |cluster: &ClusterName, now: i64| {
        let all = ledger.experience(cluster, at(now)).await.unwrap();
        all.shifted_zones.into_iter().collect::<Vec<_>>()
    };
    let stored = ledger.store_zonal_shifts(c, std::slice::from_ref(&shift));
    stored.await.unwrap();
    assert_eq!(ledger.zonal_shifts(c).await.unwrap(), [shift]);
    assert_eq!(shifted(c, 59).await, ["use1-az1"]);
    assert!(shifted(c, 60).await.is_empty(), "over");
    let other = ClusterName(format!("{c}-other"));
    assert!(shifted(&other, 0).await.is_empty(), "another cluster's");
    ledger.store_zonal_shifts(c, &[]).await.unwrap();
    assert!(shifted(c, 0).await.is_empty(), "cleared");
}

pub async fn call_budget_is_shared_and_refills_slower_after_throttling(ledger: &dyn Ledger) {
    let api = Api::CreateTags;
    let draw = async |wanted: u32, priority: Priority, now: i64| {
        let draw = ledger.draw(api, wanted, priority, at(now)).await.unwrap();
        (draw.granted, draw.again)
    };
    assert_eq!(draw(80, Priority::Provisioning, 0).await, (80, None));
    let (granted, again) = draw(20, Priority::Provisioning, 0).await;
    assert_eq!(granted, 10, "the rest is kept for interruptions");
    assert_eq!(draw(10, Priority::Interruption, 0).await.0, 10);
    assert!(again.is_some_and(|again| again > at(0)));
    assert_eq!(draw(100, Priority::Interruption, 60).await.0, 100);
    assert_eq!(draw(1, Priority::Interruption, 60).await.0, 0);
    ledger.throttled(api, at(60)).await.unwrap();
    assert_eq!(
        draw(100, Priority::Interruption, 62).await.0,
        10,
        "half the rate of ten a second"
    );
}

pub async fn notification_is_stored_and_finished_once(ledger: &dyn Ledger, c: &ClusterName) {
    let notification = |id: &str, title: &str| Notification {
        id: id.into(),
        to: "ops".into(),
        class: NotificationClass::Interruption,
        cluster: c.clone(),
        at: at(0),
        title: title.into(),
        details: vec!["a line".into()],
    };
    let (a, b) = (notification("a", "first"), notification("b", "other"));
    let both = [b.clone(), a.clone()];
    ledger.put_notifications(c, &both).await.unwrap();
    let doubles = [notification("a", "second")];
    ledger.put_notifications(c, &doubles).await.unwrap();
    let waiting = ledger.notifications(c).await.unwrap();
    assert_eq!(waiting, [a.clone(), b.clone()], "the first stands");
    ledger.finish_notification(c, &a).await.unwrap();
    ledger.put_notifications(c, &[a]).await.unwrap();
    assert_eq!(ledger.notifications(c).await.unwrap(), [b]);
}

pub async fn markers_nominations_and_notes_are_kept(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    assert!(
        ledger
            .once(c, "failedscheduling/uid", at(0), at(60))
            .await
            .unwrap()
    );
    assert!(
        !ledger
            .once(c, "failedscheduling/uid", at(59), at(119))
            .await
            .unwrap(),
        "the first window does not slide"
    );
    assert!(
        ledger
            .once(c, "failedscheduling/uid", at(60), at(120))
            .await
            .unwrap()
    );
    assert!(
        ledger
            .once(c, "nominated/uid", at(60), at(120))
            .await
            .unwrap()
    );
    let timer = async |now, due| {
        let set = ledger.set_timer(c, Lane::Disruption, at(now), at(due));
        set.await.unwrap()
    };
    assert!(
        timer(0, 60).await && timer(0, 15).await,
        "the sooner counts"
    );
    assert!(!timer(1, 15).await && !timer(1, 30).await, "one is enough");
    assert!(timer(15, 30).await);
    let said = async |now| ledger.said(c, "failedscheduling/", at(now)).await.unwrap();
    assert_eq!(said(119).await, ["failedscheduling/uid".to_owned()].into());
    assert_eq!(said(120).await, [].into(), "as `once` would answer");

    let node = |name: &str| Expected::Node(name.into());
    let claim = Expected::NodeClaim("n1".into());
    ledger
        .nominate(
            c,
            &BTreeMap::from([
                (node("n1"), at(20)),
                (node("n2"), at(30)),
                (claim.clone(), at(30)),
            ]),
            at(0),
        )
        .await
        .unwrap();
    ledger
        .nominate(
            c,
            &BTreeMap::from([(node("n1"), at(40)), (node("n2"), at(10))]),
            at(1),
        )
        .await
        .unwrap();
    let nominated = ledger.nominations(c, at(25)).await.unwrap();
    assert_eq!(
        nominated,
        BTreeMap::from([(node("n1"), at(40)), (node("n2"), at(30)), (claim, at(30))]),
        "later times win, and a NodeClaim is no Node"
    );
    assert_eq!(ledger.nominations(c, at(35)).await.unwrap().len(), 1);

    assert_eq!(
        ledger.sweep_memory(c).await.unwrap(),
        SweepMemory::default()
    );
    let memory = SweepMemory {
        lease_sweeps: 2,
        unexplained: vec![at(3)],
        ..SweepMemory::default()
    };
    ledger.store_sweep_memory(c, &memory).await.unwrap();
    assert_eq!(ledger.sweep_memory(c).await.unwrap(), memory);

    assert_eq!(
        ledger.relay_beat(c).await.unwrap(),
        None,
        "only the relay writes its row"
    );
}
