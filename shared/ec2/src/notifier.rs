//! Notifications outside the cluster: webhooks, SNS topics and EventBridge buses.

use async_trait::async_trait;
use ports::{Notifier, NotifyError};
use serde_json::{Value, json};

use signed::{Request, domain, send};

use crate::Account;

/// Source of the events on EventBridge buses.
const SOURCE: &str = "whittle";
/// Upper bound on the characters of an answer that an error shows: enough for an error message, too few for an HTML page.
const SHOWN_CHARS_MAX: usize = 200;

#[async_trait]
impl Notifier for Account {
    async fn secret(&self, parameter: &str) -> Result<String, NotifyError> {
        let value = self.parameter(parameter).await;
        let value = value.map_err(|error| failed("ssm:GetParameter", error.to_string()))?;
        Ok(value.trim().to_owned())
    }

    async fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Result<(), NotifyError> {
        const ACTION: &str = "a webhook's POST";
        let rest = url.strip_prefix("https://");
        let rest = rest.ok_or_else(|| failed(ACTION, "the URL is not https".to_owned()))?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let request = Request {
            operation: ACTION,
            service: None,
            method: "POST",
            endpoint: format!("https://{authority}"),
            path: format!("{slash}{path}"),
            headers: headers.to_vec(),
            body: body.as_bytes().to_vec(),
        };
        self.succeed(request).await.map(drop)
    }

    async fn publish(&self, topic: &str, subject: &str, body: &str) -> Result<(), NotifyError> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", "Publish")
            .append_pair("Version", "2010-03-31")
            .append_pair("TopicArn", topic)
            .append_pair("Subject", subject)
            .append_pair("Message", body)
            .finish();
        let form_type = "application/x-www-form-urlencoded";
        let headers = vec![("content-type".to_owned(), form_type.to_owned())];
        self.succeed(self.aws("sns", "sns:Publish", headers, form))
            .await
            .map(drop)
    }

    async fn put_event(
        &self,
        bus: &str,
        detail_type: &str,
        detail: &str,
    ) -> Result<(), NotifyError> {
        const ACTION: &str = "events:PutEvents";
        let entry = json!({
            "EventBusName": bus, "Source": SOURCE, "DetailType": detail_type, "Detail": detail,
        });
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", "AWSEvents.PutEvents"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let body = json!({ "Entries": [entry] }).to_string();
        let answer = self.succeed(self.aws("events", ACTION, headers.into(), body));
        let answer: Value = serde_json::from_str(&answer.await?).unwrap_or_default();
        // A successful answer may report refused entries.
        match answer.get("FailedEntryCount").and_then(Value::as_i64) {
            Some(0) => Ok(()),
            _ => Err(failed(ACTION, answer.to_string())),
        }
    }
}

impl Account {
    fn aws(
        &self,
        service: &'static str,
        operation: &'static str,
        headers: Vec<(String, String)>,
        body: String,
    ) -> Request {
        let region = &self.region;
        let endpoint = self.config.endpoint_url().map_or_else(
            || format!("https://{service}.{region}.{}", domain(region)),
            |url| url.trim_end_matches('/').to_owned(),
        );
        Request {
            operation,
            service: Some(service),
            method: "POST",
            endpoint,
            path: "/".to_owned(),
            headers,
            body: body.into_bytes(),
        }
    }

    /// Sends the request and returns the body of a successful answer.
    async fn succeed(&self, request: Request) -> Result<String, NotifyError> {
        let action = request.operation;
        let now = self.clock.now().into();
        let answer = send(&self.config, &self.region, now, request).await;
        match answer.map_err(|error| failed(action, error))? {
            (200..=299, body) => Ok(body),
            (status, body) => {
                let body: String = body.chars().take(SHOWN_CHARS_MAX).collect();
                Err(failed(action, format!("HTTP {status}: {body}")))
            }
        }
    }
}

fn failed(action: &str, message: String) -> NotifyError {
    NotifyError {
        action: action.to_owned(),
        message,
    }
}
