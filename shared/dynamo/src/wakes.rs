use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use jiff::SignedDuration;
use model::{Lane, Wake};
use ports::{QueueError, Wakes, queue::DELAY_MAX};
use signed::describe;

/// Wakes through one standard SQS queue per lane. The message group is the cluster, so that SQS serves the others first where
/// one cluster has a backlog.
pub struct SqsWakes {
    client: Client,
    queues: BTreeMap<Lane, String>,
}

impl SqsWakes {
    /// `queues`: the URL of each lane's queue.
    pub fn new(config: &SdkConfig, queues: BTreeMap<Lane, String>) -> Self {
        Self {
            client: Client::new(config),
            queues,
        }
    }
}

#[async_trait]
impl Wakes for SqsWakes {
    async fn send(&self, wake: &Wake, delay: SignedDuration) -> Result<(), QueueError> {
        let unavailable = |message: String| QueueError::Unavailable {
            lane: wake.lane,
            message,
        };
        let queue = self
            .queues
            .get(&wake.lane)
            .ok_or_else(|| unavailable("no queue is configured for this lane".to_owned()))?;
        let body = serde_json::to_string(wake).map_err(|error| unavailable(error.to_string()))?;
        let seconds = delay.clamp(SignedDuration::ZERO, DELAY_MAX).as_secs();
        self.client
            .send_message()
            .queue_url(queue)
            .message_body(body)
            .set_message_group_id(wake.group())
            .delay_seconds(i32::try_from(seconds).unwrap_or(0))
            .send()
            .await
            .map(drop)
            .map_err(|error| unavailable(describe(&error)))
    }
}
