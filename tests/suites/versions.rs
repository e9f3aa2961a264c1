//! Two versions of the functions over one ledger: rows of every released schema version are readable, current rows are written as
//! released, and rows of a newer version are left alone.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

mod local_ledger;

use std::{collections::BTreeMap, fs, path::PathBuf};

use fakes::laws;
use model::ledger::{CommandState, SCHEMA};
use ports::{
    LedgerError,
    ledger::{
        ClusterLedger, CommandLedger, LaneLedger, LaunchLedger, Moved, NoticeLedger,
        OwnershipLedger,
    },
};
use serde_json::{Value, json};

use self::local_ledger::{LocalLedger, TABLE};

const CLUSTER: &str = "recorded";

impl LocalLedger {
    fn put(&self, row: &Value) {
        let item = json!({"TableName": TABLE, "Item": row});
        self.dynamodb.call("dynamodb", "put_item", item);
    }

    /// Every row by its key, except packed plans, which are for the turn that lost a race.
    fn rows(&self) -> BTreeMap<String, Value> {
        let all = self
            .dynamodb
            .call("dynamodb", "scan", json!({"TableName": TABLE}));
        let rows = all["Items"].as_array().unwrap().iter();
        let rows = rows.map(|row| (key(row), row.clone()));
        rows.filter(|(key, _)| !key.contains("PLANBODY#")).collect()
    }

    /// Everything that turns read about a cluster.
    async fn read(&self) -> Result<String, LedgerError> {
        let (ledger, cluster) = (&self.ledger, &CLUSTER.into());
        let commands = ledger.commands(cluster).await?;
        let intents = ledger.intents(cluster).await?;
        let notices = ledger.notices(cluster).await?;
        let launched = ledger.launched(cluster).await?;
        let instance = ledger.intent(cluster, &"launched".into()).await?;
        let calls = ledger.open_calls(cluster).await?;
        let claim = ledger.claim(cluster, &"launched".into()).await?;
        let owner = ledger.owner(&"i-launched".into()).await?;
        let (meta, lanes) = (ledger.meta(cluster).await?, ledger.lanes(cluster).await?);
        let memory = ledger.sweep_memory(cluster).await?;
        Ok(format!(
            "{meta:#?}\n{lanes:#?}\n{commands:#?}\n{intents:#?}\n{launched:#?}\n{instance:#?}\n{calls:#?}\n{claim:#?}\n{owner:#?}\n{notices:#?}\n{memory:#?}\n"
        ))
    }
}

fn key(row: &Value) -> String {
    format!(
        "{} {}",
        row["pk"]["S"].as_str().unwrap(),
        row["sk"]["S"].as_str().unwrap()
    )
}

fn recorded(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("ledger")
        .join(name)
}

/// Compares with the recorded file; `UPDATE_EXPECT=1` records it again.
fn compare(name: &str, found: &str) {
    let file = recorded(name);
    #[expect(
        clippy::disallowed_methods,
        reason = "a switch for the person who runs the tests"
    )]
    if std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1") {
        fs::write(&file, found).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        expected == found,
        "{name} is not as recorded. What an older version cannot read, or reads otherwise, is a new version of the records: raise \
         SCHEMA, keep this file and record the next. Otherwise UPDATE_EXPECT=1 accepts it.\n{found}"
    );
}

#[tokio::test]
async fn rows_are_written_as_in_their_released_version() {
    let world = LocalLedger::start();
    laws::one_of_each(&world.ledger, &CLUSTER.into()).await;
    let rows = serde_json::to_string_pretty(&world.rows()).unwrap();
    compare(&format!("schema-{SCHEMA}.json"), &(rows + "\n"));
}

#[tokio::test]
async fn rows_of_every_released_version_are_read_as_current_ones() {
    let now = LocalLedger::start();
    laws::one_of_each(&now.ledger, &CLUSTER.into()).await;
    let now = now.read().await.unwrap();
    for schema in 1..=SCHEMA {
        let world = LocalLedger::start();
        let rows = fs::read_to_string(recorded(&format!("schema-{schema}.json"))).unwrap();
        let rows: BTreeMap<String, Value> = serde_json::from_str(&rows).unwrap();
        for row in rows.values() {
            world.put(row);
        }
        assert_eq!(world.read().await.unwrap(), now, "schema {schema}");
    }
}

