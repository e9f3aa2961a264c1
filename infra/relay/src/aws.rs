//! The AWS sink: one SQS queue per lane, the cluster's heartbeat row in the ledger, and its view in the bucket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use model::{Lane, Wake};
use ports::{Archive as _, Clock};
use signed::{Bucket, describe};
use view::ViewVersion;

use crate::config::Config;
use crate::counters::Counters;
use crate::sink::{HeartbeatRecord, Sink, SinkError};

/// Timeouts of calls. A call that takes longer is retried later: wakes and heartbeats are small, and useless when late.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings that all clients share: credentials and Region from the environment, TLS by rustls with ring.
pub async fn sdk_config() -> SdkConfig {
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .timeout_config(timeouts)
        .load()
        .await
}

/// Sends to SQS, DynamoDB and S3.
pub struct AwsSink {
    sqs: aws_sdk_sqs::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    queues: BTreeMap<Lane, String>,
    table: String,
    /// Bucket of the view, if the relay publishes it.
    bucket: Option<Bucket>,
}

impl AwsSink {
    pub fn new(sdk: &SdkConfig, config: &Config, clock: Arc<dyn Clock>) -> Self {
        let bucket = config.view_bucket.as_deref();
        Self {
            bucket: bucket.map(|name| Bucket::new(sdk, name, clock)),
            sqs: aws_sdk_sqs::Client::new(sdk),
            dynamodb: aws_sdk_dynamodb::Client::new(sdk),
            queues: config.queues.clone(),
            table: config.table.clone(),
        }
    }
}

#[async_trait]
impl Sink for AwsSink {
    async fn send(&self, wake: &Wake) -> Result<(), SinkError> {
        let Some(queue) = self.queues.get(&wake.lane) else {
            return Err(SinkError {
                what: format!("waking {}", wake.lane),
                cause: "no queue is configured for this lane".to_owned(),
            });
        };
        let failed = |cause: String| SinkError {
            what: format!("sending to {queue}"),
            cause,
        };
        let body = serde_json::to_string(wake).map_err(|error| failed(error.to_string()))?;
        let sent = self
            .sqs
            .send_message()
            .queue_url(queue)
            .message_body(body)
            .set_message_group_id(wake.group())
            .send();
        sent.await.map_err(|error| failed(describe(&error)))?;
        Ok(())
    }

    /// Sets the known attributes of the row and keeps others: another version of the relay may be running.
    async fn beat(&self, beat: &HeartbeatRecord) -> Result<(), SinkError> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let view = beat.view.as_ref().map(serde_json::to_string);
        let view = view.transpose().map_err(|error| SinkError {
            what: "writing the heartbeat".to_owned(),
            cause: error.to_string(),
        })?;
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", text(&format!("RELAY#{}", beat.cluster)))
            .key("sk", text("BEAT"));
        const SET: &str = "SET #epoch = :epoch, #at = :at, #version = :version, #server = :server, #counters = :counters";
        // A relay that no longer publishes removes its view.
        let update = match &view {
            Some(view) => update
                .update_expression(format!("{SET}, #view = :view"))
                .expression_attribute_values(":view", text(view)),
            None => update.update_expression(format!("{SET} REMOVE #view")),
        };
        update
            .expression_attribute_names("#view", "view")
            .expression_attribute_names("#epoch", "epoch")
            .expression_attribute_names("#at", "beatAt")
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#server", "apiServer")
            .expression_attribute_names("#counters", "counters")
            .expression_attribute_values(":epoch", text(&beat.epoch))
            .expression_attribute_values(":at", text(&beat.at.to_string()))
            .expression_attribute_values(":version", text(beat.version))
            .expression_attribute_values(":server", text(&beat.api_server))
            .expression_attribute_values(":counters", counters(&beat.counters))
            .send()
            .await
            .map_err(|error| SinkError {
                what: format!("writing the heartbeat to table {}", self.table),
                cause: describe(&error),
            })?;
        Ok(())
    }

    async fn publish(&self, issue: ViewVersion) -> Result<(), SinkError> {
        let failed = |cause: String| SinkError {
            what: format!("storing {}", issue.name),
            cause,
        };
        let Some(bucket) = &self.bucket else {
            return Err(failed("no bucket is configured".to_owned()));
        };
        let stored = bucket.put(&issue.name, issue.object).await;
        stored.map_err(|error| failed(error.to_string()))
    }
}

fn counters(counters: &Counters) -> AttributeValue {
    AttributeValue::M(
        counters
            .iter()
            .map(|(lane, count)| (lane.to_string(), AttributeValue::N(count.to_string())))
            .collect(),
    )
}
