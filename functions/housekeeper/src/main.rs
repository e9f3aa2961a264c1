//! The minute sweep: wakes what is due, mirrors the registry, collects what belongs to nobody.

use lambda_runtime::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_sweeps().await
}