#[tokio::test]
async fn launches_of_an_earlier_schema_are_migrated_unchanged() {
    let world = LocalLedger::start();
    let rows = fs::read_to_string(recorded("schema-1.json")).unwrap();
    let rows: BTreeMap<String, Value> = serde_json::from_str(&rows).unwrap();
    let mut launched = rows["CLUSTER#recorded INTENT#launched"].clone();
    launched["later"] = json!({"S": "kept"});
    world.put(&launched);
    let cluster = &CLUSTER.into();
    for _ in 0..2 {
        let found = world.ledger.launched(cluster).await.unwrap();
        assert_eq!(found, ["launched".into()]);
    }
    let now = world.rows();
    assert!(!now.contains_key("CLUSTER#recorded INTENT#launched"));
    let moved = &now["CLUSTER#recorded LAUNCHED#launched"];
    for attribute in ["body", "state", "later"] {
        assert_eq!(moved[attribute], launched[attribute], "{attribute}");
    }
}

/// A turn of an earlier version may crash between the two writes of a staged row.
#[tokio::test]
async fn staged_row_never_restarts_a_completed_launch() {
    let world = LocalLedger::start();
    let cluster = &CLUSTER.into();
    laws::one_of_each(&world.ledger, cluster).await;
    let intents = world.ledger.intents(cluster).await.unwrap();
    let rows = world.rows();
    let mut staged = rows["CLUSTER#recorded LAUNCHED#launched"].clone();
    staged["sk"] = json!({"S": "STAGED#plan#launched"});
    staged["state"] = json!({"S": r#"{"state":"intended"}"#});
    world.put(&staged);
    assert_eq!(world.ledger.intents(cluster).await.unwrap(), intents);
    assert_eq!(world.rows(), rows, "the staged row is deleted");
}

/// Changes the only row of a kind into one that a newer version could have written.
fn renew(world: &LocalLedger, kind: &str, change: impl Fn(&mut Value)) -> Value {
    let rows = world.rows();
    let (_, row) = rows.iter().find(|(key, _)| key.contains(kind)).unwrap();
    let mut row = row.clone();
    row["schema"] = json!({"N": "99"});
    change(&mut row);
    world.put(&row);
    row
}

/// Changes the JSON in an attribute.
fn rewrite(row: &mut Value, attribute: &str, change: impl Fn(&mut Value)) {
    let mut body: Value = serde_json::from_str(row[attribute]["S"].as_str().unwrap()).unwrap();
    change(&mut body);
    row[attribute] = json!({"S": body.to_string()});
}

#[tokio::test]
async fn command_of_a_newer_version_reserves_its_nodes_and_is_not_migrated() {
    let world = LocalLedger::start();
    let cluster = &CLUSTER.into();
    laws::one_of_each(&world.ledger, cluster).await;
    let unknown_method = |row: &mut Value| {
        rewrite(row, "body", |body| {
            body["choice"] = json!({"method": "auction", "bids": [1, 2]});
        });
    };
    let unknown_state = |row: &mut Value| row["state"] = json!({"S": "\"paused\""});
    for change in [&unknown_method as &dyn Fn(&mut Value), &unknown_state] {
        let row = renew(&world, "COMMAND#replacing", change);
        let commands = world.ledger.commands(cluster).await.unwrap();
        let newer: Vec<_> = commands
            .iter()
            .filter(|command| command.state == CommandState::Newer)
            .collect();
        let [command] = newer.as_slice() else {
            panic!("{commands:#?}")
        };
        assert_eq!(command.id, "replacing");
        assert!(!command.delete.is_empty(), "the nodes are reserved");
        let moved = world
            .ledger
            .move_command(cluster, command, CommandState::Done);
        assert_eq!(moved.await.unwrap(), Moved::No);
        assert_eq!(world.rows()[&key(&row)], row, "left alone");
    }
}

#[tokio::test]
async fn unreadable_row_is_reported_as_newer_and_left_alone() {
    let world = LocalLedger::start();
    let cluster = &CLUSTER.into();
    laws::one_of_each(&world.ledger, cluster).await;
    let others = world.ledger.intents(cluster).await.unwrap().len() - 1;
    let row = renew(&world, "INTENT#", |row| {
        row["state"] = json!({"S": r#"{"state":"auctioned"}"#});
    });
    let claim = row["sk"]["S"].as_str().unwrap();
    let claim = claim.strip_prefix("INTENT#").unwrap().into();
    let intents = world.ledger.intents(cluster).await.unwrap();
    assert_eq!(intents.len(), others, "the row hides no other");
    let error = world.ledger.intent(cluster, &claim).await.unwrap_err();
    assert!(
        matches!(error, LedgerError::Newer { schema: 99, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("newer version"), "{error}");
    assert_eq!(world.rows()[&key(&row)], row, "left alone");
    // Without the mark the cause of the mismatch is unknown.
    let mut unmarked = row.clone();
    unmarked.as_object_mut().unwrap().remove("schema");
    world.put(&unmarked);
    let error = world.ledger.intent(cluster, &claim).await.unwrap_err();
    assert!(matches!(error, LedgerError::Corrupt { .. }), "{error:?}");
    assert_eq!(world.ledger.intents(cluster).await.unwrap(), intents);
}

#[tokio::test]
async fn l5_unreadable_row_hides_no_other_cluster() {
    let world = LocalLedger::start();
    let (cluster, other) = (CLUSTER.into(), "other".into());
    laws::one_of_each(&world.ledger, &cluster).await;
    laws::one_of_each(&world.ledger, &other).await;
    renew(&world, "CLUSTER#recorded SWEEP", |row| {
        row["body"] = json!({"S": "auctioned"});
    });
    let both = [cluster.clone(), other.clone()].into();
    let cluster_summaries = world.ledger.cluster_summaries(&both).await.unwrap();
    assert!(
        matches!(
            cluster_summaries[&cluster],
            Err(LedgerError::Newer { schema: 99, .. })
        ),
        "{cluster_summaries:?}"
    );
    assert!(cluster_summaries[&other].is_ok(), "{cluster_summaries:?}");
}

#[tokio::test]
async fn unknown_fields_of_a_newer_version_are_kept() {
    let world = LocalLedger::start();
    let cluster = &CLUSTER.into();
    laws::one_of_each(&world.ledger, cluster).await;
    let before = world.read().await.unwrap();
    let row = renew(&world, "COMMAND#replacing", |row| {
        row["bids"] = json!({"N": "3"});
        rewrite(row, "body", |body| body["bids"] = json!([1, 2, 3]));
    });
    assert_eq!(world.read().await.unwrap(), before);
    let commands = world.ledger.commands(cluster).await.unwrap();
    let command = commands
        .iter()
        .find(|command| command.id == "replacing")
        .unwrap();
    let moved = world
        .ledger
        .move_command(cluster, command, CommandState::Deleting);
    assert_eq!(moved.await.unwrap(), Moved::Yes);
    let after = &world.rows()[&key(&row)];
    assert_eq!(
        (&after["body"], &after["bids"]),
        (&row["body"], &row["bids"])
    );
}

#[tokio::test]
async fn unchanged_rows_of_a_newer_version_are_read() {
    let world = LocalLedger::start();
    let newer = local_ledger::connect(&world.dynamodb).with_schema_version(SCHEMA + 1);
    let cluster = &CLUSTER.into();
    laws::one_of_each(&newer, cluster).await;
    let stamps: Vec<Value> = world
        .rows()
        .into_values()
        .map(|row| row["schema"].clone())
        .collect();
    assert!(
        stamps.contains(&json!({"N": (SCHEMA + 1).to_string()})),
        "{stamps:?}"
    );
    let ours = world.ledger.commands(cluster).await.unwrap();
    assert_eq!(ours, newer.commands(cluster).await.unwrap());
}
