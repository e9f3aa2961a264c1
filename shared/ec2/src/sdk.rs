use std::time::Duration;

use aws_config::{AppName, BehaviorVersion, SdkConfig, timeout::TimeoutConfig};
use aws_smithy_http_client::{Builder, tls};

/// A service that cannot be reached must leave time to record that.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The slowest answers are CreateFleet's and DescribeInstanceTypes'.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// The AWS configuration of the environment, with the one TLS stack that the cluster client uses too.
///
/// Endpoints, Region and credentials come from the environment as in every AWS SDK (`AWS_ENDPOINT_URL`,
/// `AWS_ENDPOINT_URL_EC2` …). CloudTrail shows the caller as `app/<caller>` in the user agent of each call.
pub async fn sdk_config(caller: &str) -> SdkConfig {
    let may = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let app = AppName::new(caller.chars().filter(may).collect::<String>()).ok();
    let http = Builder::new()
        .tls_provider(tls::Provider::Rustls(
            tls::rustls_provider::CryptoMode::Ring,
        ))
        .build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .timeout_config(timeouts);
    if let Some(app) = app {
        loader = loader.app_name(app);
    }
    loader.load().await
}
