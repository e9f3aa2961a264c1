//! One row of each kind in each of its states, always the same: the rows that one version of the functions leaves to the next.

use model::{
    ClusterName, Lane, Uid,
    ids::InstanceTypeName,
    interruption::{InterruptionAction, LifecycleHook},
    ledger::{
        Choice, Command, CommandState, Intent, IntentState, Method, RelayBeat, RelayCounter,
        SweepMemory,
    },
    plan::Target,
};
use ports::{
    Ledger,
    ledger::{LaneEnd, Unfenced},
};

use super::{activate, at, call, claimed, command, commit, end, intent, lease, notice, turn};

const CLAIMS: [&str; 6] = [
    "intended",
    "claimed",
    "launching",
    "launched",
    "failed",
    "void",
];

/// Writes the rows.
pub async fn one_of_each(ledger: &dyn Ledger, cluster: &ClusterName) {
    activate(ledger, cluster).await;
    let mut plan = commit("plan", 0, &CLAIMS);
    plan.commands = vec![binding("replacing")];
    ledger.commit(cluster, &plan).await.unwrap();
    intents(ledger, cluster).await;
    acts(ledger, cluster).await;
    lanes(ledger, cluster).await;
    let memory = SweepMemory {
        beat: Some(RelayBeat {
            epoch: "epoch".into(),
            version: "0.1.0".into(),
            counters: [("lifecycle".to_owned(), 7)].into(),
            ..RelayBeat::default()
        }),
        beat_since: Some(at(0)),
        orphans: [("i-lost".into(), at(0))].into(),
        unexplained: vec![at(0)],
        ..SweepMemory::default()
    };
    ledger.store_sweep_memory(cluster, &memory).await.unwrap();
}

fn target(name: &str) -> Target {
    Target {
        name: name.into(),
        uid: Uid(format!("{name}-uid")),
        resource_version: "1".into(),
    }
}

fn binding(id: &str) -> Command {
    Command {
        delete: vec![target("old")],
        replacements: vec!["intended".into()],
        choice: Some(Choice {
            method: Method::MultiNode,
            validate_at: Some(at(15)),
            instance_types: vec![InstanceTypeName::from("m5.large")],
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: std::collections::BTreeMap::new(),
            repair: None,
            terminate_first: false,
            freed: None,
        }),
        ..command(id)
    }
}

async fn intents(ledger: &dyn Ledger, cluster: &ClusterName) {
    let committed = |name: &str| Intent {
        plan: "plan".into(),
        ..intent(name, "t1")
    };
    let moved = async |from: &Intent, to: &IntentState| {
        let me = turn("t1");
        ledger.move_intent(cluster, &me, from, to).await.unwrap();
    };
    for name in CLAIMS.iter().skip(1) {
        moved(&committed(name), &claimed(name)).await;
    }
    let frozen = call("token", &["launching", "launched"]);
    ledger.freeze(cluster, &turn("t1"), &frozen).await.unwrap();
    let (name, instance) = ("launched".into(), "i-launched".into());
    let token = "token".into();
    let owned = ledger.own(cluster, &name, &instance, &token).await;
    owned.unwrap();
    let launching = ledger.intent(cluster, &name).await.unwrap().unwrap();
    moved(&launching, &IntentState::Launched { instance }).await;
    let why = || "UnfulfillableCapacity".to_owned();
    let ends = [
        ("failed", IntentState::Failed { why: why() }),
        ("void", IntentState::Void { why: why() }),
    ];
    for (name, end) in ends {
        let from = Intent {
            state: claimed(name),
            ..committed(name)
        };
        moved(&from, &end).await;
    }
}

async fn acts(ledger: &dyn Ledger, cluster: &ClusterName) {
    let mut hooked = notice("i-hooked");
    hooked.kind = "lifecycle-action".into();
    hooked.action = InterruptionAction::Cordon;
    hooked.unmanaged = true;
    hooked.hook = Some(LifecycleHook {
        group: "group".into(),
        name: "hook".into(),
        token: "token".into(),
    });
    let state = |id: &str, state| Command {
        state,
        ..binding(id)
    };
    let acts = Unfenced {
        turn: turn("t1"),
        commands: vec![
            state("proposed", CommandState::Proposed),
            state("deleting", CommandState::Deleting),
            state("done", CommandState::Done),
            state("rolledback", CommandState::RolledBack),
        ],
        notices: vec![notice("i-launched"), hooked],
        due: vec![(Lane::Terminator, at(0))],
    };
    ledger.record_unfenced(cluster, &acts).await.unwrap();
}

async fn lanes(ledger: &dyn Ledger, cluster: &ClusterName) {
    let take = async |lane, until| {
        let lease = lease("t1", until);
        ledger
            .take_lane(cluster, lane, &lease, at(0))
            .await
            .unwrap();
    };
    take(Lane::Provisioner, 60).await;
    take(Lane::Lifecycle, 60).await;
    let ended = LaneEnd {
        error: Some("the cluster did not answer".to_owned()),
        full_look: Some(RelayCounter {
            epoch: "epoch".into(),
            seq: 7,
        }),
        ..end(30, Some(90))
    };
    let lane = Lane::Lifecycle;
    ledger
        .end_lane(cluster, lane, &turn("t1"), &ended)
        .await
        .unwrap();
}
