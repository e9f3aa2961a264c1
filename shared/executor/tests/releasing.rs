//! Obstacles between a NodeClaim that is being deleted and the end of its launch (docs/protocol.md#a5).
#![expect(clippy::unwrap_used, reason = "fixtures are known to be valid")]

use std::collections::{BTreeMap, BTreeSet};

use executor::{Executor, ReleaseState};
use fakes::Sim;
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, Lane,
    ids::TurnId,
    launch::{FleetRequest, Instance, InstanceState},
    ledger::{Call, ClaimPhase, ClaimRow, Holder, InstanceOwner, Intent, IntentState, Lease},
    node_claim::NodeClaim,
};

const TOKEN: &str = "token";

fn cluster() -> ClusterName {
    ClusterName::from("demo")
}

fn launching(token: &str) -> IntentState {
    IntentState::Launching {
        uid: "uid".into(),
        attempt: 1,
        token: token.into(),
    }
}

fn intent(name: &str, state: IntentState, at: Timestamp) -> Intent {
    Intent {
        plan: "plan".into(),
        generation: 1,
        launch: fakes::launch("default", name),
        state,
        lease: None,
        committed_at: at,
    }
}

fn claim(name: &str) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("{name}-uid").into(),
        ..NodeClaim::default()
    }
}

