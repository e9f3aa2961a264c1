use async_trait::async_trait;
use thiserror::Error;

/// Sends notifications to people outside the cluster.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Value of a SecureString parameter, such as a webhook's URL.
    async fn secret(&self, parameter: &str) -> Result<String, NotifyError>;

    /// POSTs a body to an HTTPS URL. Any response but a success is an error.
    async fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Result<(), NotifyError>;

    /// Publishes to an SNS topic.
    async fn publish(&self, topic: &str, subject: &str, body: &str) -> Result<(), NotifyError>;

    /// Puts an event of Whittle's on an EventBridge bus; `detail` is JSON.
    async fn put_event(
        &self,
        bus: &str,
        detail_type: &str,
        detail: &str,
    ) -> Result<(), NotifyError>;
}

/// A message was not sent, or its outcome is unknown; the caller retries.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{action}: {message}")]
pub struct NotifyError {
    pub action: String,
    pub message: String,
}
