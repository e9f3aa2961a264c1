//! Utilities of all integration tests.

use std::path::PathBuf;
use std::time::Duration;

/// Timeout of a step, far longer than any step takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(STEP_TIMEOUT, holds).await.is_err() {
        panic!("waited in vain: {what}");
    }
}

/// A program that `infra/tools/install` links.
pub(crate) fn tool(name: &str) -> PathBuf {
    let tools = std::env::vars_os()
        .find(|(key, _)| key == "WHITTLE_TOOLS")
        .map_or_else(
            || std::env::home_dir().unwrap().join(".cache/whittle-tools"),
            |(_, value)| value.into(),
        );
    let program = tools.join("bin").join(name);
    assert!(
        program.exists(),
        "{} is missing: run infra/tools/install",
        program.display()
    );
    program
}
