use async_trait::async_trait;
use ports::{
    Notifier, NotifyError,
    limits::{eventbridge::ENTRY_BYTES, sns},
};

use crate::{
    fault::{Fault, FromFault},
    sim::Sim,
};

/// Source of all events, the same as the adapter's.
const SOURCE: &str = "whittle";

/// A notification that reached its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredNotification {
    /// URL, topic or bus.
    pub to: String,
    /// Headers of a POST; otherwise the subject or the detail type.
    pub head: Vec<(String, String)>,
    pub body: String,
}

#[async_trait]
impl Notifier for Sim {
    async fn secret(&self, parameter: &str) -> Result<String, NotifyError> {
        self.changing_call("secret", |world| {
            let value = world.secrets.get(parameter).cloned();
            value.ok_or_else(|| NotifyError {
                action: "ssm:GetParameter".into(),
                message: format!("there is no parameter {parameter}"),
            })
        })
        .await
    }

    async fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Result<(), NotifyError> {
        self.deliver("post", url, headers.to_vec(), body).await
    }

    async fn publish(&self, topic: &str, subject: &str, body: &str) -> Result<(), NotifyError> {
        let is_long = subject.chars().count() > sns::SUBJECT_CHARACTERS;
        if subject.is_empty() || is_long || subject.contains(char::is_control) {
            return Err(rejected("sns:Publish", "Invalid parameter: Subject"));
        }
        if body.len() > sns::MESSAGE_BYTES {
            return Err(rejected(
                "sns:Publish",
                "Invalid parameter: Message too long",
            ));
        }
        let head = vec![("Subject".to_owned(), subject.to_owned())];
        self.deliver("publish", topic, head, body).await
    }

    async fn put_event(
        &self,
        bus: &str,
        detail_type: &str,
        detail: &str,
    ) -> Result<(), NotifyError> {
        if SOURCE.len() + detail_type.len() + detail.len() > ENTRY_BYTES {
            let message = "Total size of the entries in the request is over the limit.";
            return Err(rejected("events:PutEvents", message));
        }
        let head = vec![("DetailType".to_owned(), detail_type.to_owned())];
        self.deliver("put_event", bus, head, detail).await
    }
}

impl Sim {
    async fn deliver(
        &self,
        call: &'static str,
        to: &str,
        head: Vec<(String, String)>,
        body: &str,
    ) -> Result<(), NotifyError> {
        self.changing_call(call, |world| {
            let (to, body) = (to.to_owned(), body.to_owned());
            world
                .notifications
                .push(DeliveredNotification { to, head, body });
            Ok(())
        })
        .await
    }
}

impl FromFault for NotifyError {
    fn from_fault(_: Fault, call: &str) -> Self {
        Self {
            action: call.to_owned(),
            message: "the connection was closed".into(),
        }
    }
}

fn rejected(action: &str, message: &str) -> NotifyError {
    NotifyError {
        action: action.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_and_events_beyond_limits_are_rejected() {
        let sim = Sim::new("demo");
        let (short, long) = ("s".repeat(99), "s".repeat(100));
        assert!(sim.publish("topic", &short, "body").await.is_ok());
        for subject in [long.as_str(), "two\nlines", ""] {
            assert!(sim.publish("topic", subject, "body").await.is_err());
        }
        let body = "b".repeat(256 << 10);
        assert!(sim.publish("topic", &short, &body).await.is_ok());
        assert!(
            sim.publish("topic", &short, &format!("{body}b"))
                .await
                .is_err()
        );
        assert!(sim.put_event("bus", "limit", &body).await.is_err());
        let rest = body.len() - SOURCE.len() - "limit".len();
        assert!(sim.put_event("bus", "limit", &body[..rest]).await.is_ok());
    }
}
