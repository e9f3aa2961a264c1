//! The real sink, and the real process, against an AWS on this machine.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::api_server::ApiServer;
use crate::moto::{KEY, Moto, REGION, free_port};
use crate::running::until;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use jiff::Timestamp;
use model::{ClusterName, Lane, Wake};
use relay::aws::AwsSink;
use relay::config::{Config, QUEUES};
use relay::counters::Counters;
use relay::kind::Kind;
use relay::sink::{Beat, Sink as _};
use serde_json::json;

const TABLE: &str = "whittle";

/// Moto with the table and queues of a stack.
struct Stack {
    moto: Moto,
    sqs: aws_sdk_sqs::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    /// What the chart would set for the relay.
    environment: BTreeMap<String, String>,
}

impl Stack {
    async fn start() -> Self {
        let moto = Moto::start().await;
        let sqs = aws_sdk_sqs::Client::new(&moto.sdk);
        let dynamodb = aws_sdk_dynamodb::Client::new(&moto.sdk);
        let mut create = dynamodb
            .create_table()
            .table_name(TABLE)
            .billing_mode(BillingMode::PayPerRequest);
        for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
            let attribute = AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(ScalarAttributeType::S);
            let key = KeySchemaElement::builder()
                .attribute_name(name)
                .key_type(kind);
            create = create
                .attribute_definitions(attribute.build().unwrap())
                .key_schema(key.build().unwrap());
        }
        create.send().await.unwrap();

        let mut environment: BTreeMap<String, String> = [
            ("WHITTLE_CLUSTER", "demo"),
            ("WHITTLE_TABLE", TABLE),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", KEY),
            ("AWS_ENDPOINT_URL", &moto.url),
            ("WHITTLE_BATCH_IDLE_DURATION", "50ms"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        for (lane, variable) in QUEUES {
            let queue = sqs
                .create_queue()
                .queue_name(format!("whittle-{lane}"))
                .send()
                .await
                .unwrap();
            environment.insert(variable.to_owned(), queue.queue_url.unwrap());
        }
        Self {
            moto,
            sqs,
            dynamodb,
            environment,
        }
    }

    fn config(&self) -> Config {
        Config::parse(&self.environment).unwrap()
    }

    async fn messages(&self, lane: Lane) -> Vec<Wake> {
        let queue = &self.config().queues[&lane];
        let received = self
            .sqs
            .receive_message()
            .queue_url(queue)
            .send()
            .await
            .unwrap();
        received
            .messages()
            .iter()
            .map(|message| serde_json::from_str(message.body().unwrap()).unwrap())
            .collect()
    }

    async fn row(&self) -> Option<BTreeMap<String, AttributeValue>> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let read = self
            .dynamodb
            .get_item()
            .table_name(TABLE)
            .key("pk", text("RELAY#demo"))
            .key("sk", text("BEAT"));
        Some(read.send().await.unwrap().item?.into_iter().collect())
    }
}

fn beat(counters: Counters) -> Beat {
    Beat {
        cluster: ClusterName::from("demo"),
        epoch: "2026-01-01T00:00:00Z/relay-0".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        version: "0.1.0",
        api_server: "https://demo.example".to_owned(),
        counters,
    }
}

#[tokio::test]
async fn a_wake_arrives_as_the_functions_read_it() {
    let stack = Stack::start().await;
    let sink = AwsSink::new(&stack.moto.sdk, &stack.config());
    let mut wake = Wake::new(ClusterName::from("demo"), Lane::Terminator, "pdb-allows");
    wake.hints.push("node/ip-10-0-0-1".to_owned());
    sink.send(&wake).await.unwrap();
    assert_eq!(stack.messages(Lane::Terminator).await, [wake]);
    assert_eq!(stack.messages(Lane::Lifecycle).await, []);
}

#[tokio::test]
async fn a_heartbeat_replaces_the_last_one_and_keeps_what_it_does_not_know() {
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

    let sink = AwsSink::new(&stack.moto.sdk, &stack.config());
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
async fn what_cannot_be_delivered_is_named() {
    let mut stack = Stack::start().await;
    let missing =
        stack.environment["WHITTLE_QUEUE_LIFECYCLE"].replace("whittle-lifecycle", "no-such-queue");
    stack
        .environment
        .insert("WHITTLE_QUEUE_LIFECYCLE".to_owned(), missing.clone());
    stack
        .environment
        .insert("WHITTLE_TABLE".to_owned(), "no-such-table".to_owned());
    let sink = AwsSink::new(&stack.moto.sdk, &stack.config());

    let wake = Wake::new(ClusterName::from("demo"), Lane::Lifecycle, "node-gone");
    let error = sink.send(&wake).await.unwrap_err().to_string();
    assert!(
        error.contains(&missing) && error.contains("QueueDoesNotExist"),
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

#[tokio::test]
async fn the_process_relays_from_a_cluster_to_the_queues_until_it_is_asked_to_end() {
    let stack = Stack::start().await;
    let server = ApiServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": {"server": server.url()}}],
        "users": [{"name": "demo", "user": {}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let mut relay = Command::new(env!("CARGO_BIN_EXE_relay"))
        .env_clear()
        .envs(&stack.environment)
        .env("KUBECONFIG", kubeconfig)
        .env("WHITTLE_LISTEN", format!("127.0.0.1:{}", free_port()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();

    server.put(Kind::Pod, json!({
        "metadata": {"name": "web-0", "namespace": "default"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }));
    until("the wake is in the queue", async || {
        stack
            .messages(Lane::Provisioner)
            .await
            .iter()
            .any(|wake| wake.hints == ["default/web-0"])
    })
    .await;
    until("the heartbeat is in the ledger", async || {
        stack
            .row()
            .await
            .is_some_and(|row| row["apiServer"].as_s().unwrap().starts_with(&server.url()))
    })
    .await;

    let asked = Command::new("kill")
        .args(["-TERM", &relay.id().to_string()])
        .status()
        .unwrap();
    assert!(asked.success());
    assert!(relay.wait().unwrap().success());
}

#[test]
fn a_process_that_is_not_configured_says_everything_that_is_missing() {
    let output = Command::new(env!("CARGO_BIN_EXE_relay"))
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stdout).unwrap();
    for name in ["WHITTLE_CLUSTER", "WHITTLE_QUEUE_TERMINATE", "AWS_REGION"] {
        assert!(log.contains(&format!("{name} is not set")), "{log}");
    }
}
