//! Classification of the SDKs' errors by the caller's next step.

use aws_rules::{
    errors::{ErrorClass, error_class},
    node_class::Refusal,
};
use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use ports::CloudError;
use signed::describe;

use crate::meter::postponed;

/// Classifies an error of `action`, such as `ec2:CreateFleet`.
pub(crate) fn refused<E>(action: &'static str) -> impl Fn(SdkError<E, HttpResponse>) -> CloudError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    move |error| {
        if let Some(postponed) = postponed(action, &error) {
            return postponed;
        }
        let service = error.as_service_error();
        // An error without a code does not come from the service, or cannot be parsed.
        let Some((service, code)) = service.and_then(|said| Some((said, said.code()?))) else {
            return CloudError::Unknown {
                action: action.to_owned(),
                message: describe(&error),
            };
        };
        let message = service.message().unwrap_or("no message").to_owned();
        cloud_error(action, code.to_owned(), message)
    }
}

/// EC2's error to a dry-run call; an error if the call was not sent.
pub(crate) fn refusal<E>(
    action: &str,
    error: SdkError<E, HttpResponse>,
) -> Result<Refusal, CloudError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    if let Some(postponed) = postponed(action, &error) {
        return Err(postponed);
    }
    Ok(match error.as_service_error() {
        Some(service) => Refusal {
            code: service.code().unwrap_or_default().to_owned(),
            message: service.message().unwrap_or_default().to_owned(),
        },
        None => Refusal {
            code: String::new(),
            message: describe(&error),
        },
    })
}

pub(crate) fn cloud_error(action: &str, code: String, message: String) -> CloudError {
    let action = action.to_owned();
    match error_class(&code) {
        ErrorClass::Capacity => CloudError::NoCapacity { code, message },
        ErrorClass::NotFound => CloudError::NotFound {
            what: format!("{action} answered {code}: {message}; the resource"),
        },
        ErrorClass::Throttled => CloudError::Throttled { action, code },
        ErrorClass::Denied => CloudError::Denied {
            action,
            message: format!("{code}: {message}"),
        },
        ErrorClass::Unknown => CloudError::Unknown {
            action,
            message: format!("{code}: {message}"),
        },
        ErrorClass::AlreadyExists | ErrorClass::Invalid => CloudError::Invalid {
            action,
            code,
            message,
        },
    }
}

/// The service's error code, if there is one.
pub(crate) fn code<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> Option<&str> {
    error.as_service_error().and_then(|service| service.code())
}
