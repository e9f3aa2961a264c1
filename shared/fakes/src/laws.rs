//! What every ledger must obey, as tests at the level of the port: run [`ledger_laws`] against an implementation that can
//! hold new clusters. Each law is one rule of the protocol; a law that does not hold panics with the rule's name.
#![expect(clippy::unwrap_used, reason = "a law that cannot be tested has failed")]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, InstanceId, Lane, NanosPerHour, NodeClaimName, Plan, Resources, Uid,
    ids::{LaunchToken, PlanId, TurnId},
    launch::{AllocationStrategy, FleetRequest},
    ledger::{
        Call, Command, CommandState, Holder, Intent, IntentState, Lease, Mode, Notice, OfferingKey,
        RelayCounter, SweepMemory,
    },
    node_claim::NodeClaimSpec,
    plan::{ExpectedOffering, Launch},
};
use ports::{
    Ledger,
    ledger::{Commit, Committed, Ended, JournalEntry, LaneEnd, Moved, Record, Taken, Unfenced},
};

/// All laws, each with a cluster of its own whose name begins with `prefix`.
pub async fn ledger_laws(ledger: &dyn Ledger, prefix: &str) {
    let cluster = |law: &str| ClusterName(format!("{prefix}{law}"));
    l1_a_live_lease_keeps_others_out_and_asks_for_another_turn(ledger, &cluster("l1")).await;
    l1_a_lapsed_lease_is_free(ledger, &cluster("l1-lapsed")).await;
    l2_ending_answers_again_and_is_void_without_the_lease(ledger, &cluster("l2")).await;
    l2_what_others_ask_for_during_a_turn_survives_its_end(ledger, &cluster("l2-due")).await;
    l3_due_times_only_move_earlier(ledger, &cluster("l3")).await;
    l4_what_obliges_makes_its_lane_due(ledger, &cluster("l4")).await;
    l6_a_full_look_records_the_counters_it_began_with(ledger, &cluster("l6")).await;
    c1_a_commit_needs_its_generation_and_the_active_mode(ledger, &cluster("c1")).await;
    c1_rows_of_a_plan_that_lost_are_never_seen(ledger, &cluster("c1-lost")).await;
    c1_a_large_plan_is_committed_whole(ledger, &cluster("c1-large")).await;
    c2_what_was_committed_since_is_answered_in_order(ledger, &cluster("c2")).await;
    c3_unfenced_acts_bump_the_generation_once(ledger, &cluster("c3")).await;
    the_mirror_of_the_registry_keeps_generation_and_pause(ledger, &cluster("mirror")).await;
    intents_advance_only_under_their_lease(ledger, &cluster("intent")).await;
    a1_a_hand_made_claim_is_adopted_once(ledger, &cluster("a1")).await;
    a2_freezing_moves_all_members_or_none(ledger, &cluster("a2")).await;
    a4_owner_and_claim_name_each_other_or_nothing_is_written(ledger, &cluster("a4")).await;
    g1_adopter_and_collector_cannot_both_win(ledger, &cluster("g1")).await;
    g4_strangers_are_remembered_until_then(ledger, &cluster("g4")).await;
    d1_commands_move_only_from_where_they_are(ledger, &cluster("d1")).await;
    missing_capacity_is_remembered_longer_each_time(ledger, prefix).await;
    small_memories_hold(ledger, &cluster("small")).await;
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn lease(owner: &str, until: i64) -> Lease {
    Lease {
        owner: turn(owner),
        until: at(until),
    }
}

fn turn(name: &str) -> TurnId {
    TurnId::from(name)
}

fn end(now: i64, due: Option<i64>) -> LaneEnd {
    LaneEnd {
        now: at(now),
        due: due.map(at),
        error: None,
        full_look: None,
    }
}

async fn due(ledger: &dyn Ledger, cluster: &ClusterName, lane: Lane) -> Option<Timestamp> {
    let lanes = ledger.lanes(cluster).await.unwrap();
    lanes
        .into_iter()
        .find(|(other, _)| *other == lane)
        .and_then(|(_, row)| row.due)
}

async fn activate(ledger: &dyn Ledger, cluster: &ClusterName) {
    ledger
        .mirror_registry(
            cluster,
            &serde_json::json!({"mode": "active"}),
            &Mode::Active,
        )
        .await
        .unwrap();
}

fn launch(name: &str) -> Launch {
    Launch {
        name: name.into(),
        node_pool: "default".into(),
        node_pool_uid: "pool-uid".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec::default(),
        pods: Vec::new(),
        instance_types: vec!["m5.large".into()],
        cheapest: ExpectedOffering {
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::OnDemand,
            zone: "us-east-1a".into(),
            price: NanosPerHour(96_000_000),
            capacity: Resources::default(),
        },
    }
}

fn intent(name: &str, owner: &str) -> Intent {
    Intent {
        plan: "plan".into(),
        generation: 1,
        launch: launch(name),
        state: IntentState::Intended,
        lease: Some(lease(owner, 60)),
        committed_at: at(0),
    }
}

fn commit(id: &str, base: u64, names: &[&str]) -> Commit {
    Commit {
        id: PlanId::from(id),
        turn: turn("t1"),
        base,
        plan: Plan::default(),
        intents: names.iter().map(|name| intent(name, "t1")).collect(),
        commands: Vec::new(),
        due: vec![(Lane::Provisioner, at(60))],
        now: at(0),
    }
}

fn call(token: &str, members: &[&str]) -> Call {
    Call {
        request: FleetRequest {
            cluster: "c".into(),
            token: token.into(),
            node_class: "default".into(),
            capacity_type: CapacityType::OnDemand,
            target_capacity: 1,
            allocation: Some(AllocationStrategy::LowestPrice),
            context: None,
            templates: Vec::new(),
            tags: BTreeMap::new(),
        },
        attempt: 1,
        members: members
            .iter()
            .map(|name| NodeClaimName::from(*name))
            .collect(),
        frozen_at: at(0),
        lease: Some(lease("t1", 60)),
        closed: false,
    }
}

fn claimed(name: &str) -> IntentState {
    IntentState::Claimed {
        uid: Uid(format!("{name}-uid")),
        attempt: 1,
    }
}

/// Two intents in `claimed`, leased by `t1`.
async fn claim_two(ledger: &dyn Ledger, cluster: &ClusterName) {
    activate(ledger, cluster).await;
    assert_eq!(
        ledger
            .commit(cluster, &commit("p", 0, &["a", "b"]))
            .await
            .unwrap(),
        Committed::At(1)
    );
    for name in ["a", "b"] {
        let moved = ledger
            .move_intent(cluster, &turn("t1"), &intent(name, "t1"), &claimed(name))
            .await
            .unwrap();
        assert_eq!(moved, Moved::Yes, "the holder moves its intent");
    }
}

async fn state(ledger: &dyn Ledger, cluster: &ClusterName, name: &str) -> IntentState {
    ledger
        .intent(cluster, &name.into())
        .await
        .unwrap()
        .unwrap()
        .state
}

pub async fn l1_a_live_lease_keeps_others_out_and_asks_for_another_turn(
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

pub async fn l1_a_lapsed_lease_is_free(ledger: &dyn Ledger, c: &ClusterName) {
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

pub async fn l2_ending_answers_again_and_is_void_without_the_lease(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
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
    assert_eq!(row.due, Some(at(30)), "taking answers the due time");
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

pub async fn l2_what_others_ask_for_during_a_turn_survives_its_end(
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
        "L2, L4: the earliest of its own and those asked for meanwhile"
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
        "what was asked for before a turn is done with it"
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

pub async fn l4_what_obliges_makes_its_lane_due(ledger: &dyn Ledger, c: &ClusterName) {
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

pub async fn l6_a_full_look_records_the_counters_it_began_with(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let seen = RelayCounter {
        epoch: "e".into(),
        seq: 7,
    };
    ledger
        .take_lane(c, Lane::Lifecycle, &lease("t1", 60), at(0))
        .await
        .unwrap();
    let looked = LaneEnd {
        full_look: Some(seen.clone()),
        ..end(3, None)
    };
    ledger
        .end_lane(c, Lane::Lifecycle, &turn("t1"), &looked)
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

pub async fn c1_a_commit_needs_its_generation_and_the_active_mode(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    assert_eq!(
        ledger.commit(c, &commit("p0", 0, &[])).await.unwrap(),
        Committed::NotActive,
        "C1: no META"
    );
    ledger
        .mirror_registry(c, &serde_json::json!({}), &Mode::Shadow)
        .await
        .unwrap();
    assert_eq!(
        ledger.commit(c, &commit("p0", 0, &[])).await.unwrap(),
        Committed::NotActive,
        "C1: shadow"
    );
    activate(ledger, c).await;
    assert_eq!(
        ledger.commit(c, &commit("p1", 0, &["a"])).await.unwrap(),
        Committed::At(1),
        "C1"
    );
    assert_eq!(
        ledger.commit(c, &commit("p1", 0, &["a"])).await.unwrap(),
        Committed::At(1),
        "one's own id means success"
    );
    assert_eq!(
        ledger.commit(c, &commit("p2", 0, &["b"])).await.unwrap(),
        Committed::Raced { generation: 1 },
        "C1"
    );
    assert_eq!(
        ledger.commit(c, &commit("p2", 1, &["b"])).await.unwrap(),
        Committed::At(2),
        "C1"
    );
    assert_eq!(ledger.meta(c).await.unwrap().unwrap().generation, 2);
}

pub async fn c1_rows_of_a_plan_that_lost_are_never_seen(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    ledger.commit(c, &commit("won", 0, &["a"])).await.unwrap();
    let names: Vec<String> = (0..150).map(|n| format!("lost-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        ledger.commit(c, &commit("lost", 0, &names)).await.unwrap(),
        Committed::Raced { generation: 1 }
    );
    let seen: Vec<_> = ledger
        .intents(c)
        .await
        .unwrap()
        .into_iter()
        .map(|intent| intent.name().0.clone())
        .collect();
    assert_eq!(seen, ["a"], "C1: rows count only with their header");
    assert_eq!(
        ledger.intent(c, &"lost-3".into()).await.unwrap(),
        None,
        "C1: rows count only with their header"
    );
}

pub async fn c1_a_large_plan_is_committed_whole(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let names: Vec<String> = (0..150).map(|n| format!("n-{n:03}")).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        ledger.commit(c, &commit("large", 0, &refs)).await.unwrap(),
        Committed::At(1)
    );
    let mut seen: Vec<_> = ledger
        .intents(c)
        .await
        .unwrap()
        .into_iter()
        .map(|intent| intent.name().0.clone())
        .collect();
    seen.sort();
    assert_eq!(seen, names, "C1: more than a transaction holds");
    let moved = ledger
        .move_intent(c, &turn("t1"), &intent("n-120", "t1"), &claimed("n-120"))
        .await
        .unwrap();
    assert_eq!(moved, Moved::Yes, "C1: early rows advance like others");
}

pub async fn c2_what_was_committed_since_is_answered_in_order(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    activate(ledger, c).await;
    for base in 0..3 {
        let name = format!("n{base}");
        let mut commit = commit(&format!("p{base}"), base, &[&name]);
        commit.plan.actions.push(model::plan::Planned {
            action: model::Action::Launch(Box::new(launch(&name))),
            because: "pods wait".into(),
        });
        ledger.commit(c, &commit).await.unwrap();
    }
    let since = ledger.committed_since(c, 1).await.unwrap();
    let launched: Vec<_> = since
        .iter()
        .map(|record| match record {
            Record::Plan { generation, plan } => (*generation, plan.actions.len()),
            Record::Unfenced { generation, .. } => (*generation, 0),
        })
        .collect();
    assert_eq!(launched, [(2, 1), (3, 1)], "C2: plans are data");
}

fn notice(instance: &str) -> Notice {
    Notice {
        instance: instance.into(),
        kind: "spot-interruption".into(),
        deadline: Some(at(120)),
        done: false,
    }
}

fn command(id: &str) -> Command {
    Command {
        id: id.into(),
        reason: "Empty".into(),
        delete: Vec::new(),
        replacements: Vec::new(),
        state: CommandState::Replacing,
        committed_at: at(0),
    }
}

pub async fn c3_unfenced_acts_bump_the_generation_once(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let acts = Unfenced {
        turn: turn("t1"),
        commands: vec![command("c1")],
        notices: vec![notice("i-1"), notice("i-2")],
        due: vec![(Lane::Terminator, at(0))],
    };
    assert_eq!(
        ledger.record_unfenced(c, &acts).await.unwrap(),
        1,
        "C3: once per batch"
    );
    assert_eq!(
        ledger.record_unfenced(c, &acts).await.unwrap(),
        1,
        "C3: recorded already"
    );
    let more = Unfenced {
        notices: vec![notice("i-2"), notice("i-3")],
        ..acts.clone()
    };
    assert_eq!(
        ledger.record_unfenced(c, &more).await.unwrap(),
        2,
        "C3: something new"
    );
    assert_eq!(ledger.notices(c).await.unwrap().len(), 3);
    assert_eq!(
        ledger.commit(c, &commit("p", 0, &[])).await.unwrap(),
        Committed::Raced { generation: 2 },
        "C3: fences"
    );
    let since = ledger.committed_since(c, 1).await.unwrap();
    let Some(Record::Unfenced {
        generation: 2,
        notices,
        ..
    }) = since.first()
    else {
        panic!("C2: unfenced records are answered too, not {since:?}")
    };
    assert_eq!(notices, &[notice("i-3")]);
    ledger
        .finish_notice(c, &"i-1".into(), "spot-interruption")
        .await
        .unwrap();
    assert_eq!(
        ledger.notices(c).await.unwrap().len(),
        2,
        "finished notices oblige nobody"
    );
    assert_eq!(
        ledger.record_unfenced(c, &acts).await.unwrap(),
        2,
        "a late copy of a finished notice is nothing new"
    );
    assert_eq!(ledger.notices(c).await.unwrap().len(), 2);
}

pub async fn the_mirror_of_the_registry_keeps_generation_and_pause(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    activate(ledger, c).await;
    ledger.commit(c, &commit("p", 0, &[])).await.unwrap();
    let entry = serde_json::json!({"mode": "shadow", "unknown": {"kept": [1, 2]}});
    ledger
        .mirror_registry(c, &entry, &Mode::Shadow)
        .await
        .unwrap();
    let meta = ledger.meta(c).await.unwrap().unwrap();
    assert_eq!(
        (meta.generation, meta.mode, meta.registry),
        (1, Mode::Shadow, entry)
    );
    assert!(
        ledger.clusters().await.unwrap().contains(c),
        "mirrored clusters are listed"
    );
}

pub async fn intents_advance_only_under_their_lease(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    ledger.commit(c, &commit("p", 0, &["a"])).await.unwrap();
    let a = intent("a", "t1");
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::No,
        "not my lease"
    );
    assert_eq!(
        ledger
            .lease_intent(c, &"a".into(), &lease("t2", 90), at(10))
            .await
            .unwrap(),
        None,
        "a live lease"
    );
    let taken = ledger
        .lease_intent(c, &"a".into(), &lease("t2", 120), at(60))
        .await
        .unwrap();
    assert_eq!(taken.unwrap().lease, Some(lease("t2", 120)), "a lapsed one");
    assert_eq!(
        ledger
            .move_intent(c, &turn("t1"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::No,
        "the old holder"
    );
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::Yes
    );
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::Yes,
        "as asked for already"
    );
    let void = IntentState::Void { why: "gone".into() };
    assert_eq!(
        ledger.move_intent(c, &turn("t2"), &a, &void).await.unwrap(),
        Moved::No,
        "not the state it was read in"
    );
    let now = Intent {
        state: claimed("a"),
        ..a.clone()
    };
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &now, &void)
            .await
            .unwrap(),
        Moved::Yes
    );
    let row = ledger.intent(c, &"a".into()).await.unwrap().unwrap();
    assert_eq!(
        (row.state, row.lease),
        (void, None),
        "terminal states release the lease"
    );
    ledger.forget_claim(c, &"a".into()).await.unwrap();
    assert_eq!(ledger.intents(c).await.unwrap(), []);
    assert_eq!(
        ledger
            .lease_intent(c, &"a".into(), &lease("t2", 200), at(130))
            .await
            .unwrap(),
        None,
        "nothing to lease"
    );
}

pub async fn a1_a_hand_made_claim_is_adopted_once(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let mine = intent("hand-made", "t1");
    let theirs = intent("hand-made", "t2");
    assert_eq!(
        ledger
            .adopt_intent(c, &mine, Lane::Lifecycle, at(0))
            .await
            .unwrap(),
        Moved::Yes,
        "A1"
    );
    assert_eq!(
        ledger
            .adopt_intent(c, &theirs, Lane::Lifecycle, at(0))
            .await
            .unwrap(),
        Moved::No,
        "A1: put-if-absent"
    );
    assert_eq!(
        ledger
            .adopt_intent(c, &mine, Lane::Lifecycle, at(0))
            .await
            .unwrap(),
        Moved::Yes,
        "A1: mine already"
    );
    assert_eq!(
        ledger.intent(c, &"hand-made".into()).await.unwrap(),
        Some(mine)
    );
}

pub async fn a2_freezing_moves_all_members_or_none(ledger: &dyn Ledger, c: &ClusterName) {
    claim_two(ledger, c).await;
    let frozen = call("token", &["a", "b"]);
    assert_eq!(
        ledger.freeze(c, &turn("t2"), &frozen).await.unwrap(),
        Moved::No,
        "A2: my lease on each"
    );
    let three = call("token", &["a", "b", "missing"]);
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &three).await.unwrap(),
        Moved::No,
        "A2: all or none"
    );
    assert_eq!(state(ledger, c, "a").await, claimed("a"), "A2: all or none");
    let second = Call {
        attempt: 2,
        ..frozen.clone()
    };
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &second).await.unwrap(),
        Moved::No,
        "A2: another attempt"
    );
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &frozen).await.unwrap(),
        Moved::Yes,
        "A2"
    );
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &frozen).await.unwrap(),
        Moved::Yes,
        "A2: frozen already, by me"
    );
    let launching = IntentState::Launching {
        uid: "b-uid".into(),
        attempt: 1,
        token: "token".into(),
    };
    assert_eq!(state(ledger, c, "b").await, launching);
    assert_eq!(ledger.open_calls(c).await.unwrap(), vec![frozen.clone()]);
    let other = call("other", &["a"]);
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &other).await.unwrap(),
        Moved::No,
        "A2: never regrouped"
    );

    let token = LaunchToken::from("token");
    assert_eq!(
        ledger
            .lease_call(c, &token, &lease("t2", 90), at(10))
            .await
            .unwrap(),
        None,
        "a live lease"
    );
    assert_eq!(
        ledger.close_call(c, &token, &turn("t2")).await.unwrap(),
        Moved::No,
        "not my lease"
    );
    assert!(
        ledger
            .lease_call(c, &token, &lease("t2", 120), at(61))
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        ledger.close_call(c, &token, &turn("t2")).await.unwrap(),
        Moved::Yes
    );
    assert_eq!(ledger.open_calls(c).await.unwrap(), []);
    assert_eq!(
        ledger
            .lease_call(c, &token, &lease("t3", 300), at(200))
            .await
            .unwrap(),
        None,
        "a closed call stays closed"
    );
    assert!(
        ledger.call(c, &token).await.unwrap().unwrap().closed,
        "G3: it still explains its instances"
    );
}

