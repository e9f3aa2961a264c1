//! The interruption function: records AWS' announcements as facts in the ledger, and begins to drain the nodes concerned.

use lambda_runtime::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_facts(aws_rules::interruption::read).await
}
