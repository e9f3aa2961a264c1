//! The account's budget of EC2 calls: a turn without budget reports that, loses nothing, and is repeated once calls are available
//! (docs/design.md#call-budget, docs/design.md#throttling).
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::sync::Arc;

use fakes::{Fault, Sim};
use jiff::Timestamp;
use ledger::RateLimiter;
use model::{
    Lane,
    budget::{Api, Priority},
    ledger::IntentState,
};
use ports::{Budget, ledger::BudgetLedger};
use stories::{Relay, Rig, all_bound, all_gone, consistent, secs, settled};
use turns::Outcome;

/// Seconds after which an exhausted budget has calls again.
const REFILL_SECONDS: i64 = 10;

/// Uses up the budget of one API.
async fn spend(sim: &Sim, api: Api) {
    let now = sim.with(|world| {
        world.budgeted = true;
        world.now
    });
    sim.draw(api, 1000, Priority::Interruption, now)
        .await
        .unwrap();
    sim.throttled(api, now).await.unwrap();
}

async fn run(rig: &mut Rig, lane: Lane) -> turns::Report {
    let turn = rig.next_turn();
    let deadline = rig.deadline(lane);
    turns::run(&rig.world, &Rig::cluster(), lane, &turn, deadline)
        .await
        .unwrap()
}

async fn with_pending_pods(pods: usize) -> Rig {
    let rig = Rig::ready(Relay::Dead).await;
    rig.scale(pods);
    rig.sim.advance(secs(1));
    rig.sim.take_wakes();
    rig
}

fn now(rig: &Rig) -> Timestamp {
    rig.sim.with(|world| world.now)
}

#[tokio::test]
async fn launch_waits_while_the_call_budget_is_exhausted() {
    let mut rig = with_pending_pods(1).await;
    spend(&rig.sim, Api::CreateFleet).await;
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(report.outcome, Outcome::Done);
    let stopped = report.stopped.unwrap_or_default();
    assert!(stopped.starts_with("CreateFleet waits until"), "{stopped}");
    let due = report.due.unwrap();
    assert!(
        due > now(&rig) && due <= now(&rig) + secs(REFILL_SECONDS),
        "{due}"
    );
    rig.sim.with(|world| {
        assert!(world.account.requests.is_empty());
        let rows = world.ledger.of(&Rig::cluster());
        assert!(rows.calls.is_empty(), "nothing is frozen that is not sent");
        let claimed = |state: &IntentState| matches!(state, IntentState::Claimed { .. });
        assert!(rows.intents.values().all(|intent| claimed(&intent.state)));
    });
    rig.sim.advance(due.duration_since(now(&rig)) + secs(1));
    let wakes = rig.sim.take_wakes();
    assert!(
        wakes.iter().any(|wake| wake.lane == Lane::Provisioner),
        "{wakes:?}"
    );
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(
        report.launched.len(),
        1,
        "the launch is resumed: {report:?}"
    );
    assert_eq!(rig.sim.with(|world| world.account.requests.len()), 1);
}

#[tokio::test]
async fn turn_without_call_budget_is_postponed_and_not_failed() {
    let mut rig = with_pending_pods(1).await;
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.sim.with(|world| {
        for claim in world.api.node_claims.values_mut() {
            claim.deleted_at = Some(world.now);
        }
    });
    spend(&rig.sim, Api::Describe).await;
    let report = run(&mut rig, Lane::Terminator).await;
    assert!(
        matches!(&report.outcome, Outcome::Postponed(why) if why.starts_with("DescribeInstances waits until")),
        "{report:?}"
    );
    rig.sim.with(|world| {
        let row = world.ledger.of(&Rig::cluster()).lanes[&Lane::Terminator].clone();
        assert_eq!((row.failures, row.lease), (0, None));
        assert_eq!(row.due, report.due);
        assert!(
            row.due
                .is_some_and(|due| due > world.now && due <= world.now + secs(REFILL_SECONDS))
        );
    });
}

