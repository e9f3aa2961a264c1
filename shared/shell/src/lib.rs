//! What every Lambda function is, around its turn: configuration, the clock, the adapters put together as one world, and the
//! loop that takes events and answers them. It decides nothing, and pure crates must never depend on it.

mod batch;
mod clock;
mod config;
mod connect;
mod metrics;
mod serve;
mod world;

pub use clock::SystemClock;
pub use config::{Config, ConfigError};
pub use serve::{serve_facts, serve_sweeps, serve_wakes};

/// A turn over a big cluster makes and frees millions of small values on several threads, which the system's allocator
/// spends a fifth of the turn on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Logs as Lambda's logging controls ask for (`AWS_LAMBDA_LOG_FORMAT`, `AWS_LAMBDA_LOG_LEVEL`).
fn init_tracing() {
    lambda_runtime::tracing::init_default_subscriber();
}
