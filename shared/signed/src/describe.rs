//! SDK errors as one line for users.

use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use ports::with_causes;

/// Upper bound on the characters of an unparsed answer: enough for the messages of proxies and load balancers.
const BODY_MAX: usize = 200;

/// Describes an error: the service's code and message; the answer itself, if it does not come from the service; or why there is no
/// answer.
pub fn describe<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let Some(service) = error.as_service_error() else {
        return with_causes(error);
    };
    match (service.code(), error.raw_response()) {
        (Some(code), _) => format!("{code}: {}", service.message().unwrap_or("no message")),
        (None, Some(response)) => {
            let body = response.body().bytes().unwrap_or_default();
            let body: String = String::from_utf8_lossy(body)
                .chars()
                .take(BODY_MAX)
                .collect();
            format!("HTTP {}: {body}", response.status())
        }
        (None, None) => with_causes(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use aws_smithy_runtime_api::{client::result::ConnectorError, http::StatusCode};
    use aws_smithy_types::{body::SdkBody, error::ErrorMetadata};

    use super::*;

    fn answered(said: ErrorMetadata, status: u16, body: &'static str) -> String {
        let status = StatusCode::try_from(status).unwrap();
        let response = HttpResponse::new(status, SdkBody::from(body));
        describe(&SdkError::service_error(ServiceMessage(said), response))
    }

    #[derive(Debug)]
    struct ServiceMessage(ErrorMetadata);

    impl std::fmt::Display for ServiceMessage {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("unhandled error")
        }
    }

    impl std::error::Error for ServiceMessage {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    impl ProvideErrorMetadata for ServiceMessage {
        fn meta(&self) -> &ErrorMetadata {
            &self.0
        }
    }

    #[test]
    fn service_error_is_described_by_code_and_message() {
        let said = ErrorMetadata::builder()
            .code("AccessDeniedException")
            .message("not authorized to perform: pricing:GetProducts");
        assert_eq!(
            answered(said.build(), 400, "{}"),
            "AccessDeniedException: not authorized to perform: pricing:GetProducts"
        );
    }

    #[test]
    fn answer_without_a_code_is_quoted() {
        let body = "{\"error\": \"Unsupported service\"}";
        assert_eq!(
            answered(ErrorMetadata::builder().build(), 400, body),
            "HTTP 400: {\"error\": \"Unsupported service\"}"
        );
    }

    #[test]
    fn unanswered_request_is_described_by_its_causes() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused");
        let error = ConnectorError::io(Box::new(refused));
        let error: SdkError<ServiceMessage, HttpResponse> = SdkError::dispatch_failure(error);
        assert_eq!(
            describe(&error),
            "dispatch failure: io error: connection refused"
        );
    }
}
