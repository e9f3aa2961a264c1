//! The provisioner function: launches the nodes that pending pods need.

use lambda_runtime::Error;
use model::Lane;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_wakes(Lane::Provisioner).await
}
