//! ARC zonal shifts of EKS clusters. Its SDK would be a crate of its own for one small read, so the request is signed and sent
//! here, by the same client and credentials as all others.

use std::{fmt, time::SystemTime};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials;
use aws_rules::zonal_shift::ManagedResource;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_types::{body::SdkBody, error::display::DisplayErrorContext};
use model::{ClusterName, experience::ZonalShift};
use ports::CloudError;
use serde_json::Value;

use crate::{Account, access::domain, errors::cloud_error};

const ACTION: &str = "arc-zonal-shift:GetManagedResource";
const SERVICE: &str = "arc-zonal-shift";

impl Account {
    /// EKS registers clusters with ARC by their ARN; others have none.
    pub(crate) async fn shifts_of(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        if entry.get("type").and_then(Value::as_str) != Some("eks") {
            return Err(CloudError::Invalid {
                action: ACTION.to_owned(),
                code: "InvalidEntry".to_owned(),
                message: format!(
                    "settings.enableZonalShift is true, but cluster {cluster} is not of type \"eks\": only EKS clusters have zonal shifts"
                ),
            });
        }
        let arn = self.eks_cluster(cluster).await?.arn.unwrap_or_default();
        let path = format!("/managedresources/{}", escaped(&arn));
        let answer = get(&self.config, &self.region, path, self.clock.now().into()).await?;
        match serde_json::from_str::<ManagedResource>(&answer) {
            Ok(resource) => Ok(resource.shifts(self.clock.now())),
            Err(error) => Err(unknown(format!("the answer cannot be read: {error}"))),
        }
    }
}

fn unknown(message: String) -> CloudError {
    CloudError::Unknown {
        action: ACTION.to_owned(),
        message,
    }
}

/// All but what RFC 3986 calls unreserved.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A request with its signature.
struct Signed {
    path: String,
    headers: Vec<(String, String)>,
}

/// Headers hold the signature: they are not for logs.
impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {}", self.path)
    }
}

async fn get(
    config: &SdkConfig,
    region: &str,
    path: String,
    now: SystemTime,
) -> Result<String, CloudError> {
    let endpoint = config.endpoint_url().map_or_else(
        || format!("https://{SERVICE}.{region}.{}", domain(region)),
        |url| url.trim_end_matches('/').to_owned(),
    );
    let headers = signature(config, region, &format!("{endpoint}{path}"), now).await?;
    let http = config.http_client();
    let http = http.ok_or_else(|| unknown("there is no HTTP client".to_owned()))?;
    let mut operation = Operation::builder()
        .service_name(SERVICE)
        .operation_name("GetManagedResource")
        .endpoint_url(&endpoint)
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
    let operation = operation
        .serializer(|signed: Signed| {
            let mut request = HttpRequest::new(SdkBody::empty());
            request.set_uri(signed.path)?;
            for (name, value) in signed.headers {
                request.headers_mut().try_insert(name, value)?;
            }
            Ok(request)
        })
        .deserializer(answer)
        .build();
    let (status, body) = operation
        .invoke(Signed { path, headers })
        .await
        .map_err(|error| unknown(DisplayErrorContext(&error).to_string()))?;
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let said: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |names: [&str; 2]| {
        let mut found = names.iter().filter_map(|name| said.get(name)?.as_str());
        found.next().unwrap_or_default().to_owned()
    };
    let code = text(["__type", "code"]);
    if code.is_empty() || status >= 500 {
        return Err(unknown(format!("HTTP {status}: {body}")));
    }
    Err(cloud_error(ACTION, code, text(["message", "Message"])))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape that the client asks for"
)]
fn answer(
    response: &HttpResponse,
) -> Result<(u16, String), OrchestratorError<std::convert::Infallible>> {
    let body = response.body().bytes().unwrap_or_default();
    Ok((
        response.status().as_u16(),
        String::from_utf8_lossy(body).into_owned(),
    ))
}

async fn signature(
    config: &SdkConfig,
    region: &str,
    url: &str,
    now: SystemTime,
) -> Result<Vec<(String, String)>, CloudError> {
    let failed = |message: String| unknown(format!("it cannot be signed: {message}"));
    let provider = config
        .credentials_provider()
        .ok_or_else(|| failed("there are no AWS credentials".to_owned()))?;
    let identity = provider.provide_credentials().await;
    let identity = identity.map_err(|error| failed(error.to_string()))?.into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(error.to_string()))?
        .into();
    let request = SignableRequest::new("GET", url, [].into_iter(), SignableBody::Bytes(&[]))
        .map_err(|error| failed(error.to_string()))?;
    let signed = sign(request, &parameters).map_err(|error| failed(error.to_string()))?;
    let (instructions, _) = signed.into_parts();
    let headers = instructions.headers();
    Ok(headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}
