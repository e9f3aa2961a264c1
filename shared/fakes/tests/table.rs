//! The in-memory table rejects what DynamoDB rejects, and the ledger handles the table's failures.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::sync::Arc;

use fakes::{MemoryTable, Sim, TableFaults, launch, laws};
use jiff::Timestamp;
use ledger::{
    TableLedger,
    table::{Item, Key, Query, Table, TableError, Value, Write, WriteKind, Written},
};
use model::{
    ClusterName, Lane,
    budget::{Api, Priority},
    ids::TurnId,
    ledger::{Command, CommandState, Intent, IntentState, Lease, Mode, PauseLevel},
    plan::Target,
};
use ports::{
    LedgerError,
    ledger::{
        BudgetLedger, ClusterLedger, CommandLedger, Commit, Committed, ExperienceLedger,
        LaneLedger, LaunchLedger, Moved, NoticeLedger, NotificationLedger, OwnershipLedger,
        PlanLedger, Taken, Unfenced,
    },
};

fn key(sk: &str) -> Key {
    Key {
        pk: "p".into(),
        sk: sk.into(),
    }
}

fn text(value: &str) -> Value {
    Value::S(value.into())
}

fn number(value: i64) -> Value {
    Value::N(value.to_string())
}

fn item(key: &Key, attributes: &[(&str, Value)]) -> Item {
    let mut item = key.attributes();
    item.extend(
        attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone())),
    );
    item
}

fn put(sk: &str, attributes: &[(&str, Value)]) -> Write {
    let key = key(sk);
    let kind = WriteKind::Put(item(&key, attributes));
    write(&key, kind, None, &[])
}

