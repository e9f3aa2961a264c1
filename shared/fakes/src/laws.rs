//! Contract tests of every ledger, at the level of the port: [`ledger_laws`] runs them against an implementation that can hold
//! new clusters. Each law is one rule of the protocol; a violated law panics with the rule's name.
#![expect(clippy::unwrap_used, reason = "a law that cannot be tested has failed")]

pub mod bounds;
pub mod cluster_summaries;
pub mod commits;
pub mod journal;
pub mod lanes;
pub mod launched;
pub mod launches;
pub mod memories;
pub mod pauses;
mod released;
pub mod spending;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    CapacityType, ClusterName, Lane, NodeClaimName, Plan, Uid,
    ids::{PlanId, TurnId},
    launch::{AllocationStrategy, FleetRequest},
    ledger::{Call, Command, CommandState, Intent, IntentState, Lease, Mode, Notice, PauseLevel},
    plan::Launch,
};
use ports::{
    Journal, Ledger, ObjectStore,
    ledger::{Commit, Committed, LaneEnd, Moved},
};

pub use bounds::lose_race_with_thousand_launches;
pub use released::one_of_each;

/// Runs all laws, each with a separate cluster whose name begins with `prefix`.
pub async fn ledger_laws(ledger: &dyn Ledger, prefix: &str) {
    let cluster = |law: &str| ClusterName(format!("{prefix}{law}"));
    lanes::l1_live_lease_excludes_other_turns_and_requests_another(ledger, &cluster("l1")).await;
    lanes::l1_expired_lease_is_free(ledger, &cluster("l1-lapsed")).await;
    lanes::l2_end_returns_again_and_needs_the_lease(ledger, &cluster("l2")).await;
    lanes::l2_wakes_requested_during_a_turn_survive_its_end(ledger, &cluster("l2-due")).await;
    lanes::l3_due_times_only_move_earlier(ledger, &cluster("l3")).await;
    lanes::l4_recorded_acts_make_their_lane_due(ledger, &cluster("l4")).await;
    lanes::cursor_is_kept_until_a_turn_ends_without_one(ledger, &cluster("cursor")).await;
    lanes::l6_full_look_records_counters_read_at_its_start(ledger, &cluster("l6")).await;
    cluster_summaries::l5_cluster_summary_equals_individual_reads(ledger, &cluster("l5")).await;
    cluster_summaries::l5_summaries_of_many_clusters_are_complete(ledger, &cluster("l5-many"))
        .await;
    commits::c1_commit_needs_its_generation_and_active_mode(ledger, &cluster("c1")).await;
    commits::c1_rows_of_a_plan_that_lost_are_never_read(ledger, &cluster("c1-lost")).await;
    commits::c1_large_plan_is_committed_completely(ledger, &cluster("c1-large")).await;
    commits::c2_committed_since_returns_records_in_order(ledger, &cluster("c2")).await;
    commits::c3_unfenced_acts_advance_the_generation_once(ledger, &cluster("c3")).await;
    bounds::c3_unfenced_acts_of_any_number_are_recorded(ledger, &cluster("c3-many")).await;
    bounds::c3_acts_with_thousands_of_targets_are_recorded(ledger, &cluster("c3-targets")).await;
    bounds::c3_finished_notice_reopens_for_another_event(ledger, &cluster("c3-again")).await;
    bounds::c1_plan_of_250_launches_is_committed_completely(ledger, &cluster("c1-250")).await;
    bounds::a1_forgetting_a_claim_keeps_launch_of_another_claim_of_that_name(
        ledger,
        &cluster("a1-forgotten"),
    )
    .await;
    commits::mirroring_the_registry_keeps_the_generation(ledger, &cluster("mirror")).await;
    pauses::c4_pause_rejects_commits_of_its_level_until_it_ends(ledger, &cluster("c4")).await;
    pauses::concurrent_pauses_do_not_overwrite_each_other(ledger, &cluster("pauses")).await;
    pauses::account_pauses_apply_to_every_cluster(ledger, &cluster("account")).await;
    pauses::requests_are_replaced_only_if_unchanged(ledger, &cluster("requests")).await;
    spending::concurrent_commits_of_two_clusters_conflict_on_spending(
        ledger,
        &cluster("spending-a"),
        &cluster("spending-b"),
    )
    .await;
    launches::intents_advance_only_under_their_lease(ledger, &cluster("intent")).await;
    launches::a1_manually_created_claim_is_adopted_once(ledger, &cluster("a1")).await;
    launches::a2_freezing_moves_all_members_or_none(ledger, &cluster("a2")).await;
    launched::o2_launched_intent_is_not_listed_with_open_intents(ledger, &cluster("o2")).await;
    launches::a4_owner_and_claim_name_each_other_or_nothing_is_written(ledger, &cluster("a4"))
        .await;
    launches::g1_adopter_and_collector_exclude_each_other(ledger, &cluster("g1")).await;
    memories::g4_unmanaged_instances_are_remembered_until_expiry(ledger, &cluster("g4")).await;
    commits::d1_command_changes_state_only_from_its_current_state(ledger, &cluster("d1")).await;
    commits::d1_command_is_deleted_only_if_unchanged(ledger, &cluster("d1-forgotten")).await;
    commits::d1_a_rollback_fences_plans_that_counted_on_the_nodes_to_leave(
        ledger,
        &cluster("d1-rollback"),
    )
    .await;
    commits::d1_initialized_replacements_are_recorded_until_command_changes_state(
        ledger,
        &cluster("d1-initialized"),
    )
    .await;
    commits::d1_proposal_is_read_back_completely_and_ends(ledger, &cluster("d1-proposed")).await;
    memories::unavailable_offering_is_avoided_longer_each_time(ledger, &cluster("ice")).await;
    memories::full_subnets_are_avoided_for_three_minutes(ledger, &cluster("subnet")).await;
    memories::least_measured_memory_is_shared_by_all_clusters(ledger, &cluster("memory")).await;
    memories::newer_evidence_replaces_a_clusters_older(ledger, &cluster("evidence")).await;
    memories::zonal_shift_applies_to_its_cluster_until_it_ends(ledger, &cluster("shift")).await;
    memories::call_budget_is_shared_and_refills_slower_after_throttling(ledger).await;
    memories::notification_is_stored_and_finished_once(ledger, &cluster("notified")).await;
    memories::markers_nominations_and_notes_are_kept(ledger, &cluster("small")).await;
}

