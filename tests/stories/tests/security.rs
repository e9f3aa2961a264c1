//! Secrets that must not leave a cluster, and access that must be denied (docs/SECURITY.md).

use model::{ClusterName, Lane};
use stories::{Relay, Rig, all_bound, all_gone, secs};

const SECRET: &str = "9f2c-only-the-node-knows";

#[tokio::test]
async fn user_data_stays_between_the_ec2_node_class_and_ec2() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        for class in world.api.node_classes.values_mut() {
            class.spec.user_data = Some(format!("#!/bin/bash\nexport KEY={SECRET}\n"));
        }
    });
    rig.scale(5);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.scale(0);
    assert!(rig.until(secs(900), all_gone).await.is_some());
    let reported = rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        let records: Vec<String> = rows
            .journal
            .values()
            .map(|record| record.body.to_string())
            .collect();
        let seen = world.ledger.archive.values();
        let seen = seen.map(|object| turns::journal::unpack(object).unwrap());
        let seen: Vec<String> = seen
            .map(|seen| serde_json::to_string(&seen).unwrap())
            .collect();
        let events = world.api.events.iter();
        let events: Vec<String> = events.map(|event| format!("{event:?}")).collect();
        [records, seen, events, rig.transcript.clone()]
    });
    for kind in reported {
        assert!(!kind.is_empty());
        let leak = kind.iter().find(|text| text.contains(SECRET));
        assert_eq!(leak, None);
    }
}

#[tokio::test]
async fn wake_for_an_unregistered_cluster_does_nothing() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.scale(3);
    let other = ClusterName::from("other");
    for lane in Lane::WOKEN {
        let (turn, deadline) = (rig.next_turn(), rig.deadline(lane));
        let done = turns::run(&rig.world, &other, lane, &turn, deadline).await;
        assert_eq!(
            done.unwrap().outcome,
            turns::Outcome::Unregistered,
            "{lane}"
        );
    }
    rig.sim.with(|world| {
        assert_eq!(world.account.instances.len(), 0);
        assert!(world.ledger.of(&other).lanes.is_empty());
    });
}
