//! Any number of acts, launches and targets is recorded, even if they exceed the size of one request (docs/protocol.md#c1,
//! docs/protocol.md#c3); later facts change recorded ones.

use std::collections::BTreeSet;

use model::{
    ClusterName, Lane, Uid,
    ledger::{Command, CommandState, IntentState, Notice},
    plan::Target,
};
use ports::{
    Ledger,
    ledger::{Committed, Moved, Unfenced},
};

use super::{activate, at, claimed, command, commit, intent, notice, turn};

fn acts(commands: Vec<Command>, notices: Vec<Notice>) -> Unfenced {
    Unfenced {
        turn: turn("t1"),
        commands,
        notices,
        due: vec![(Lane::Disruption, at(0)), (Lane::Terminator, at(0))],
    }
}

fn target(name: &str) -> Target {
    Target {
        name: name.into(),
        uid: Uid(format!("{name}-0b8f3c1e-5d2a-4a52-9a3e-1f6c7d8e9a0b")),
        resource_version: "123456789".into(),
    }
}

pub async fn c3_unfenced_acts_of_any_number_are_recorded(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let commands: Vec<Command> = (0..120)
        .map(|number| Command {
            delete: vec![target(&format!("n{number}"))],
            state: CommandState::Deleting,
            ..command(&format!("ended-{number:03}"))
        })
        .collect();
    let notices = (0..120).map(|number| notice(&format!("i-{number:03}")));
    let acts = acts(commands, notices.collect());
    let generation = ledger.record_unfenced(c, &acts).await.unwrap();
    assert!(generation >= 3, "C3: a transaction holds a hundred items");
    assert_eq!(ledger.commands(c).await.unwrap(), acts.commands, "C3");
    assert_eq!(ledger.notices(c).await.unwrap().len(), 120, "C3");
    assert_eq!(
        ledger.record_unfenced(c, &acts).await.unwrap(),
        generation,
        "C3: recorded already"
    );
    let since = ledger.committed_since(c, 0).await.unwrap();
    assert_eq!(since.len() as u64, generation, "C2: each piece fences");
}

pub async fn c3_acts_with_thousands_of_targets_are_recorded(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let commands: Vec<Command> = (0..10)
        .map(|number| Command {
            delete: (0..500)
                .map(|node| target(&format!("default-{number:02}{node:08}")))
                .collect(),
            state: CommandState::Deleting,
            ..command(&format!("emptied-{number}"))
        })
        .collect();
    let acts = acts(commands, Vec::new());
    ledger.record_unfenced(c, &acts).await.unwrap();
    assert_eq!(
        ledger.commands(c).await.unwrap(),
        acts.commands,
        "C3: no record is above 400 KB"
    );
}

pub async fn c3_finished_notice_reopens_for_another_event(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let notice_of = |event: &str, second| Notice {
        kind: "rebalance_recommendation".into(),
        event: event.into(),
        at: Some(at(second)),
        ..notice("i-1")
    };
    let record = async |notice: Notice| {
        let acts = acts(Vec::new(), vec![notice]);
        ledger.record_unfenced(c, &acts).await.unwrap()
    };
    let first = record(notice_of("event-1", 0)).await;
    assert_eq!(record(notice_of("event-2", 60)).await, first, "it is open");
    let (instance, kind) = ("i-1".into(), "rebalance_recommendation");
    ledger.finish_notice(c, &instance, kind).await.unwrap();
    assert_eq!(
        record(notice_of("event-1", 90)).await,
        first,
        "a late copy of a finished notice is nothing new"
    );
    assert!(ledger.notices(c).await.unwrap().is_empty());
    assert_eq!(record(notice_of("event-2", 120)).await, first + 1, "C3");
    assert_eq!(
        ledger.notices(c).await.unwrap(),
        [notice_of("event-2", 120)]
    );
}

pub async fn c1_plan_of_250_launches_is_committed_completely(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let names: Vec<String> = (0..250).map(|n| format!("n-{n:03}")).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let committed = ledger.commit(c, &commit("large", 0, &refs)).await.unwrap();
    assert_eq!(committed, Committed::At(1));
    let listed = ledger.intents(c).await.unwrap();
    let listed: BTreeSet<String> = listed
        .iter()
        .map(|intent| intent.name().0.clone())
        .collect();
    assert_eq!(listed, names.iter().cloned().collect(), "C1");
    let moved = ledger
        .move_intent(c, &turn("t1"), &intent("n-249", "t1"), &claimed("n-249"))
        .await
        .unwrap();
    assert_eq!(moved, Moved::Yes, "C1: staged rows advance like others");
}

/// A plan that loses the race leaves no rows that turns would read.
pub async fn lose_race_with_thousand_launches(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let won = ledger.commit(c, &commit("won", 0, &["a"])).await.unwrap();
    assert_eq!(won, Committed::At(1));
    let names: Vec<String> = (0..1_000).map(|n| format!("n-{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let lost = ledger.commit(c, &commit("lost", 0, &names)).await.unwrap();
    assert_eq!(lost, Committed::Raced { generation: 1 }, "C1");
    assert_eq!(ledger.intents(c).await.unwrap().len(), 1, "C1");
}

pub async fn a1_forgetting_a_claim_keeps_launch_of_another_claim_of_that_name(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    activate(ledger, c).await;
    let adopted = ledger
        .adopt_intent(c, &intent("a", "t1"), Lane::Lifecycle, at(60))
        .await;
    assert_eq!(adopted.unwrap(), Moved::Yes);
    ledger.forget_claim(c, &"a".into(), at(10)).await.unwrap();
    let found = ledger.intent(c, &"a".into()).await.unwrap();
    assert!(found.is_some(), "A1: it is under way");
    let over = IntentState::Failed {
        why: "no capacity".into(),
    };
    let moved = ledger
        .move_intent(c, &turn("t1"), &intent("a", "t1"), &over)
        .await
        .unwrap();
    assert_eq!(moved, Moved::Yes);
    ledger.forget_claim(c, &"a".into(), at(20)).await.unwrap();
    assert_eq!(ledger.intent(c, &"a".into()).await.unwrap(), None, "A1");
}
