//! What every Lambda function needs around its turn: configuration, the AWS configuration, the clock, tracing and the
//! answers that SQS expects. It decides nothing and must never depend on planning.

mod batch;
mod clock;
mod config;
mod sdk;

pub use batch::{Message, answer, messages};
pub use clock::SystemClock;
pub use config::{Config, ConfigError};
pub use sdk::sdk_config;

/// Logs as Lambda's logging controls ask for (`AWS_LAMBDA_LOG_FORMAT`, `AWS_LAMBDA_LOG_LEVEL`).
pub fn init_tracing() {
    lambda_runtime::tracing::init_default_subscriber();
}
