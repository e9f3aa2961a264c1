//! AWS' warnings → facts in the ledger, and the nodes concerned on their way out.

use lambda_runtime::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    shell::serve_facts(aws_rules::interruption::read).await
}