/// Two NodeClaims are being launched by one call; `a` is being deleted.
fn world() -> Sim {
    let sim = Sim::new("demo");
    sim.with(|world| {
        let now = world.now;
        world.api.node_claims.insert("b".into(), claim("b"));
        let rows = world.ledger.of(&cluster());
        for name in ["a", "b"] {
            let launching = intent(name, launching(TOKEN), now);
            rows.intents.insert(name.into(), launching);
        }
        let request = FleetRequest {
            cluster: cluster(),
            token: TOKEN.into(),
            node_class: "default".into(),
            capacity_type: CapacityType::OnDemand,
            target_capacity: 2,
            allocation: None,
            context: None,
            templates: Vec::new(),
            claim_annotations: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        let call = Call {
            request,
            attempt: 1,
            members: vec!["a".into(), "b".into()],
            frozen_at: now,
            lease: None,
            closed: false,
        };
        rows.calls.insert(TOKEN.into(), call);
    });
    sim
}

/// Adds an instance of the call.
fn launch(sim: &Sim, id: &str, state: InstanceState) {
    let tags = [
        ("whittle.sh/launch", TOKEN),
        ("eks:eks-cluster-name", "demo"),
    ];
    let instance = Instance {
        id: id.into(),
        state,
        instance_type: "m5.large".into(),
        zone: "a".into(),
        zone_id: String::new(),
        capacity_type: CapacityType::OnDemand,
        image: String::new(),
        subnet: None,
        security_groups: BTreeSet::new(),
        reservation: None,
        private_dns: None,
        launched_at: None,
        tags: tags
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        state_reason: None,
    };
    sim.with(|world| world.account.instances.insert(id.into(), instance));
}

/// Result this many seconds after the call was frozen.
async fn released(sim: &Sim, seconds: i64) -> ReleaseState {
    let now = sim.with(|world| {
        world.now += SignedDuration::from_secs(seconds);
        world.now
    });
    let (cluster, turn) = (cluster(), TurnId::from("turn"));
    let executor = Executor {
        cluster: &cluster,
        turn: &turn,
        lane: Lane::Terminator,
        holder: "us",
        uid: None,
        cloud: sim,
        api: sim,
        ledger: sim,
        clock: sim,
        deadline: now + SignedDuration::from_secs(30),
        launch_timeout: SignedDuration::from_mins(5),
    };
    executor.release(&claim("a")).await.unwrap()
}

/// [`ReleaseState::Wait`] until this many seconds after the call was frozen.
fn wait(seconds: i64) -> ReleaseState {
    let frozen = Timestamp::from_second(Sim::START).unwrap();
    ReleaseState::Wait(frozen + SignedDuration::from_secs(seconds))
}

fn end_b(sim: &Sim) {
    sim.with(|world| {
        let rows = world.ledger.of(&cluster());
        rows.intents.remove(&"b".into());
    });
}

#[tokio::test]
async fn a5_unowned_instance_of_the_call_is_assigned_to_the_node_claim() {
    let sim = world();
    launch(&sim, "i-1", InstanceState::Running);
    launch(&sim, "i-2", InstanceState::Terminated);
    launch(&sim, "i-3", InstanceState::Running);
    sim.with(|world| {
        let owner = InstanceOwner {
            cluster: cluster(),
            holder: Holder::Claim("b".into()),
        };
        world.ledger.owners.insert("i-1".into(), owner);
    });
    assert_eq!(
        released(&sim, 10).await,
        ReleaseState::Instance("i-3".into())
    );
    sim.with(|world| {
        let row = ClaimRow {
            instance: "i-3".into(),
            phase: ClaimPhase::Open,
        };
        assert_eq!(
            world.ledger.of(&cluster()).claims.get(&"a".into()),
            Some(&row)
        );
    });
    // The assignment is recorded from now on.
    assert_eq!(
        released(&sim, 1).await,
        ReleaseState::Instance("i-3".into())
    );
}

#[tokio::test]
async fn a5_call_is_unresolved_for_a_minute_after_its_freeze() {
    for (seconds, expected) in [
        (0, wait(60)),
        (59, wait(60)),
        (60, ReleaseState::Free),
        (61, ReleaseState::Free),
    ] {
        let sim = world();
        end_b(&sim);
        assert_eq!(released(&sim, seconds).await, expected, "{seconds}");
        let state = sim.with(|world| {
            world.ledger.of(&cluster()).intents[&"a".into()]
                .state
                .clone()
        });
        let is_over = matches!(state, IntentState::Void { .. });
        assert_eq!(is_over, expected == ReleaseState::Free, "{seconds}");
    }
}

#[tokio::test]
async fn a5_call_with_other_members_is_left_to_its_resumer() {
    assert_eq!(released(&world(), 100).await, wait(115));
    type Change = fn(&mut fakes::World);
    let over: [Change; 5] = [
        |world| world.api.node_claims.clear(),
        |world| {
            let other = world.api.node_claims.get_mut(&"b".into()).unwrap();
            other.deleted_at = Some(world.now);
        },
        |world| {
            let rows = world.ledger.of(&cluster());
            let other = rows.intents.get_mut(&"b".into()).unwrap();
            other.state = launching("another");
        },
        |world| {
            let rows = world.ledger.of(&cluster());
            rows.calls.get_mut(&TOKEN.into()).unwrap().closed = true;
        },
        |world| {
            let rows = world.ledger.of(&cluster());
            rows.calls.get_mut(&TOKEN.into()).unwrap().members.pop();
        },
    ];
    for (at, change) in over.into_iter().enumerate() {
        let sim = world();
        sim.with(change);
        assert_eq!(released(&sim, 100).await, ReleaseState::Free, "{at}");
    }
}

#[tokio::test]
async fn a5_live_lease_on_the_launch_is_awaited() {
    let sim = world();
    sim.with(|world| {
        let until = world.now + SignedDuration::from_secs(1_000);
        let rows = world.ledger.of(&cluster());
        let own = rows.intents.get_mut(&"a".into()).unwrap();
        own.lease = Some(Lease {
            owner: TurnId::from("another"),
            until,
        });
    });
    assert_eq!(released(&sim, 100).await, wait(115));
    sim.with(|world| {
        let rows = world.ledger.of(&cluster());
        rows.intents.get_mut(&"a".into()).unwrap().state = IntentState::Intended;
    });
    assert_eq!(released(&sim, 0).await, wait(1_000));
}

#[tokio::test]
async fn a5_call_without_a_row_is_checked_again() {
    let sim = world();
    sim.with(|world| world.ledger.of(&cluster()).calls.clear());
    assert_eq!(released(&sim, 100).await, wait(115));
}

#[tokio::test]
async fn a5_finished_or_unbegun_launch_frees_the_node_claim() {
    let states = [
        IntentState::Void { why: "x".into() },
        IntentState::Intended,
        IntentState::Claimed {
            uid: "uid".into(),
            attempt: 1,
        },
    ];
    for state in states {
        let sim = world();
        sim.with(|world| {
            let rows = world.ledger.of(&cluster());
            rows.intents.get_mut(&"a".into()).unwrap().state = state.clone();
        });
        assert_eq!(released(&sim, 0).await, ReleaseState::Free, "{state:?}");
    }
    let sim = world();
    sim.with(|world| world.ledger.of(&cluster()).intents.clear());
    assert_eq!(released(&sim, 0).await, ReleaseState::Free);
}
