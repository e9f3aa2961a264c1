//! The lifecycle function: advances NodeClaims from launched to registered and initialized, and updates the status of NodePools
//! and EC2NodeClasses.

use lambda_runtime::Error;
use model::Lane;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_wakes(Lane::Lifecycle).await
}
