//! Wakes and heartbeats as they arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use model::view::{ViewPointer, object_name};
use model::{ClusterName, Lane, Wake};
use ports::{Archive as _, Clock};
use relay::aws::AwsSink;
use relay::counters::Counters;
use relay::sink::{HeartbeatRecord, Sink as _};
use signed::{Bucket, Request, send};
use view::ViewVersion;

use crate::moto::REGION;
use crate::stack::{Stack, TABLE};

const EPOCH: &str = "2026-01-01T00:00:00Z/relay-0";

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(FixedClock)
}

fn beat(counters: Counters) -> HeartbeatRecord {
    HeartbeatRecord {
        cluster: ClusterName::from("demo"),
        epoch: EPOCH.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        version: "0.1.0",
        api_server: "https://demo.example".to_owned(),
        counters,
        view: None,
    }
}

#[tokio::test]
async fn wake_has_format_of_functions() {
    let stack = Stack::start().await;
    let sink = AwsSink::new(&stack.moto.sdk, &stack.config(), clock());
    let mut wake = Wake::new(ClusterName::from("demo"), Lane::Terminator, "pdb-allows");
    wake.hints.push("node/ip-10-0-0-1".to_owned());
    sink.send(&wake).await.unwrap();
    assert_eq!(stack.messages(Lane::Terminator).await, [wake]);
    assert_eq!(stack.messages(Lane::Lifecycle).await, []);
}

#[tokio::test]
async fn wake_is_sent_in_message_group_of_its_cluster() {
    let stack = Stack::start().await;
    let sink = AwsSink::new(&stack.moto.sdk, &stack.config(), clock());
    let wake = Wake::new(ClusterName::from("demo"), Lane::Terminator, "pdb-allows");
    sink.send(&wake).await.unwrap();
    let received = stack.received(Lane::Terminator).await;
    assert_eq!(received, [(wake, Some("demo".to_owned()))]);
}

#[tokio::test]
async fn heartbeat_replaces_known_attributes_and_keeps_others() {
    let stack = Stack::start().await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = stack
        .dynamodb
        .put_item()
        .table_name(TABLE)
        .item("pk", text("RELAY#demo"))
        .item("sk", text("BEAT"));
    put.item("later", text("kept"))
        .item("epoch", text("old"))
        .send()
        .await
        .unwrap();

    let sink = AwsSink::new(&stack.moto.sdk, &stack.config(), clock());
    let mut counters = Counters::default();
    sink.beat(&beat(counters.clone())).await.unwrap();
    counters.bump(Lane::Provisioner);
    counters.bump(Lane::Provisioner);
    sink.beat(&beat(counters)).await.unwrap();

    let row = stack.row().await.unwrap();
    assert_eq!(row["epoch"], text("2026-01-01T00:00:00Z/relay-0"));
    assert_eq!(row["beatAt"], text("1970-01-01T00:00:00Z"));
    assert_eq!(row["version"], text("0.1.0"));
    assert_eq!(row["apiServer"], text("https://demo.example"));
    assert_eq!(row["later"], text("kept"));
    let counters = row["counters"].as_m().unwrap();
    assert_eq!(counters["provisioner"], AttributeValue::N("2".to_owned()));
    assert_eq!(counters["terminator"], AttributeValue::N("0".to_owned()));
}

#[tokio::test]
async fn view_is_stored_and_named_by_heartbeat_while_published() {
    let mut stack = Stack::start().await;
    stack.environment.insert(
        "WHITTLE_VIEW_BUCKET".to_owned(),
        "whittle-bucket".to_owned(),
    );
    let bucket = Bucket::new(&stack.moto.sdk, "whittle-bucket", clock());
    let made = Request {
        operation: "s3:CreateBucket",
        service: Some("s3"),
        method: "PUT",
        endpoint: stack.moto.url.clone(),
        path: "/whittle-bucket".to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    let now = std::time::UNIX_EPOCH;
    let (status, _) = send(&stack.moto.sdk, REGION, now, made).await.unwrap();
    assert_eq!(status, 200);
    let sink = AwsSink::new(&stack.moto.sdk, &stack.config(), clock());
    let issue = ViewVersion {
        version: 1,
        name: object_name(&ClusterName::from("demo"), EPOCH, 1),
        object: b"a view".to_vec(),
    };
    let name = issue.name.clone();
    sink.publish(issue).await.unwrap();
    assert_eq!(bucket.get(&name).await.unwrap().unwrap(), b"a view");

    let pointer = ViewPointer {
        epoch: EPOCH.to_owned(),
        version: 1,
        full: 1,
        digest: "d".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        counters: BTreeMap::new(),
    };
    let publishing = HeartbeatRecord {
        view: Some(pointer.clone()),
        ..beat(Counters::default())
    };
    sink.beat(&publishing).await.unwrap();
    let row = stack.row().await.unwrap();
    let read: ViewPointer = serde_json::from_str(row["view"].as_s().unwrap()).unwrap();
    assert_eq!(read, pointer);
    sink.beat(&beat(Counters::default())).await.unwrap();
    assert!(!stack.row().await.unwrap().contains_key("view"));
}

#[tokio::test]
async fn delivery_errors_name_their_destination() {
    let mut stack = Stack::start().await;
    let missing =
        stack.environment["WHITTLE_QUEUE_LIFECYCLE"].replace("whittle-lifecycle", "no-such-queue");
    stack
        .environment
        .insert("WHITTLE_QUEUE_LIFECYCLE".to_owned(), missing.clone());
    stack
        .environment
        .insert("WHITTLE_TABLE".to_owned(), "no-such-table".to_owned());
    let sink = AwsSink::new(&stack.moto.sdk, &stack.config(), clock());

    let wake = Wake::new(ClusterName::from("demo"), Lane::Lifecycle, "node-gone");
    let error = sink.send(&wake).await.unwrap_err().to_string();
    assert!(
        error.contains(&missing) && error.contains("NonExistentQueue"),
        "{error}"
    );
    let error = sink
        .beat(&beat(Counters::default()))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no-such-table") && error.contains("ResourceNotFound"),
        "{error}"
    );
}