#[tokio::test]
async fn cluster_with_an_exhausted_budget_scales_eventually() {
    for api in [
        Api::CreateFleet,
        Api::Describe,
        Api::TerminateInstances,
        Api::CreateTags,
    ] {
        let mut rig = with_pending_pods(9).await;
        spend(&rig.sim, api).await;
        let grown = rig.until(secs(600), all_bound).await;
        assert!(grown.is_some(), "{api:?}: {:#?}", rig.transcript);
        assert_eq!(
            rig.sim.with(|world| world.account.instances.len()),
            2,
            "{api:?}"
        );
        rig.pass(secs(60)).await;
        spend(&rig.sim, api).await;
        rig.scale(0);
        let gone = rig.until(secs(1200), all_gone).await;
        assert!(gone.is_some(), "{api:?}: {:#?}", rig.transcript);
        assert!(
            rig.sim.with(|world| consistent(world) && settled(world)),
            "{api:?}"
        );
        let failed = |line: &&String| line.contains(" failed: ");
        let failed: Vec<_> = rig.transcript.iter().filter(failed).collect();
        assert!(
            failed.is_empty() && rig.errors.is_empty(),
            "{api:?}: {failed:#?}"
        );
    }
}

fn rate_limiter(sim: &Sim, priority: Priority) -> RateLimiter {
    let shared = Arc::new(sim.clone());
    RateLimiter::new(shared.clone(), shared, priority)
}

fn draws(sim: &Sim) -> usize {
    let is_draw = |call: &&&str| **call == "draw";
    sim.with(|world| world.calls.iter().filter(is_draw).count())
}

#[tokio::test]
async fn process_draws_several_calls_with_one_write() {
    let sim = Sim::new("demo");
    let rate_limiter = rate_limiter(&sim, Priority::Provisioning);
    for _ in 0..20 {
        rate_limiter.spend(Api::Describe).await.unwrap();
    }
    assert_eq!(draws(&sim), 2);
    sim.advance(secs(60));
    rate_limiter.spend(Api::Describe).await.unwrap();
    sim.advance(secs(60));
    rate_limiter.spend(Api::Describe).await.unwrap();
    assert_eq!(draws(&sim), 4, "drawn calls expire");
}

#[tokio::test]
async fn reserved_calls_serve_each_request() {
    let sim = Sim::new("demo");
    let rate_limiter = rate_limiter(&sim, Priority::Interruption);
    rate_limiter.hold(Api::CreateFleet).await.unwrap();
    rate_limiter.hold(Api::CreateFleet).await.unwrap();
    spend(&sim, Api::CreateFleet).await;
    rate_limiter.spend(Api::CreateFleet).await.unwrap();
    rate_limiter.spend(Api::CreateFleet).await.unwrap();
    assert_eq!(draws(&sim), 3, "two of the rate_limiter, one of the test");
}

#[tokio::test]
async fn unused_reserved_calls_are_exclusive_and_expire() {
    let sim = Sim::new("demo");
    let rate_limiter = rate_limiter(&sim, Priority::Interruption);
    for _ in 0..2 {
        rate_limiter.hold(Api::TerminateInstances).await.unwrap();
    }
    assert_eq!(draws(&sim), 1, "two calls are drawn at once");
    rate_limiter.hold(Api::TerminateInstances).await.unwrap();
    assert_eq!(draws(&sim), 2, "both calls were held");
    sim.advance(secs(60));
    for _ in 0..2 {
        rate_limiter.spend(Api::TerminateInstances).await.unwrap();
    }
    assert_eq!(draws(&sim), 3, "no call was left");
}

#[tokio::test]
async fn interruptions_may_use_the_reserve_of_the_budget() {
    let sim = Sim::new("demo");
    let housekeeper = rate_limiter(&sim, Priority::Housekeeping);
    let mut calls = 0;
    while housekeeper.spend(Api::Describe).await.is_ok() {
        calls += 1;
    }
    assert_eq!(calls, 40, "two fifths of the bucket");
    rate_limiter(&sim, Priority::Interruption)
        .spend(Api::Describe)
        .await
        .unwrap();
}

#[tokio::test]
async fn throttling_by_ec2_empties_every_rate_limiter_informed_of_it() {
    let sim = Sim::new("demo");
    let rate_limiter = rate_limiter(&sim, Priority::Interruption);
    rate_limiter.spend(Api::CreateFleet).await.unwrap();
    for _ in 0..4 {
        rate_limiter.throttled(Api::CreateFleet).await;
    }
    let spent = rate_limiter.spend(Api::CreateFleet).await.unwrap_err();
    assert_eq!(
        spent.until,
        sim.with(|world| world.now) + secs(4),
        "an eighth of two a second"
    );
}

#[tokio::test]
async fn failing_ledger_blocks_no_call() {
    let sim = Sim::new("demo");
    sim.fail_next("draw", Fault::Unavailable);
    rate_limiter(&sim, Priority::Provisioning)
        .spend(Api::CreateFleet)
        .await
        .unwrap();
}
