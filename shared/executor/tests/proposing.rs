//! ExecutionOutcome of a disruption when others move the generation meanwhile (docs/protocol.md#c1, docs/protocol.md#c2,
//! docs/protocol.md#d1).
#![expect(clippy::unwrap_used, reason = "fixtures are known to be valid")]

use std::collections::BTreeMap;

use executor::{CommitOutcome, DisruptionOrder, Executor, ProposalOutcome};
use fakes::{Sim, World, launch, settings};
use jiff::SignedDuration;
use model::{
    Action, ClusterName, Lane, Plan, Snapshot,
    ids::TurnId,
    labels::NODE_POOL,
    ledger::{Choice, Command, CommandState, Method, Mode, Pause, PauseLevel, PauseScope},
    node_claim::NodeClaim,
    plan::{Planned, Target},
};
use ports::{cluster::LeaderLease, ledger::ClusterLedger};

fn cluster() -> ClusterName {
    ClusterName::from("demo")
}

fn order(method: Method) -> DisruptionOrder {
    DisruptionOrder {
        reason: "Underutilized".into(),
        choice: Choice {
            method,
            validate_at: None,
            instance_types: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: BTreeMap::new(),
            repair: None,
            terminate_first: false,
            freed: None,
        },
    }
}

fn target(claim: &str) -> Target {
    Target {
        name: claim.into(),
        uid: claim.into(),
        resource_version: "1".into(),
    }
}

/// An active cluster led by this stack.
async fn world() -> Sim {
    let sim = Sim::new("demo");
    let registry = serde_json::json!({"mode": "active"});
    sim.mirror_registry(&cluster(), &registry, &Mode::Active)
        .await
        .unwrap();
    sim.with(|world| {
        world.api.leader = Some(LeaderLease {
            holder: "us".into(),
            renewed_at: Some(world.now),
            duration_seconds: 3_600,
            resource_version: None,
        });
    });
    sim
}

/// Other turns record commands in this state, which moves the generation.
fn meanwhile(world: &mut World, claim: &str, state: CommandState) {
    let command = Command {
        reboot: None,
        id: format!("of-{claim}"),
        reason: "Empty".into(),
        delete: vec![target(claim)],
        replacements: Vec::new(),
        state,
        committed_at: world.now,
        choice: None,
        initialized: Vec::new(),
    };
    let rows = world.ledger.of(&cluster());
    rows.commands.insert(command.id.clone(), command.clone());
    let meta = rows.meta.as_mut().unwrap();
    meta.generation += 1;
    rows.records.push(ports::ledger::Record::Unfenced {
        generation: meta.generation,
        commands: vec![command],
        notices: Vec::new(),
    });
}

fn executor<'a>(sim: &'a Sim, cluster: &'a ClusterName, turn: &'a TurnId) -> Executor<'a> {
    Executor {
        cluster,
        turn,
        lane: Lane::Disruption,
        holder: "us",
        uid: None,
        cloud: sim,
        api: sim,
        ledger: sim,
        clock: sim,
        deadline: sim.with(|world| world.now) + SignedDuration::from_secs(30),
        launch_timeout: SignedDuration::from_mins(5),
    }
}

async fn propose(sim: &Sim) -> ProposalOutcome {
    let (cluster, turn) = (cluster(), TurnId::from("turn"));
    let order = order(Method::SingleNode);
    let base = sim.with(|world| world.ledger.of(&cluster).meta.as_ref().unwrap().generation);
    executor(sim, &cluster, &turn)
        .propose(&order, vec![target("a")], base)
        .await
        .unwrap()
}

#[tokio::test]
async fn d1_proposal_is_recorded_unless_another_waits() {
    let alone = world().await;
    assert!(matches!(
        propose(&alone).await,
        ProposalOutcome::Recorded(_)
    ));

    // Another turn moves the generation between the snapshot and the commit.
    type Meanwhile = fn(&mut World);
    let others: [(Meanwhile, bool); 2] = [
        (|world| meanwhile(world, "b", CommandState::Proposed), false),
        (|world| meanwhile(world, "b", CommandState::Deleting), true),
    ];
    for (happens, expected) in others {
        let sim = world().await;
        sim.with(|world| world.on_call = Some(("commit", happens)));
        let proposed = propose(&sim).await;
        assert_eq!(
            matches!(proposed, ProposalOutcome::Recorded(_)),
            expected,
            "{proposed:?}"
        );
    }
}