pub async fn a4_owner_and_claim_name_each_other_or_nothing_is_written(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    claim_two(ledger, c).await;
    let (a, b) = (NodeClaimName::from("a"), NodeClaimName::from("b"));
    let one = InstanceId(format!("i-{c}-1"));
    let two = InstanceId(format!("i-{c}-2"));
    let token = LaunchToken::from("token");
    assert_eq!(
        ledger.own(c, &a, &one, &token).await.unwrap(),
        Moved::No,
        "A4: not launching"
    );
    ledger
        .freeze(c, &turn("t1"), &call("token", &["a", "b"]))
        .await
        .unwrap();
    assert_eq!(
        ledger.own(c, &a, &one, &"other".into()).await.unwrap(),
        Moved::No,
        "A4: not this attempt"
    );
    assert_eq!(ledger.owner(&one).await.unwrap(), None);
    assert_eq!(
        ledger.own(c, &a, &one, &token).await.unwrap(),
        Moved::Yes,
        "A4"
    );
    assert_eq!(
        ledger.own(c, &a, &one, &token).await.unwrap(),
        Moved::Yes,
        "A4: the same again"
    );
    assert_eq!(
        ledger.own(c, &b, &one, &token).await.unwrap(),
        Moved::No,
        "A4: owned by another"
    );
    assert_eq!(
        ledger.own(c, &a, &two, &token).await.unwrap(),
        Moved::No,
        "A4: the claim has one"
    );
    assert_eq!(
        ledger.owner(&two).await.unwrap(),
        None,
        "A4: nothing is half written"
    );
    assert_eq!(
        ledger.claim(c, &b).await.unwrap(),
        None,
        "A4: nothing is half written"
    );
    assert_eq!(
        ledger.owner(&one).await.unwrap().unwrap().holder,
        Holder::Claim(a.clone())
    );
    assert_eq!(ledger.claim(c, &a).await.unwrap().unwrap().instance, one);
}

