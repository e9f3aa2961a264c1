//! Lanes: leases, due times, and the counters that a full look records (docs/protocol.md#lanes).

use model::{
    ClusterName, Lane, NanosPerHour,
    ledger::{CandidateRank, Cursor, PoolProgress, RelayCounter},
};
use ports::{
    Ledger,
    ledger::{Ended, LaneEnd, Taken, Unfenced},
};

use super::{activate, at, commit, due, end, intent, lease, notice, turn};

pub async fn l1_live_lease_excludes_other_turns_and_requests_another(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let lane = Lane::Provisioner;
    assert!(
        matches!(
            ledger
                .take_lane(c, lane, &lease("t1", 60), at(0))
                .await
                .unwrap(),
            Taken::Mine(_)
        ),
        "L1: free"
    );
    assert_eq!(
        ledger
            .take_lane(c, lane, &lease("t2", 70), at(10))
            .await
            .unwrap(),
        Taken::Held,
        "L1: held"
    );
    assert!(
        matches!(
            ledger
                .take_lane(c, lane, &lease("t1", 90), at(10))
                .await
                .unwrap(),
            Taken::Mine(_)
        ),
        "L1: mine already"
    );
    assert_eq!(
        ledger
            .end_lane(c, lane, &turn("t1"), &end(20, None))
            .await
            .unwrap(),
        Ended { again: true },
        "L1: again"
    );
    assert_eq!(due(ledger, c, lane).await, Some(at(20)), "L2: due at once");
    assert!(matches!(
        ledger
            .take_lane(c, lane, &lease("t2", 70), at(21))
            .await
            .unwrap(),
        Taken::Mine(_)
    ));
    assert_eq!(
        ledger
            .end_lane(c, lane, &turn("t2"), &end(22, None))
            .await
            .unwrap(),
        Ended { again: false }
    );
    // Lanes do not share leases.
    assert!(matches!(
        ledger
            .take_lane(c, lane, &lease("t3", 90), at(30))
            .await
            .unwrap(),
        Taken::Mine(_)
    ));
    assert!(matches!(
        ledger
            .take_lane(c, Lane::Lifecycle, &lease("t4", 90), at(30))
            .await
            .unwrap(),
        Taken::Mine(_)
    ));
}

pub async fn l1_expired_lease_is_free(ledger: &dyn Ledger, c: &ClusterName) {
    let lane = Lane::Lifecycle;
    assert!(matches!(
        ledger
            .take_lane(c, lane, &lease("t1", 60), at(0))
            .await
            .unwrap(),
        Taken::Mine(_)
    ));
    let Taken::Mine(_) = ledger
        .take_lane(c, lane, &lease("t2", 120), at(60))
        .await
        .unwrap()
    else {
        panic!("L1: a lease that ends now has lapsed")
    };
    assert_eq!(
        ledger
            .end_lane(c, lane, &turn("t1"), &end(61, None))
            .await
            .unwrap(),
        Ended { again: false },
        "L2: the old holder ends nothing"
    );
    assert_eq!(
        ledger
            .take_lane(c, lane, &lease("t3", 130), at(62))
            .await
            .unwrap(),
        Taken::Held,
        "L2: t2 still holds it"
    );
}

pub async fn l2_end_returns_again_and_needs_the_lease(ledger: &dyn Ledger, c: &ClusterName) {
    let lane = Lane::Disruption;
    ledger
        .take_lane(c, lane, &lease("t1", 60), at(0))
        .await
        .unwrap();
    let failed = LaneEnd {
        error: Some("no answer".into()),
        ..end(5, Some(30))
    };
    ledger
        .end_lane(c, lane, &turn("t1"), &failed)
        .await
        .unwrap();
    let Taken::Mine(row) = ledger
        .take_lane(c, lane, &lease("t2", 60), at(6))
        .await
        .unwrap()
    else {
        panic!("L2: ending frees the lane")
    };
    assert_eq!(
        (row.failures, row.last_error.as_deref()),
        (1, Some("no answer")),
        "L2: the outcome is recorded"
    );
    assert_eq!(
        row.due,
        Some(at(30)),
        "taking the lane returns the due time"
    );
    let partial = LaneEnd {
        partial: true,
        ..end(6, Some(30))
    };
    ledger
        .end_lane(c, lane, &turn("t2"), &partial)
        .await
        .unwrap();
    let Taken::Mine(row) = ledger
        .take_lane(c, lane, &lease("t2", 60), at(6))
        .await
        .unwrap()
    else {
        panic!("L2: ending frees the lane")
    };
    assert_eq!(
        (row.failures, row.last_error.as_deref()),
        (1, Some("no answer")),
        "L2: the success of a partial turn forgives no failure"
    );
    ledger
        .end_lane(c, lane, &turn("t2"), &end(7, None))
        .await
        .unwrap();
    let Taken::Mine(row) = ledger
        .take_lane(c, lane, &lease("t3", 60), at(8))
        .await
        .unwrap()
    else {
        panic!("L2")
    };
    assert_eq!(
        (row.failures, row.due),
        (0, None),
        "L2: success ends the failures, and nothing is due"
    );
}

