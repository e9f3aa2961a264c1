use async_trait::async_trait;
use ports::{Notifier, NotifyError};

use crate::{
    fault::{Fault, Trouble},
    sim::Sim,
};

/// What reached a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// URL, topic or bus.
    pub to: String,
    /// Headers of a POST; a subject or a type else.
    pub head: Vec<(String, String)>,
    pub body: String,
}

#[async_trait]
impl Notifier for Sim {
    async fn secret(&self, parameter: &str) -> Result<String, NotifyError> {
        self.port("secret", |world| {
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
        self.tell("post", url, headers.to_vec(), body).await
    }

    async fn publish(&self, topic: &str, subject: &str, body: &str) -> Result<(), NotifyError> {
        let head = vec![("Subject".to_owned(), subject.to_owned())];
        self.tell("publish", topic, head, body).await
    }

    async fn put_event(
        &self,
        bus: &str,
        detail_type: &str,
        detail: &str,
    ) -> Result<(), NotifyError> {
        let head = vec![("DetailType".to_owned(), detail_type.to_owned())];
        self.tell("put_event", bus, head, detail).await
    }
}

impl Sim {
    async fn tell(
        &self,
        call: &'static str,
        to: &str,
        head: Vec<(String, String)>,
        body: &str,
    ) -> Result<(), NotifyError> {
        self.port(call, |world| {
            let (to, body) = (to.to_owned(), body.to_owned());
            world.told.push(Told { to, head, body });
            Ok(())
        })
        .await
    }
}

impl Trouble for NotifyError {
    fn of(_: Fault, call: &str) -> Self {
        Self {
            action: call.to_owned(),
            message: "the connection was closed".into(),
        }
    }
}
