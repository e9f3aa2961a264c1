//! Summaries of many clusters (docs/protocol.md#l5).

use std::collections::BTreeSet;

use model::{
    ClusterName, Lane,
    ledger::{RelayCounter, SweepMemory},
};
use ports::{
    Ledger,
    ledger::{ClusterSummary, LaneEnd},
};

use super::{activate, at, end, lease, turn};

/// More clusters than one batch read of DynamoDB holds.
const MANY: usize = 30;

pub async fn l5_cluster_summary_equals_individual_reads(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let full_look_end = LaneEnd {
        full_look: Some(RelayCounter {
            epoch: "epoch".into(),
            seq: 7,
        }),
        ..end(30, Some(90))
    };
    for lane in [Lane::Lifecycle, Lane::Housekeeper] {
        let mine = lease("t1", 60);
        ledger.take_lane(c, lane, &mine, at(0)).await.unwrap();
        let ended = ledger.end_lane(c, lane, &turn("t1"), &full_look_end).await;
        ended.unwrap();
    }
    let held = lease("t2", 60);
    let taken = ledger.take_lane(c, Lane::Terminator, &held, at(0)).await;
    taken.unwrap();
    let memory = SweepMemory {
        beat_since: Some(at(0)),
        generation: Some(3),
        ..SweepMemory::default()
    };
    ledger.store_sweep_memory(c, &memory).await.unwrap();

    let unknown = ClusterName(format!("{c}-unknown"));
    let both = BTreeSet::from([c.clone(), unknown.clone()]);
    let mut summaries = ledger.cluster_summaries(&both).await.unwrap();
    let mut summary = summaries.remove(c).unwrap().unwrap();
    let mut lanes = ledger.lanes(c).await.unwrap();
    summary.lanes.sort_by_key(|(lane, _)| *lane);
    lanes.sort_by_key(|(lane, _)| *lane);
    assert_eq!(lanes.len(), 3);
    let one_by_one = ClusterSummary {
        meta: ledger.meta(c).await.unwrap(),
        beat: ledger.relay_beat(c).await.unwrap(),
        lanes,
        memory: ledger.sweep_memory(c).await.unwrap(),
    };
    assert_eq!(summary, one_by_one, "L5");
    let nothing = summaries.remove(&unknown).unwrap().unwrap();
    assert_eq!(nothing, ClusterSummary::default(), "L5: no rows");
}

pub async fn l5_summaries_of_many_clusters_are_complete(ledger: &dyn Ledger, c: &ClusterName) {
    let name = |number: usize| ClusterName(format!("{c}-{number}"));
    let due = |number: usize| at(i64::try_from(number).unwrap());
    for number in 0..MANY {
        let (cluster, when) = (name(number), due(number));
        let written = ledger.make_due(&cluster, Lane::Provisioner, when).await;
        written.unwrap();
    }
    let clusters: BTreeSet<ClusterName> = (0..MANY).map(name).collect();
    let summaries = ledger.cluster_summaries(&clusters).await.unwrap();
    assert_eq!(summaries.len(), MANY, "L5: every cluster has an answer");
    for number in 0..MANY {
        let summary = summaries.get(&name(number)).unwrap().as_ref().unwrap();
        let (lane, row) = summary.lanes.first().unwrap();
        assert_eq!(
            (*lane, row.due),
            (Lane::Provisioner, Some(due(number))),
            "L5: each summary has its cluster's rows"
        );
    }
    assert!(
        ledger
            .cluster_summaries(&BTreeSet::new())
            .await
            .unwrap()
            .is_empty()
    );
}