pub async fn l2_wakes_requested_during_a_turn_survive_its_end(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let lane = Lane::Terminator;
    ledger.make_due(c, lane, at(1)).await.unwrap();
    ledger
        .take_lane(c, lane, &lease("t1", 60), at(2))
        .await
        .unwrap();
    ledger.make_due(c, lane, at(10)).await.unwrap();
    ledger
        .end_lane(c, lane, &turn("t1"), &end(3, Some(600)))
        .await
        .unwrap();
    assert_eq!(
        due(ledger, c, lane).await,
        Some(at(10)),
        "L2, L4: the earliest of the turn's own due time and those requested in the meantime"
    );
    ledger
        .take_lane(c, lane, &lease("t2", 60), at(11))
        .await
        .unwrap();
    ledger
        .end_lane(c, lane, &turn("t2"), &end(12, Some(600)))
        .await
        .unwrap();
    assert_eq!(
        due(ledger, c, lane).await,
        Some(at(600)),
        "wakes requested before a turn are consumed by it"
    );
}

pub async fn l3_due_times_only_move_earlier(ledger: &dyn Ledger, c: &ClusterName) {
    for (when, expected) in [(50, 50), (80, 50), (20, 20)] {
        ledger.make_due(c, Lane::Lifecycle, at(when)).await.unwrap();
        assert_eq!(
            due(ledger, c, Lane::Lifecycle).await,
            Some(at(expected)),
            "L3"
        );
    }
}

pub async fn l4_recorded_acts_make_their_lane_due(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    ledger.commit(c, &commit("p", 0, &["a"])).await.unwrap();
    assert_eq!(
        due(ledger, c, Lane::Provisioner).await,
        Some(at(60)),
        "L4: intents"
    );
    let acts = Unfenced {
        turn: turn("t1"),
        commands: Vec::new(),
        notices: vec![notice("i-1")],
        due: vec![(Lane::Terminator, at(5)), (Lane::Provisioner, at(6))],
    };
    ledger.record_unfenced(c, &acts).await.unwrap();
    assert_eq!(
        due(ledger, c, Lane::Terminator).await,
        Some(at(5)),
        "L4: notices"
    );
    assert_eq!(
        due(ledger, c, Lane::Provisioner).await,
        Some(at(6)),
        "L4: notices"
    );
    ledger
        .adopt_intent(c, &intent("hand-made", "t1"), Lane::Lifecycle, at(7))
        .await
        .unwrap();
    assert_eq!(
        due(ledger, c, Lane::Lifecycle).await,
        Some(at(7)),
        "L4: adopted intents"
    );
}

pub async fn l6_full_look_records_counters_read_at_its_start(ledger: &dyn Ledger, c: &ClusterName) {
    let seen = RelayCounter {
        epoch: "e".into(),
        seq: 7,
    };
    ledger
        .take_lane(c, Lane::Lifecycle, &lease("t1", 60), at(0))
        .await
        .unwrap();
    let full_look_end = LaneEnd {
        full_look: Some(seen.clone()),
        ..end(3, None)
    };
    ledger
        .end_lane(c, Lane::Lifecycle, &turn("t1"), &full_look_end)
        .await
        .unwrap();
    ledger
        .take_lane(c, Lane::Lifecycle, &lease("t2", 60), at(4))
        .await
        .unwrap();
    ledger
        .end_lane(c, Lane::Lifecycle, &turn("t2"), &end(9, None))
        .await
        .unwrap();
    let lanes = ledger.lanes(c).await.unwrap();
    let row = &lanes
        .iter()
        .find(|(lane, _)| *lane == Lane::Lifecycle)
        .unwrap()
        .1;
    assert_eq!(
        (row.seen.as_ref(), row.last_full_look),
        (Some(&seen), Some(at(3))),
        "L6: other turns leave it alone"
    );
}

pub async fn cursor_is_kept_until_a_turn_ends_without_one(ledger: &dyn Ledger, c: &ClusterName) {
    let cursor = Cursor::Single(
        [(
            "default".into(),
            PoolProgress {
                nodes: 3,
                last: CandidateRank {
                    price: NanosPerHour(200_000_000),
                    disruption: 4,
                    node: "node".into(),
                },
            },
        )]
        .into(),
    );
    let mut found = Vec::new();
    for (name, due, left) in [
        ("t1", None, Some(&cursor)),
        ("t2", Some(30), Some(&cursor)),
        ("t3", Some(30), None),
        ("t4", None, None),
    ] {
        let taken = ledger
            .take_lane(c, Lane::Disruption, &lease(name, 60), at(0))
            .await
            .unwrap();
        let Taken::Mine(row) = taken else {
            panic!("{taken:?}");
        };
        found.push(row.cursor);
        let ended = LaneEnd {
            cursor: left.cloned(),
            ..end(1, due)
        };
        ledger
            .end_lane(c, Lane::Disruption, &turn(name), &ended)
            .await
            .unwrap();
    }
    assert_eq!(found, [None, Some(cursor.clone()), Some(cursor), None]);
}