pub async fn g1_adopter_and_collector_cannot_both_win(ledger: &dyn Ledger, c: &ClusterName) {
    claim_two(ledger, c).await;
    ledger
        .freeze(c, &turn("t1"), &call("token", &["a", "b"]))
        .await
        .unwrap();
    let (a, token) = (NodeClaimName::from("a"), LaunchToken::from("token"));
    let adopted = InstanceId(format!("i-{c}-1"));
    let orphan = InstanceId(format!("i-{c}-2"));
    ledger.own(c, &a, &adopted, &token).await.unwrap();
    assert_eq!(
        ledger.collect(c, &adopted).await.unwrap(),
        Moved::No,
        "G1: its claim is open"
    );
    assert_eq!(
        ledger.collect(c, &orphan).await.unwrap(),
        Moved::Yes,
        "G1: put-if-absent"
    );
    assert_eq!(
        ledger.collect(c, &orphan).await.unwrap(),
        Moved::Yes,
        "G1: taken already"
    );
    assert_eq!(
        ledger.own(c, &"b".into(), &orphan, &token).await.unwrap(),
        Moved::No,
        "G1: nobody adopts it any more"
    );
    ledger.close_claim(c, &a).await.unwrap();
    assert_eq!(
        ledger.collect(c, &adopted).await.unwrap(),
        Moved::Yes,
        "G1: its claim is closed"
    );
    assert_eq!(
        ledger.owner(&adopted).await.unwrap().unwrap().holder,
        Holder::Collector
    );
}

