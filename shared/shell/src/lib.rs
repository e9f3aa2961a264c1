//! Runtime of every Lambda function around its turn: configuration, the clock, the adapters assembled as one world, and the loop that
//! receives events and answers them. It decides nothing, and pure crates must never depend on it.

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

/// A turn for a large cluster allocates and frees millions of small values on several threads; the system's allocator takes a fifth of the
/// turn for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Initializes logging as Lambda's logging controls configure it (`AWS_LAMBDA_LOG_FORMAT`, `AWS_LAMBDA_LOG_LEVEL`).
fn init_tracing() {
    lambda_runtime::tracing::init_default_subscriber();
}
