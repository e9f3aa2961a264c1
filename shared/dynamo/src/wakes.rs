use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use jiff::SignedDuration;
use model::{Lane, Wake};
use ports::{QueueError, Wakes, queue::DELAY_MAX};
use signed::describe;

/// Wakes through one standard SQS queue per lane. The message group is the cluster, so that SQS serves other clusters first where one
/// cluster has a backlog.
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
        self.client
            .send_message()
            .queue_url(queue)
            .message_body(body)
            .set_message_group_id(wake.group())
            .delay_seconds(seconds(delay))
            .send()
            .await
            .map(drop)
            .map_err(|error| unavailable(describe(&error)))
    }
}

/// Whole seconds, as SQS accepts them. Rounded up: a timer that fires early finds nothing due.
fn seconds(delay: SignedDuration) -> i32 {
    let delay = delay.clamp(SignedDuration::ZERO, DELAY_MAX);
    let begun = i64::from(delay.subsec_nanos() > 0);
    i32::try_from(delay.as_secs() + begun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_never_arrives_before_its_delay() {
        let millis = SignedDuration::from_millis;
        let delays = [-1, 0, 1, 999, 1_000, 14_600, 900_000, 2_000_000];
        let delays = delays.map(|delay| seconds(millis(delay)));
        assert_eq!(delays, [0, 0, 1, 1, 1, 15, 900, 900]);
    }
}
