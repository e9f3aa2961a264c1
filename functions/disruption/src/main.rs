//! The disruption function: replaces or removes nodes that are empty, drifted, unhealthy or underutilized.

use lambda_runtime::Error;
use model::Lane;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_wakes(Lane::Disruption).await
}
