use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::{Builder, tls};

/// The AWS configuration of the environment, with the one TLS stack that the cluster client uses too.
///
/// Endpoints, region and credentials come from the environment as in every AWS SDK (`AWS_ENDPOINT_URL`,
/// `AWS_ENDPOINT_URL_EC2` …).
pub async fn sdk_config() -> SdkConfig {
    let http = Builder::new()
        .tls_provider(tls::Provider::Rustls(
            tls::rustls_provider::CryptoMode::Ring,
        ))
        .build_https();
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .load()
        .await
}
