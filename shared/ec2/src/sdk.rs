use std::time::Duration;

use aws_config::{AppName, BehaviorVersion, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_smithy_http_client::{Builder, tls};

/// A service that cannot be reached must leave time to record that.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The slowest answers are CreateFleet's and DescribeInstanceTypes'.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time until a connection to IAM stands, and attempts. IAM has no endpoint in a VPC: where there is no other way out, each call
/// waits for both. A Region far from IAM's own takes three quarters of a second.
const IAM_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const IAM_ATTEMPTS: u32 = 2;

/// The configuration for clients of IAM.
pub(crate) fn impatient(config: &SdkConfig) -> SdkConfig {
    let timeouts = config.timeout_config().map(TimeoutConfig::to_builder);
    let timeouts = timeouts
        .unwrap_or_default()
        .connect_timeout(IAM_CONNECT_TIMEOUT);
    let retry = config.retry_config().cloned();
    let retry = retry.unwrap_or_else(RetryConfig::standard);
    let attempts = retry.max_attempts().min(IAM_ATTEMPTS);
    config
        .to_builder()
        .timeout_config(timeouts.build())
        .retry_config(retry.with_max_attempts(attempts))
        .build()
}

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
