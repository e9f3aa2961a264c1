//! Nodes that are no longer worth having.

use lambda_runtime::Error;
use model::Lane;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_wakes(Lane::Disruption).await
}
