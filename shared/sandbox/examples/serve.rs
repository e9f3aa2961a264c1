//! Serves an empty cluster until Ctrl-C: `cargo run -p sandbox --example serve -- <port>`.

use sandbox::{Sandbox, SandboxOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = match std::env::args().nth(1) {
        Some(port) => port.parse()?,
        None => 0,
    };
    let sandbox = Sandbox::start(SandboxOptions {
        port,
        ..SandboxOptions::default()
    })
    .await?;
    eprintln!("{}", sandbox.kubeconfig_yaml());
    tokio::signal::ctrl_c().await?;
    sandbox.stop().await;
    Ok(())
}
