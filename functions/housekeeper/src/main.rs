//! The housekeeper function: each minute wakes lanes that are due, mirrors the registry and collects garbage.

use lambda_runtime::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_sweeps().await
}
