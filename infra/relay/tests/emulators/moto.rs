//! AWS on this machine: moto behind the services' own models, started and stopped by the test.

use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use relay::aws::sdk_config;

/// Region and credentials for moto, which accepts any.
pub(crate) const REGION: &str = harness::REGION;
pub(crate) const KEY: &str = "test";

pub(crate) struct Moto {
    /// The emulator's process; ends when dropped.
    _server: harness::Moto,
    pub(crate) url: String,
    pub(crate) sdk: SdkConfig,
}

impl Moto {
    pub(crate) async fn start() -> Self {
        let server = harness::Moto::start("demo");
        let url = server.endpoint().to_owned();
        let sdk = sdk_config()
            .await
            .into_builder()
            .endpoint_url(&url)
            .region(Region::new(REGION))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
                KEY, KEY, None, None, "test",
            )))
            .build();
        Self {
            _server: server,
            url,
            sdk,
        }
    }
}
