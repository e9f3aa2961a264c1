//! The laws of the ledger over DynamoDB's wire protocol, with the table that the template declares; and wakes in SQS.
#![expect(clippy::indexing_slicing, reason = "a missing value fails the test")]

mod local_ledger;

use dynamo::SqsWakes;
use fakes::laws;
use harness::{ACCOUNT, Moto};
use jiff::{SignedDuration, Timestamp};
use model::{Lane, Wake};
use ports::{
    ObjectStore, ObjectStoreError, Wakes,
    ledger::{ClusterLedger, OwnershipLedger},
};
use serde_json::json;

use self::local_ledger::{LocalLedger, TABLE, sdk_config};

#[tokio::test]
async fn ledger_in_dynamodb_obeys_the_laws() {
    let LocalLedger {
        ledger,
        dynamodb: _running,
    } = LocalLedger::start();
    laws::ledger_laws(&ledger, "laws-").await;
    laws::journal_laws(&ledger, "laws-").await;
    laws::object_store_laws(&ledger).await;
    let too_large = noise(1 << 20);
    let error = ledger.put("laws/large", too_large).await.unwrap_err();
    assert!(
        matches!(error, ObjectStoreError::TooLarge { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn uncommitted_plan_leaves_no_staged_row() {
    let LocalLedger { ledger, dynamodb } = LocalLedger::start();
    laws::lose_race_with_thousand_launches(&ledger, &"lost".into()).await;
    let rows = dynamodb.call("dynamodb", "scan", json!({"TableName": TABLE}));
    let rows = rows["Items"].as_array().unwrap();
    let staged = rows.iter().filter(|row| {
        let sort = row["sk"]["S"].as_str().unwrap_or_default();
        sort.starts_with("STAGED")
    });
    assert_eq!(staged.count(), 0);
}

#[tokio::test]
async fn owner_of_an_instance_is_known_for_a_day_after_its_termination() {
    let LocalLedger { ledger, dynamodb } = LocalLedger::start();
    let (cluster, claim) = ("recorded".into(), "launched".into());
    laws::one_of_each(&ledger, &cluster).await;
    let ends = |instance: &str| {
        let key = json!({"pk": {"S": format!("INSTANCE#{instance}")}, "sk": {"S": "OWNER"}});
        let asked = json!({"TableName": TABLE, "Key": key});
        let row = dynamodb.call("dynamodb", "get_item", asked)["Item"].take();
        assert!(row["owner"].is_object(), "{instance} has an owner");
        row["expires"]["N"].as_str().map(str::to_owned)
    };
    assert_eq!(ends("i-launched"), None, "its NodeClaim exists");

    let now = Timestamp::from_second(1_800_000_000).unwrap();
    ledger.close_claim(&cluster, &claim).await.unwrap();
    ledger.forget_claim(&cluster, &claim, now).await.unwrap();
    ledger
        .collect(&cluster, &"i-orphan".into(), now)
        .await
        .unwrap();
    for gone in ["i-launched", "i-orphan"] {
        assert_eq!(ends(gone).as_deref(), Some("1800086400"), "{gone}");
    }
}

#[tokio::test]
async fn purged_cluster_keeps_only_journal_and_owners() {
    let LocalLedger { ledger, dynamodb } = LocalLedger::start();
    let (purged, other) = ("purged".into(), "other".into());
    laws::one_of_each(&ledger, &purged).await;
    laws::one_of_each(&ledger, &other).await;
    let of_purged = || {
        let rows = dynamodb.call("dynamodb", "scan", json!({"TableName": TABLE}));
        let rows = rows["Items"].as_array().into_iter().flatten();
        let keys = rows.filter_map(|row| row["pk"]["S"].as_str().map(str::to_owned));
        keys.filter(|pk| pk == "CLUSTER#purged" || pk == "RELAY#purged")
            .count()
    };
    let before = of_purged();
    assert!(before > 5, "{before}");
    assert_eq!(ledger.purge(&purged).await.unwrap(), before);
    assert_eq!(of_purged(), 0);
    assert_eq!(ledger.clusters().await.unwrap(), [other]);
}

/// Incompressible bytes from a xorshift generator.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..size).map(next).collect()
}

#[tokio::test]
async fn wake_of_a_function_is_in_the_message_group_of_its_cluster() {
    let moto = Moto::start("demo");
    moto.call("sqs", "create_queue", json!({"QueueName": "wakes"}));
    let queue = format!("{}/{ACCOUNT}/wakes", moto.endpoint());
    let queues = [(Lane::Lifecycle, queue.clone())].into();
    let wakes = SqsWakes::new(&sdk_config(moto.endpoint()), queues);
    let wake = Wake::new("demo".into(), Lane::Lifecycle, "launched");
    wakes.send(&wake, SignedDuration::ZERO).await.unwrap();
    let attributes = json!({"QueueUrl": queue, "MessageSystemAttributeNames": ["MessageGroupId"]});
    let received = moto.call("sqs", "receive_message", attributes);
    let message = &received["Messages"][0];
    assert_eq!(message["Attributes"]["MessageGroupId"], "demo");
    let body = message["Body"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Wake>(body).unwrap(), wake);
}
