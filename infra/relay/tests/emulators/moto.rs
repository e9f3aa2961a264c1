//! An AWS on this machine: moto's server, started and stopped by the test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use relay::aws::sdk_config;

use crate::support::{tool, until};

/// The Region and credentials moto is called with; it accepts any.
pub(crate) const REGION: &str = "us-east-1";
pub(crate) const KEY: &str = "test";

pub(crate) struct Moto {
    server: Child,
    pub(crate) url: String,
    pub(crate) sdk: SdkConfig,
}

impl Moto {
    pub(crate) async fn start() -> Self {
        let program = tool("moto_server");
        let port = free_port();
        let server = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; run infra/tools/install", program.display())
            });
        let url = format!("http://127.0.0.1:{port}");
        let sdk = sdk_config()
            .await
            .into_builder()
            .endpoint_url(&url)
            .region(Region::new(REGION))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
                KEY, KEY, None, None, "test",
            )))
            .build();
        let moto = Self { server, url, sdk };
        until("moto answers", async || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        moto
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to tell.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
