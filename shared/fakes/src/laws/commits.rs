//! Commits and disruption: the generation fence and the rows that go with it (docs/protocol.md#committing,
//! docs/protocol.md#disrupting).

use model::{
    ClusterName, Lane, Uid,
    ledger::{Choice, Command, CommandState, Method, Mode, Place, PodAssignment},
};
use ports::{
    Ledger,
    ledger::{Commit, Committed, Moved, Record, Unfenced},
};

use super::{activate, at, claimed, command, commit, intent, launch, notice, turn};

pub async fn c1_commit_needs_its_generation_and_active_mode(ledger: &dyn Ledger, c: &ClusterName) {
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

pub async fn c1_rows_of_a_plan_that_lost_are_never_read(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    ledger.commit(c, &commit("won", 0, &["a"])).await.unwrap();
    let names: Vec<String> = (0..150).map(|n| format!("lost-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        ledger.commit(c, &commit("lost", 0, &names)).await.unwrap(),
        Committed::Raced { generation: 1 }
    );
    let listed: Vec<_> = ledger
        .intents(c)
        .await
        .unwrap()
        .into_iter()
        .map(|intent| intent.name().0.clone())
        .collect();
    assert_eq!(listed, ["a"], "C1: rows count only with their header");
    assert_eq!(
        ledger.intent(c, &"lost-3".into()).await.unwrap(),
        None,
        "C1: rows count only with their header"
    );
}

pub async fn c1_large_plan_is_committed_completely(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let names: Vec<String> = (0..150).map(|n| format!("n-{n:03}")).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        ledger.commit(c, &commit("large", 0, &refs)).await.unwrap(),
        Committed::At(1)
    );
    let mut listed: Vec<_> = ledger
        .intents(c)
        .await
        .unwrap()
        .into_iter()
        .map(|intent| intent.name().0.clone())
        .collect();
    listed.sort();
    assert_eq!(listed, names, "C1: more than a transaction holds");
    let moved = ledger
        .move_intent(c, &turn("t1"), &intent("n-120", "t1"), &claimed("n-120"))
        .await
        .unwrap();
    assert_eq!(moved, Moved::Yes, "C1: early rows advance like others");
}

pub async fn c2_committed_since_returns_records_in_order(ledger: &dyn Ledger, c: &ClusterName) {
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

pub async fn c3_unfenced_acts_advance_the_generation_once(ledger: &dyn Ledger, c: &ClusterName) {
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
        "finished notices are not listed"
    );
    assert_eq!(
        ledger.record_unfenced(c, &acts).await.unwrap(),
        2,
        "a late copy of a finished notice is nothing new"
    );
    assert_eq!(ledger.notices(c).await.unwrap().len(), 2);
}

pub async fn mirroring_the_registry_keeps_the_generation(ledger: &dyn Ledger, c: &ClusterName) {
    let uid = Uid::from("of-kube-system");
    ledger.identify(c, &uid).await.unwrap();
    assert_eq!(ledger.meta(c).await.unwrap(), None, "nothing is identified");
    activate(ledger, c).await;
    assert_eq!(ledger.meta(c).await.unwrap().unwrap().uid, None);
    ledger.identify(c, &uid).await.unwrap();
    ledger.commit(c, &commit("p", 0, &[])).await.unwrap();
    let entry = serde_json::json!({"mode": "shadow", "unknown": {"kept": [1, 2]}});
    ledger
        .mirror_registry(c, &entry, &Mode::Shadow)
        .await
        .unwrap();
    let meta = ledger.meta(c).await.unwrap().unwrap();
    assert_eq!(
        (meta.generation, meta.mode, meta.registry, meta.uid),
        (1, Mode::Shadow, entry, Some(uid))
    );
    assert!(
        ledger.clusters().await.unwrap().contains(c),
        "mirrored clusters are listed"
    );
}

pub async fn d1_command_changes_state_only_from_its_current_state(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
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

pub async fn d1_command_is_deleted_only_if_unchanged(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let begun = Commit {
        commands: vec![command("c1"), command("c2")],
        ..commit("p", 0, &[])
    };
    ledger.commit(c, &begun).await.unwrap();
    let replacing = command("c1");
    let rolled_back = Command {
        state: CommandState::RolledBack,
        ..replacing.clone()
    };
    let ids = async || {
        let left = ledger.commands(c).await.unwrap();
        left.into_iter()
            .map(|command| command.id)
            .collect::<Vec<_>>()
    };
    ledger.forget_command(c, &rolled_back).await.unwrap();
    assert_eq!(ids().await, ["c1", "c2"], "it is still in progress");
    ledger
        .move_command(c, &replacing, CommandState::RolledBack)
        .await
        .unwrap();
    for _ in 0..2 {
        ledger.forget_command(c, &rolled_back).await.unwrap();
        assert_eq!(ids().await, ["c2"]);
    }
}

pub async fn d1_a_rollback_fences_plans_that_counted_on_the_nodes_to_leave(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    activate(ledger, c).await;
    let begun = Commit {
        commands: vec![command("c1")],
        ..commit("p", 0, &[])
    };
    ledger.commit(c, &begun).await.unwrap();
    let replacing = command("c1");
    for _ in 0..2 {
        assert_eq!(
            ledger
                .move_command(c, &replacing, CommandState::RolledBack)
                .await
                .unwrap(),
            Moved::Yes,
            "D1: repeating the rollback succeeds"
        );
    }
    assert_eq!(
        ledger.commit(c, &commit("q", 1, &[])).await.unwrap(),
        Committed::Raced { generation: 2 },
        "C3: fences"
    );
    let given_up = Command {
        state: CommandState::RolledBack,
        ..replacing
    };
    let since = ledger.committed_since(c, 1).await.unwrap();
    let Some(Record::Unfenced { commands, .. }) = since.first() else {
        panic!("C2: the rollback is recorded, not {since:?}")
    };
    assert_eq!(commands, &[given_up]);
    let over = ledger.commands(c).await.unwrap();
    assert!(
        over.iter().all(|command| command.state.is_over()),
        "{over:?}"
    );
}

pub async fn d1_initialized_replacements_are_recorded_until_command_changes_state(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    activate(ledger, c).await;
    let commit = Commit {
        commands: vec![command("c1")],
        ..commit("p", 0, &[])
    };
    ledger.commit(c, &commit).await.unwrap();
    for name in ["first", "second", "first"] {
        let commands = ledger.commands(c).await.unwrap();
        let [replacing] = commands.as_slice() else {
            panic!("{commands:?}");
        };
        let names = [name.into()];
        let noted = ledger.note_initialized(c, replacing, &names).await;
        assert_eq!(noted.unwrap(), Moved::Yes);
    }
    let replacing = ledger.commands(c).await.unwrap().remove(0);
    assert_eq!(replacing.initialized, ["first".into(), "second".into()]);
    let moved = ledger.move_command(c, &replacing, CommandState::Deleting);
    assert_eq!(moved.await.unwrap(), Moved::Yes);
    let names = ["third".into()];
    let noted = ledger.note_initialized(c, &replacing, &names).await;
    assert_eq!(noted.unwrap(), Moved::No);
    let deleting = ledger.commands(c).await.unwrap().remove(0);
    assert_eq!(deleting.initialized, replacing.initialized);
}

pub async fn d1_proposal_is_read_back_completely_and_ends(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let proposal = Command {
        state: CommandState::Proposed,
        choice: Some(Choice {
            method: Method::SingleNode,
            validate_at: Some(at(15)),
            instance_types: vec!["m5.large".into(), "m5.xlarge".into()],
            others: vec![vec!["c5.large".into()]],
            wanted: vec![
                PodAssignment {
                    place: Place::Node("n1".to_owned()),
                    pods: vec!["p1".into(), "p2".into()],
                },
                PodAssignment {
                    place: Place::New("default".into()),
                    pods: vec!["p3".into()],
                },
            ],
            evicts: std::collections::BTreeMap::new(),
            repair: None,
            terminate_first: false,
            freed: None,
        }),
        ..command("c1")
    };
    let commit = Commit {
        commands: vec![proposal.clone()],
        due: vec![(Lane::Disruption, at(15))],
        ..commit("p", 0, &[])
    };
    ledger.commit(c, &commit).await.unwrap();
    assert_eq!(
        ledger.commands(c).await.unwrap(),
        std::slice::from_ref(&proposal)
    );
    for _ in 0..2 {
        assert_eq!(
            ledger
                .move_command(c, &proposal, CommandState::RolledBack)
                .await
                .unwrap(),
            Moved::Yes,
            "repeating a change that already holds succeeds"
        );
    }
    assert_eq!(
        ledger
            .move_command(c, &proposal, CommandState::Done)
            .await
            .unwrap(),
        Moved::No,
        "D1: it is over"
    );
}
