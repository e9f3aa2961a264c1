use std::{
    error::Error,
    fmt,
    time::{Duration, SystemTime},
};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::{
    http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
        UriPathNormalizationMode, sign,
    },
    sign::v4,
};
use aws_smithy_async::rt::sleep::AsyncSleep as _;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{Intercept, context::BeforeDeserializationInterceptorContextMut},
        orchestrator::{HttpRequest, HttpResponse, OrchestratorError},
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::{body::SdkBody, config_bag::ConfigBag};
use http_body_util::{LengthLimitError, Limited};
use ports::with_causes;

/// Maximum number of attempts of a request that may be repeated: S3 answers 503 while it scales, and a connection may be dead after a
/// function was frozen.
const ATTEMPTS: u32 = 3;
/// Time before the second attempt, doubled before the third.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Upper bound on an answer of AWS in bytes: the largest are full views of a cluster (docs/SECURITY.md).
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Upper bound on an answer of a notification target outside AWS, in bytes.
const NOTIFICATION_ANSWER_BYTES_MAX: usize = 64 << 10;

/// A request to send.
#[derive(Clone)]
pub struct Request {
    /// Operation in logs, such as `sns:Publish`.
    pub operation: &'static str,
    /// Signing name of the service; `None` for an unsigned request.
    pub service: Option<&'static str>,
    pub method: &'static str,
    /// Scheme and authority, without a trailing slash.
    pub endpoint: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Leaves out body and headers, which contain secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.operation)
    }
}

/// Sends a request and returns the status and body of the answer as text, or why there is no answer.
pub async fn send(
    config: &SdkConfig,
    region: &str,
    now: SystemTime,
    request: Request,
) -> Result<(u16, String), String> {
    let (status, body) = exchange(config, region, now, request).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Sends a request like [`send`], with a binary answer. Requests that may be repeated are retried as often as the configuration
/// allows: reads, and writes that replace a whole object.
pub async fn exchange(
    config: &SdkConfig,
    region: &str,
    now: SystemTime,
    mut request: Request,
) -> Result<(u16, Vec<u8>), String> {
    if let Some(app) = config.app_name() {
        let agent = ("user-agent".to_owned(), format!("app/{app}"));
        request.headers.push(agent);
    }
    if let Some(service) = request.service {
        let signed = signature(config, region, now, service, &request).await;
        let signed = signed.map_err(|error| format!("it cannot be signed: {error}"))?;
        request.headers.extend(signed);
    }
    let allowed = config
        .retry_config()
        .map_or(ATTEMPTS, |retry| retry.max_attempts());
    let attempts = match request.method {
        "GET" | "PUT" => allowed.min(ATTEMPTS),
        _ => 1,
    };
    let mut pause = FIRST_PAUSE;
    for _ in 1..attempts {
        let answer = once(config, request.clone()).await;
        let Some(sleep) = config.sleep_impl().filter(|_| is_transient(&answer)) else {
            return answer.map_err(|unanswered| unanswered.message);
        };
        sleep.sleep(pause).await;
        pause *= 2;
    }
    let answer = once(config, request).await;
    answer.map_err(|unanswered| unanswered.message)
}

/// The reason why there is no answer.
struct Unanswered {
    message: String,
    /// The answer exceeds its bound, and would do so again.
    is_too_long: bool,
}

impl Unanswered {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |&cause| cause.source());
        let mut causes = causes.filter(|cause| cause.is::<LengthLimitError>());
        Self {
            message: with_causes(error),
            is_too_long: causes.next().is_some(),
        }
    }
}

/// Whether another attempt may succeed: there was no answer, or it reports a failure of the server.
fn is_transient(answer: &Result<(u16, Vec<u8>), Unanswered>) -> bool {
    match answer {
        Ok((status, _)) => matches!(status, 500 | 502 | 503 | 504),
        Err(unanswered) => !unanswered.is_too_long,
    }
}

async fn once(config: &SdkConfig, request: Request) -> Result<(u16, Vec<u8>), Unanswered> {
    let http = config.http_client().ok_or_else(|| Unanswered {
        message: "there is no HTTP client".to_owned(),
        is_too_long: false,
    })?;
    let mut operation = Operation::builder()
        .service_name(request.service.unwrap_or("https"))
        .operation_name(request.operation)
        .endpoint_url(&request.endpoint)
        .http_client(http)
        .no_auth()
        .no_retry();
    if let Some(timeouts) = config.timeout_config() {
        operation = operation.timeout_config(timeouts.clone());
    }
    if let Some(sleep) = config.sleep_impl() {
        operation = operation.sleep_impl(sleep);
    }
    if let Some(time) = config.time_source() {
        operation = operation.time_source(time);
    }
    let most = match request.service {
        Some(_) => ANSWER_BYTES_MAX,
        None => NOTIFICATION_ANSWER_BYTES_MAX,
    };
    let operation = operation
        .interceptor(BoundedAnswer { most })
        .serializer(|request: Request| {
            let mut sent = HttpRequest::new(SdkBody::from(request.body));
            sent.set_method(request.method)?;
            sent.set_uri(request.path)?;
            for (name, value) in request.headers {
                sent.headers_mut().try_insert(name, value)?;
            }
            Ok(sent)
        })
        .deserializer(answer)
        .build();
    operation
        .invoke(request)
        .await
        .map_err(|error| Unanswered::of(&error))
}

/// Stops reading an answer that exceeds its bound.
#[derive(Debug)]
struct BoundedAnswer {
    most: usize,
}

impl Intercept for BoundedAnswer {
    fn name(&self) -> &'static str {
        "BoundedAnswer"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response_mut();
        let body = std::mem::replace(response.body_mut(), SdkBody::taken());
        *response.body_mut() = SdkBody::from_body_1_x(Limited::new(body, self.most));
        Ok(())
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape that the client asks for"
)]
fn answer(
    response: &HttpResponse,
) -> Result<(u16, Vec<u8>), OrchestratorError<std::convert::Infallible>> {
    let body = response.body().bytes().unwrap_or_default();
    Ok((response.status().as_u16(), body.to_vec()))
}

/// Signing settings. S3 signs the path as it is sent, and requires the body's hash as a header.
fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    if service == "s3" {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    settings
}

/// Percent-encodes all characters except the unreserved ones of RFC 3986 and those in `also`.
pub fn escaped(text: &str, also: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ if also.as_bytes().contains(&byte) => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

async fn signature(
    config: &SdkConfig,
    region: &str,
    now: SystemTime,
    service: &str,
    request: &Request,
) -> Result<Vec<(String, String)>, String> {
    let provider = config
        .credentials_provider()
        .ok_or_else(|| "there are no AWS credentials".to_owned())?;
    let identity = provider.provide_credentials().await;
    let identity = identity.map_err(|error| error.to_string())?.into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(settings(service))
        .build()
        .map_err(|error| error.to_string())?
        .into();
    let url = format!("{}{}", request.endpoint, request.path);
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_str()));
    let body = SignableBody::Bytes(&request.body);
    let signable = SignableRequest::new(request.method, url, headers, body);
    let signable = signable.map_err(|error| error.to_string())?;
    let signed = sign(signable, &parameters).map_err(|error| error.to_string())?;
    let (instructions, _) = signed.into_parts();
    let headers = instructions.headers();
    Ok(headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}
