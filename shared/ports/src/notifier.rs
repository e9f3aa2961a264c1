use async_trait::async_trait;
use thiserror::Error;

/// Tells people outside the cluster.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// The value of a SecureString parameter, such as the URL of a webhook.
    async fn secret(&self, parameter: &str) -> Result<String, NotifyError>;

    /// POSTs a body to an HTTPS URL; anything but a success is an error.
    async fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Result<(), NotifyError>;

    /// Publishes to an SNS topic.
    async fn publish(&self, topic: &str, subject: &str, body: &str) -> Result<(), NotifyError>;

    /// Puts an event of ours on an EventBridge bus; its detail is JSON.
    async fn put_event(
        &self,
        bus: &str,
        detail_type: &str,
        detail: &str,
    ) -> Result<(), NotifyError>;
}

/// It was not sent, or nobody knows: try again later.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{action}: {message}")]
pub struct NotifyError {
    pub action: String,
    pub message: String,
}
