//! Processing of one SQS delivery with partial batch responses.

use std::future::Future;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent};
use turns::Message;

pub(crate) fn messages(event: SqsEvent) -> Vec<Message> {
    let message = |record: aws_lambda_events::event::sqs::SqsMessage| Message {
        id: record.message_id.unwrap_or_default(),
        body: record.body.unwrap_or_default(),
    };
    event.records.into_iter().map(message).collect()
}

/// Handles messages one after the other. Messages that `handle` refuses stay in the queue and finally reach its dead-letter queue; the
/// others are done.
pub(crate) async fn answer<F>(
    event: SqsEvent,
    mut handle: impl FnMut(Message) -> F,
) -> SqsBatchResponse
where
    F: Future<Output = Result<(), String>>,
{
    let mut kept = Vec::new();
    for message in messages(event) {
        let id = message.id.clone();
        if let Err(error) = handle(message).await {
            tracing::error!(
                message_id = id,
                error,
                "message not handled; SQS delivers it again"
            );
            kept.push(id);
        }
    }
    keeping(kept)
}

/// The answer that keeps these messages in the queue.
pub(crate) fn keeping(ids: impl IntoIterator<Item = String>) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    for id in ids {
        let mut failure = BatchItemFailure::default();
        failure.item_identifier = id;
        response.batch_item_failures.push(failure);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_refused_messages_are_kept() {
        let event: SqsEvent = serde_json::from_value(serde_json::json!({"Records": [
            {"messageId": "1", "body": "good"}, {"messageId": "2", "body": "bad"}, {"messageId": "3", "body": "good"}
        ]}))
        .unwrap();
        let response = answer(event, |message| async move {
            if message.body == "bad" {
                Err("it is bad".to_owned())
            } else {
                Ok(())
            }
        })
        .await;
        let kept: Vec<_> = response
            .batch_item_failures
            .iter()
            .map(|failure| failure.item_identifier.as_str())
            .collect();
        assert_eq!(kept, ["2"]);
    }
}
