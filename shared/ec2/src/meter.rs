//! Metering: every request to EC2 takes a call out of the account's budget before it is sent, including pages, dry runs and the SDK's own
//! retries.

use std::{fmt, sync::Arc};

use aws_config::SdkConfig;
use aws_rules::errors::{ErrorClass, error_class};
use aws_smithy_runtime_api::{
    client::{
        http::{
            HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings,
            SharedHttpClient, SharedHttpConnector,
        },
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
        runtime_components::RuntimeComponents,
    },
    shared::IntoShared,
};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use model::budget::Api;
use ports::{Budget, BudgetExhausted, CloudError};

/// The configuration with an HTTP client that takes a call out of the budget before it sends a request.
pub(crate) fn metered(config: &SdkConfig, budget: Option<&Arc<dyn Budget>>) -> SdkConfig {
    let (Some(budget), Some(http)) = (budget, config.http_client()) else {
        return config.clone();
    };
    let metered = MeteredClient {
        http,
        budget: Budgeted(Arc::clone(budget)),
    };
    let metered: SharedHttpClient = metered.into_shared();
    config.to_builder().http_client(metered).build()
}

/// The postponement in an SDK error, if there is one.
pub(crate) fn postponed(
    action: &str,
    error: &(dyn std::error::Error + 'static),
) -> Option<CloudError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(NoBudget(BudgetExhausted { until })) = error.downcast_ref() {
            return Some(CloudError::Postponed {
                action: action.to_owned(),
                until: *until,
            });
        }
        cause = error.source();
    }
    None
}

#[derive(Clone)]
struct Budgeted(Arc<dyn Budget>);

impl fmt::Debug for Budgeted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Budgeted")
    }
}

#[derive(Debug)]
struct NoBudget(BudgetExhausted);

impl fmt::Display for NoBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the account's budget of EC2 calls is spent until {}",
            self.0.until
        )
    }
}

impl std::error::Error for NoBudget {}

#[derive(Debug)]
struct MeteredClient {
    http: SharedHttpClient,
    budget: Budgeted,
}

impl HttpClient for MeteredClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(MeteredConnector {
            http: self.http.http_connector(settings, components),
            budget: self.budget.clone(),
        })
    }
}

#[derive(Clone, Debug)]
struct MeteredConnector {
    http: SharedHttpConnector,
    budget: Budgeted,
}

impl HttpConnector for MeteredConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { http, budget } = self.clone();
        let Budgeted(budget) = budget;
        HttpConnectorFuture::new(async move {
            let api = Api::of(&action(request.body()));
            if let Err(spent) = budget.spend(api).await {
                return Err(ConnectorError::other(Box::new(NoBudget(spent)), None));
            }
            let mut response = http.call(request).await?;
            if !response.status().is_success() && is_throttled(&mut response).await? {
                budget.throttled(api).await;
            }
            Ok(response)
        })
    }
}

/// The action of a request in EC2's query protocol.
fn action(body: &SdkBody) -> String {
    let fields = body.bytes().unwrap_or_default();
    let mut fields = fields.split(|byte| *byte == b'&');
    let action = fields.find_map(|field| field.strip_prefix(b"Action="));
    String::from_utf8_lossy(action.unwrap_or_default()).into_owned()
}

/// Whether EC2 throttled the request. EC2's errors are short, so the body is read here and put back.
async fn is_throttled(response: &mut HttpResponse) -> Result<bool, ConnectorError> {
    let body = ByteStream::new(response.take_body()).collect().await;
    let body = body.map_err(|error| ConnectorError::io(error.into()))?;
    let body = body.into_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    *response.body_mut() = SdkBody::from(body);
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    Ok(code.is_some_and(|(code, _)| error_class(code) == ErrorClass::Throttled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_counted_by_its_action() {
        let body = SdkBody::from("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=a");
        assert_eq!(action(&body), "DescribeInstances");
        assert_eq!(Api::of(&action(&body)), Api::Describe);
        assert_eq!(action(&SdkBody::empty()), "");
    }
}