fn snapshot(sim: &Sim) -> Snapshot {
    let (now, generation) = sim.with(|world| {
        let generation = world
            .ledger
            .of(&cluster())
            .meta
            .as_ref()
            .unwrap()
            .generation;
        (world.now, generation)
    });
    Snapshot {
        generation,
        ..Snapshot::empty(cluster(), now, settings())
    }
}

/// Committed part of a plan that deletes two NodeClaims, one of which another turn takes meanwhile.
async fn committed(method: Method, happens: fn(&mut World)) -> (Vec<String>, u64) {
    let sim = world().await;
    let base = snapshot(&sim);
    sim.with(|world| world.on_call = Some(("commit", happens)));
    let actions = ["a", "b"].map(|claim| Planned {
        action: Action::DeleteNodeClaim(target(claim)),
        because: String::new(),
    });
    let plan = Plan {
        actions: actions.into(),
        ..Plan::default()
    };
    let (cluster, turn) = (cluster(), TurnId::from("turn"));
    let executor = executor(&sim, &cluster, &turn);
    let commitment = executor
        .commit(&base, plan, Some(&order(method)), &|_, plan| plan)
        .await
        .unwrap();
    match commitment {
        CommitOutcome::Committed(plan) => {
            let command = plan.command.unwrap();
            let names = command.delete.into_iter().map(|target| target.name.0);
            (names.collect(), plan.generation - base.generation)
        }
        CommitOutcome::Nothing | CommitOutcome::Lost | CommitOutcome::Stopped(_) => (Vec::new(), 0),
    }
}

#[tokio::test]
async fn c2_only_emptiness_commits_after_losing_a_part() {
    let nothing: fn(&mut World) = |_| {};
    let both = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(committed(Method::MultiNode, nothing).await, (both, 1));
    let takes_a: fn(&mut World) = |world| meanwhile(world, "a", CommandState::Deleting);
    assert_eq!(committed(Method::MultiNode, takes_a).await, (Vec::new(), 0));
    let rest = vec!["b".to_owned()];
    assert_eq!(committed(Method::Emptiness, takes_a).await, (rest, 2));
}

/// A NodePool is paused after the snapshot of a turn that replaces a node of `spot` by one of `steady`.
#[tokio::test]
async fn c4_pause_of_disrupted_node_pool_holds_a_command_back_and_of_replacement_does_not() {
    let paused = [
        ("spot", PauseLevel::Voluntary, false),
        ("spot", PauseLevel::All, false),
        ("steady", PauseLevel::Voluntary, true),
        ("other", PauseLevel::All, true),
    ];
    for (pool, level, expected) in paused {
        let sim = world().await;
        let mut base = snapshot(&sim);
        base.node_claims = vec![NodeClaim {
            name: "a".into(),
            labels: [(NODE_POOL.to_owned(), "spot".to_owned())].into(),
            ..NodeClaim::default()
        }];
        sim.with(|world| {
            let (since, until) = (world.now, world.now + SignedDuration::from_hours(1));
            world.ledger.of(&cluster()).pauses.push(Pause {
                scope: PauseScope::NodePool(pool.into()),
                owner: "ann".into(),
                level,
                reason: "a migration".into(),
                since,
                until,
            });
        });
        let actions = [
            Action::DeleteNodeClaim(target("a")),
            Action::Launch(Box::new(launch("steady", "new"))),
        ];
        let actions = actions.map(|action| Planned {
            action,
            because: String::new(),
        });
        let plan = Plan {
            actions: actions.into(),
            ..Plan::default()
        };
        let (cluster, turn) = (cluster(), TurnId::from("turn"));
        let commitment = executor(&sim, &cluster, &turn)
            .commit(&base, plan, Some(&order(Method::SingleNode)), &|_, plan| {
                plan
            })
            .await
            .unwrap();
        let is_committed = matches!(commitment, CommitOutcome::Committed(_));
        assert_eq!(is_committed, expected, "{pool} {level}: {commitment:?}");
    }
}
