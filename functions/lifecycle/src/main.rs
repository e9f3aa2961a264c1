//! Launched → registered → initialized, and whether NodePools and EC2NodeClasses are usable.

use lambda_runtime::Error;
use model::Lane;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_wakes(Lane::Lifecycle).await
}