pub async fn g4_strangers_are_remembered_until_then(ledger: &dyn Ledger, c: &ClusterName) {
    let stranger = InstanceId(format!("i-{c}-9"));
    assert!(!ledger.is_not_ours(&stranger, at(0)).await.unwrap());
    ledger.remember_not_ours(&stranger, at(60)).await.unwrap();
    assert!(ledger.is_not_ours(&stranger, at(59)).await.unwrap(), "G4");
    assert!(
        !ledger.is_not_ours(&stranger, at(60)).await.unwrap(),
        "G4: expiry is a number compared"
    );
    assert_eq!(
        ledger.owner(&stranger).await.unwrap(),
        None,
        "G4: in its own row"
    );
}

pub async fn d1_commands_move_only_from_where_they_are(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let commit = Commit {
        commands: vec![command("c1")],
        ..commit("p", 0, &[])
    };
    ledger.commit(c, &commit).await.unwrap();
    let replacing = command("c1");
    assert_eq!(
        ledger
            .move_command(c, &replacing, CommandState::Deleting)
            .await
            .unwrap(),
        Moved::Yes,
        "D1"
    );
    assert_eq!(
        ledger
            .move_command(c, &replacing, CommandState::RolledBack)
            .await
            .unwrap(),
        Moved::No,
        "D1: no rollback once it deletes"
    );
    assert_eq!(
        ledger.commands(c).await.unwrap().first().unwrap().state,
        CommandState::Deleting
    );
}

