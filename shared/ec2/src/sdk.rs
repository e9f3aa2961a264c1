use std::time::Duration;

use aws_config::{AppName, BehaviorVersion, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_smithy_http_client::{Builder, tls};

/// Timeout of a connection: an unreachable service must leave time to record the failure.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of an attempt; CreateFleet and DescribeInstanceTypes answer slowest.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a connection to IAM, and maximum number of attempts. IAM has no VPC endpoint: in a VPC without another way out, each call
/// waits for both. From a Region far from IAM's own, connecting takes three quarters of a second.
const IAM_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const IAM_ATTEMPTS: u32 = 2;

/// The configuration for clients of IAM, with short timeouts.
pub(crate) fn with_short_timeouts(config: &SdkConfig) -> SdkConfig {
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

/// The AWS configuration of the environment, with the TLS stack that the cluster client uses too.
///
/// Endpoints, Region and credentials come from the environment as in every AWS SDK (`AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_EC2` …).
/// CloudTrail shows the caller as `app/<caller>` in the user agent of each call.
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