/// Runs the laws of the journal: recorded decisions can be found later.
pub async fn journal_laws(ports: &dyn Journal, prefix: &str) {
    let cluster = |law: &str| ClusterName(format!("{prefix}journal-{law}"));
    journal::records_are_found_by_object_turn_and_time(ports, &cluster("found")).await;
    journal::turn_writes_records_for_several_lanes(ports, &cluster("lanes")).await;
}

/// Tests that a published object is read as it was last written.
pub async fn object_store_laws(object_store: &dyn ObjectStore) {
    let name = "laws/object";
    assert_eq!(object_store.get(name).await.unwrap(), None);
    object_store.put(name, b"older".to_vec()).await.unwrap();
    let object = "prices ".repeat(100_000).into_bytes();
    object_store.put(name, object.clone()).await.unwrap();
    assert_eq!(object_store.get(name).await.unwrap(), Some(object));
    assert_eq!(object_store.get("laws/other").await.unwrap(), None);
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
        partial: false,
        full_look: None,
        cursor: None,
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

/// A launch with the NodePool UID that rows of released versions have.
fn launch(name: &str) -> Launch {
    Launch {
        node_pool_uid: "pool-uid".into(),
        ..crate::launch("default", name)
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
        intents: names
            .iter()
            .map(|name| Intent {
                plan: PlanId::from(id),
                generation: base + 1,
                ..intent(name, "t1")
            })
            .collect(),
        commands: Vec::new(),
        due: vec![(Lane::Provisioner, at(60))],
        spending: None,
        held_by: PauseLevel::All,
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
            claim_annotations: BTreeMap::new(),
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

/// Commits two intents and moves both to `claimed`, leased by `t1`.
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

fn notice(instance: &str) -> Notice {
    Notice {
        instance: instance.into(),
        kind: "spot-interruption".into(),
        deadline: Some(at(120)),
        at: Some(at(0)),
        action: model::interruption::InterruptionAction::Drain,
        unmanaged: false,
        hook: None,
        event: String::new(),
        reboots: false,
        done: false,
    }
}

fn command(id: &str) -> Command {
    Command {
        reboot: None,
        id: id.into(),
        reason: "Empty".into(),
        delete: Vec::new(),
        replacements: Vec::new(),
        state: CommandState::Replacing,
        committed_at: at(0),
        choice: None,
        initialized: Vec::new(),
    }
}