fn write(
    key: &Key,
    kind: WriteKind,
    condition: Option<&'static str>,
    values: &[(&'static str, Value)],
) -> Write {
    Write {
        key: key.clone(),
        kind,
        condition,
        values: values.iter().cloned().collect(),
    }
}

fn is_invalid<T: std::fmt::Debug>(answer: Result<T, TableError>) -> bool {
    matches!(answer, Err(TableError::Invalid(_)))
}

#[tokio::test]
async fn conditions_compare_like_dynamodb() {
    let table = MemoryTable::default();
    table
        .write(&put("a", &[("n", number(9)), ("s", text("9"))]))
        .await
        .unwrap();
    let holds = async |condition, values: &[(&'static str, Value)]| {
        let check = write(
            &key("a"),
            WriteKind::Update("SET #seen = :seen"),
            Some(condition),
            &[values, &[("seen", Value::Bool(true))]].concat(),
        );
        matches!(table.write(&check).await.unwrap(), Written::Done(Some(_)))
    };
    let ten = [("x", number(10))];
    assert!(holds("#n < :x", &ten).await, "numbers compare as numbers");
    assert!(!holds("#s < :x", &ten).await, "types differ");
    assert!(holds("#s < :x", &[("x", text("91"))]).await);
    assert!(
        !holds("#missing < :x", &ten).await,
        "a comparison with a missing attribute is false"
    );
    assert!(!holds("#missing = :x", &ten).await);
    assert!(
        holds(
            "attribute_not_exists(#missing) AND (#n = :x OR #n <= :x)",
            &ten
        )
        .await
    );
    assert!(
        holds("attribute_not_exists(#n) AND #n = :x OR #n < :x", &ten).await,
        "AND binds first"
    );
    assert!(!holds("#n > :x", &ten).await && holds("#n >= :x", &[("x", number(9))]).await);
}

#[tokio::test]
async fn updates_set_and_remove_and_return_new_row() {
    let table = MemoryTable::default();
    let update = "SET #a = :a, #b = if_not_exists(#b, :b) REMOVE #c, #d";
    table.write(&put("u", &[("c", number(1))])).await.unwrap();
    for a in [1, 2] {
        let given = [("a", number(a)), ("b", number(a))];
        let done = table
            .write(&write(&key("u"), WriteKind::Update(update), None, &given))
            .await;
        let Ok(Written::Done(Some(row))) = done else {
            panic!("{done:?}")
        };
        let expected = item(&key("u"), &[("a", number(a)), ("b", number(1))]);
        assert_eq!(*row, expected);
    }
    let refused = write(
        &key("u"),
        WriteKind::Delete,
        Some("#a = :a"),
        &[("a", number(1))],
    );
    let answer = table.write(&refused).await.unwrap();
    assert!(
        matches!(answer, Written::Refused(Some(_))),
        "with the row as it is"
    );
    let created = write(
        &key("new"),
        WriteKind::Update("SET #a = :a"),
        None,
        &[("a", number(1))],
    );
    table.write(&created).await.unwrap();
    assert!(
        table.get(&key("new")).await.unwrap().is_some(),
        "an update creates a missing row"
    );
}

#[tokio::test]
#[should_panic(expected = "is no operand")]
async fn unknown_expression_panics() {
    let table = MemoryTable::default();
    let unknown = write(
        &key("a"),
        WriteKind::Delete,
        Some("begins_with(#a, :a)"),
        &[],
    );
    let _ = table.write(&unknown).await;
}

#[tokio::test]
async fn requests_beyond_limits_are_rejected() {
    let table = MemoryTable::default();
    let large = text(&"x".repeat(400 << 10));
    assert!(
        is_invalid(table.write(&put("a", &[("body", large)])).await),
        "400 KB an item"
    );
    assert!(is_invalid(table.get(&key("")).await), "an empty key");
    assert!(
        is_invalid(table.write(&put(&"k".repeat(1_025), &[])).await),
        "1,024 bytes of a sort key"
    );
    let partition = |bytes: usize| Key {
        pk: "p".repeat(bytes),
        ..key("a")
    };
    assert!(table.get(&partition(2_048)).await.is_ok());
    assert!(
        is_invalid(table.get(&partition(2_049)).await),
        "2,048 bytes of a partition key"
    );
    let condition = |bytes: usize| -> &'static str {
        let text = format!("attribute_exists(#{})", "a".repeat(bytes - 19));
        assert_eq!(text.len(), bytes);
        text.leak()
    };
    let delete = |bytes: usize| write(&key("a"), WriteKind::Delete, Some(condition(bytes)), &[]);
    assert!(table.write(&delete(4_096)).await.is_ok());
    assert!(
        is_invalid(table.write(&delete(4_097)).await),
        "4 KB of an expression"
    );
    let puts =
        |count: usize| -> Vec<Write> { (0..count).map(|at| put(&at.to_string(), &[])).collect() };
    assert!(
        is_invalid(table.transact(&puts(101)).await),
        "100 items a transaction"
    );
    assert!(table.transact(&puts(100)).await.is_ok());
    let twice = [put("a", &[]), put("a", &[])];
    assert!(
        is_invalid(table.transact(&twice).await),
        "two writes of one item"
    );
    let third = text(&"x".repeat(390 << 10));
    let heavy: Vec<Write> = (0..11)
        .map(|at| put(&at.to_string(), &[("body", third.clone())]))
        .collect();
    assert!(
        is_invalid(table.transact(&heavy).await),
        "4 MB a transaction"
    );
    let keys = |count: usize| -> Vec<Key> { (0..count).map(|at| key(&at.to_string())).collect() };
    assert!(
        is_invalid(table.batch_get(&keys(101)).await),
        "100 keys a batch"
    );
    assert!(
        is_invalid(table.batch_write(puts(26)).await),
        "25 writes a batch"
    );
    assert!(
        is_invalid(table.batch_get(&[key("a"), key("a")]).await),
        "a key twice"
    );
    let unused = write(&key("a"), WriteKind::Delete, None, &[("unused", number(1))]);
    assert!(
        is_invalid(table.write(&unused).await),
        "a value that no expression uses"
    );
    let of_key = write(
        &key("a"),
        WriteKind::Update("SET #sk = :sk"),
        None,
        &[("sk", text("b"))],
    );
    assert!(is_invalid(table.write(&of_key).await), "keys do not change");
}

#[tokio::test]
async fn pages_end_at_a_megabyte() {
    let table = MemoryTable::default();
    let body = text(&"x".repeat(300 << 10));
    for at in 0..5 {
        table
            .write(&put(&format!("row-{at}"), &[("body", body.clone())]))
            .await
            .unwrap();
    }
    let mut query = Query {
        pk: "p".into(),
        from: "row".into(),
        to: "row~".into(),
        backwards: false,
        limit: None,
        after: None,
    };
    let first = table.query(&query).await.unwrap();
    assert_eq!(
        (first.rows.len(), first.next.as_ref()),
        (3, Some(&key("row-2")))
    );
    query.after = first.next;
    let second = table.query(&query).await.unwrap();
    assert_eq!((second.rows.len(), second.next), (2, None));
}

#[tokio::test]
async fn partitions_take_a_thousand_writes_a_second() {
    let table = MemoryTable::default();
    table.set_faults(TableFaults {
        throttles: true,
        ..TableFaults::default()
    });
    for at in 0..1_000 {
        table.write(&put(&at.to_string(), &[])).await.unwrap();
    }
    let answer = table.write(&put("more", &[])).await;
    assert!(matches!(answer, Err(TableError::Throttled)), "{answer:?}");
}

#[tokio::test]
async fn batches_return_at_most_sixteen_megabytes() {
    let table = MemoryTable::default();
    let body = text(&"x".repeat(390 << 10));
    let keys: Vec<Key> = (0..50).map(|at| key(&at.to_string())).collect();
    for key in &keys {
        let row = put(&key.sk, &[("body", body.clone())]);
        table.write(&row).await.unwrap();
    }
    let batch = table.batch_get(&keys).await.unwrap();
    assert_eq!((batch.rows.len(), batch.unprocessed.len()), (42, 8));
}

fn cluster() -> ClusterName {
    "demo".into()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A ledger, and its table.
async fn ledger() -> (TableLedger, Arc<MemoryTable>) {
    let table = Arc::new(MemoryTable::default());
    let ledger = TableLedger::new(table.clone(), "123456789012", "us-east-1");
    let registry = serde_json::json!({"mode": "active"});
    ledger
        .mirror_registry(&cluster(), &registry, &Mode::Active)
        .await
        .unwrap();
    (ledger, table)
}

fn launches(plan: &str, base: u64, count: usize) -> Commit {
    let intents = (0..count).map(|number| Intent {
        plan: plan.into(),
        generation: base + 1,
        launch: launch("default", &format!("{plan}-{number:04}")),
        state: IntentState::Intended,
        lease: None,
        committed_at: at(0),
    });
    Commit {
        id: plan.into(),
        turn: "t1".into(),
        base,
        plan: model::Plan::default(),
        intents: intents.collect(),
        commands: Vec::new(),
        due: vec![(Lane::Provisioner, at(60))],
        spending: None,
        held_by: PauseLevel::All,
        now: at(0),
    }
}

#[tokio::test]
async fn uncommitted_plan_leaves_no_staged_row() {
    let (ledger, table) = ledger().await;
    let c = cluster();
    ledger.commit(&c, &launches("won", 0, 1)).await.unwrap();
    let lost = ledger
        .commit(&c, &launches("lost", 0, 1_000))
        .await
        .unwrap();
    assert_eq!(lost, Committed::Raced { generation: 1 });
    let keys = table.keys();
    let staged = keys.iter().filter(|key| key.sk.starts_with("STAGED"));
    assert_eq!(staged.count(), 0);
    let before = table.counts();
    assert_eq!(ledger.intents(&c).await.unwrap().len(), 1);
    let after = table.counts();
    assert_eq!(after.reads - before.reads, 2, "staged rows, and intents");
}

#[tokio::test]
async fn commit_of_thousand_launches_takes_few_requests() {
    let (ledger, table) = ledger().await;
    let c = cluster();
    let before = table.counts();
    let won = ledger.commit(&c, &launches("won", 0, 1_000)).await.unwrap();
    assert_eq!(won, Committed::At(1));
    let after = table.counts();
    assert!(after.writes - before.writes < 10, "{after:?}");
    assert!(after.transactions - before.transactions < 25, "{after:?}");
    assert_eq!(ledger.intents(&c).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn transaction_conflicts_are_retried() {
    let (ledger, table) = ledger().await;
    let lease = Lease {
        owner: TurnId::from("t1"),
        until: at(60),
    };
    table.set_faults(TableFaults {
        conflicts_of_writes: 3,
        conflicts_of_transactions: 3,
        unprocessed: 3,
        ..TableFaults::default()
    });
    let taken = ledger
        .take_lane(&cluster(), Lane::Provisioner, &lease, at(0))
        .await;
    assert!(matches!(taken, Ok(Taken::Mine(_))), "{taken:?}");
    let won = ledger.commit(&cluster(), &launches("won", 0, 250)).await;
    assert_eq!(won.unwrap(), Committed::At(1));
    assert_eq!(ledger.intents(&cluster()).await.unwrap().len(), 250);
    assert!(table.counts().pauses >= 6, "each try waits");
}

#[tokio::test]
async fn command_too_large_for_an_item_does_not_affect_others() {
    let (ledger, _) = ledger().await;
    let command = |id: &str, targets: usize| Command {
        id: id.into(),
        delete: (0..targets)
            .map(|number| Target {
                name: format!("default-{number:08}").as_str().into(),
                uid: "0b8f3c1e-5d2a-4a52-9a3e-1f6c7d8e9a0b".into(),
                resource_version: "1".into(),
            })
            .collect(),
        ..Command::default()
    };
    let acts = Unfenced {
        turn: "t1".into(),
        commands: vec![command("a", 1), command("b", 5_000), command("c", 1)],
        notices: Vec::new(),
        due: vec![(Lane::Disruption, at(0))],
    };
    let recorded = ledger.record_unfenced(&cluster(), &acts).await;
    assert!(
        matches!(recorded, Err(LedgerError::Invalid { .. })),
        "{recorded:?}"
    );
    let commands = ledger.commands(&cluster()).await.unwrap();
    let ids: Vec<&str> = commands.iter().map(|command| command.id.as_str()).collect();
    assert_eq!(ids, ["a", "c"]);
}

#[tokio::test]
async fn unreadable_row_hides_no_other() {
    let sim = Sim::new("demo");
    let c = ClusterName::from("recorded");
    laws::one_of_each(&sim, &c).await;
    let before = sim.intents(&c).await.unwrap().len();
    let pk = format!("CLUSTER#{c}");
    sim.with(|world| {
        let account = "ACCT#123456789012#us-east-1";
        for (pk, sk) in [
            (pk.as_str(), "INTENT#claimed"),
            (&pk, "NOTICE#i-launched#spot-interruption"),
            (&pk, "LANE#unheard-of"),
            (&pk, "COMMAND#proposed"),
            (&pk, "OUTBOX#unreadable"),
            (&pk, "STAGEDPACK#plan#0000"),
            (&pk, "SHIFT"),
            (&format!("{account}#ICE"), "spot#m5.large#use1-az1"),
            (&format!("{account}#SUBNET"), "subnet-1"),
            (&format!("{account}#LEARNED"), "m5.large#ami-1"),
        ] {
            world.ledger.spoil(pk, sk);
        }
    });
    assert_eq!(sim.intents(&c).await.unwrap().len(), before - 1);
    assert_eq!(sim.notices(&c).await.unwrap().len(), 1);
    assert!(!sim.lanes(&c).await.unwrap().is_empty());
    let commands = sim.commands(&c).await.unwrap();
    assert_eq!(commands.len(), 5, "an unreadable command is listed");
    sim.notifications(&c).await.unwrap();
    sim.experience(&c, at(0)).await.unwrap();
    sim.launched(&c).await.unwrap();
    let single = sim.intent(&c, &"claimed".into()).await;
    assert!(
        matches!(single, Err(LedgerError::Corrupt { .. })),
        "{single:?}"
    );
}

#[tokio::test]
async fn partially_readable_command_keeps_its_nodes_untouched() {
    for (attribute, value) in [
        ("state", None),
        ("state", Some(number(1))),
        ("initialized", Some(number(1))),
        ("initialized", Some(text("of a newer version"))),
    ] {
        let sim = Sim::new("demo");
        let c = ClusterName::from("recorded");
        laws::one_of_each(&sim, &c).await;
        sim.with(|world| {
            let pk = format!("CLUSTER#{c}");
            world
                .ledger
                .change_attributes(&pk, "COMMAND#proposed", |row| {
                    row.remove(attribute);
                    row.extend(value.map(|value| (attribute.to_owned(), value)));
                });
        });
        let commands = sim.commands(&c).await.unwrap();
        let found = commands.iter().find(|command| command.id == "proposed");
        let found = found.unwrap();
        assert_eq!(found.state, CommandState::Newer, "{attribute}");
        assert_eq!(found.delete.len(), 1, "{attribute}");
    }
}

#[tokio::test]
async fn instance_with_unreadable_owner_is_not_adopted() {
    let sim = Sim::new("demo");
    let c = ClusterName::from("recorded");
    laws::one_of_each(&sim, &c).await;
    sim.with(|world| world.ledger.spoil("INSTANCE#i-other", "OWNER"));
    let (claim, instance) = ("launching".into(), "i-other".into());
    let owned = sim.own(&c, &claim, &instance, &"token".into()).await;
    assert_eq!(owned.unwrap(), Moved::No);
}

#[tokio::test]
async fn unreadable_budget_of_calls_counts_as_full_and_is_overwritten() {
    let sim = Sim::new("demo");
    let draw = async || {
        let drawn = sim.draw(Api::CreateFleet, 100, Priority::Provisioning, at(0));
        drawn.await.unwrap().granted
    };
    let full = draw().await;
    assert!(full > 0);
    assert_eq!(draw().await, 0);
    let partition = "ACCT#123456789012#us-east-1#BUCKET#CreateFleet";
    sim.with(|world| world.ledger.spoil(partition, "BUCKET"));
    assert_eq!(draw().await, full);
    assert_eq!(draw().await, 0, "the row is readable again");
    sim.with(|world| world.ledger.spoil(partition, "BUCKET"));
    sim.throttled(Api::CreateFleet, at(0)).await.unwrap();
}