pub async fn missing_capacity_is_remembered_longer_each_time(ledger: &dyn Ledger, prefix: &str) {
    let key = OfferingKey {
        capacity_type: CapacityType::Spot,
        instance_type: format!("{prefix}.large"),
        zone_id: "use1-az1".into(),
        scope: None,
    };
    let known = async |now: i64| {
        let all = ledger.unavailable_offerings(at(now)).await.unwrap();
        all.into_iter().find(|entry| entry.offering == key)
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

pub async fn small_memories_hold(ledger: &dyn Ledger, c: &ClusterName) {
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

    ledger
        .nominate(
            c,
            &BTreeMap::from([("n1".into(), at(20)), ("n2".into(), at(30))]),
            at(0),
        )
        .await
        .unwrap();
    ledger
        .nominate(
            c,
            &BTreeMap::from([("n1".into(), at(40)), ("n2".into(), at(10))]),
            at(1),
        )
        .await
        .unwrap();
    let nominated = ledger.nominations(c, at(25)).await.unwrap();
    assert_eq!(
        nominated,
        BTreeMap::from([("n1".into(), at(40)), ("n2".into(), at(30))]),
        "later times win"
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

    let entry = JournalEntry {
        turn: turn("t1"),
        at: at(0),
        lane: Lane::Provisioner,
        body: serde_json::json!({"planned": ["launch"]}),
    };
    ledger.journal(c, &entry).await.unwrap();
    assert_eq!(
        ledger.relay_beat(c).await.unwrap(),
        None,
        "only the relay writes its row"
    );
}
