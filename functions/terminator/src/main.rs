//! The terminator function: advances every drain by its next step.

use lambda_runtime::Error;
use model::Lane;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_wakes(Lane::Terminator).await
}
