//! Tests of the adapter's requests and answers: against moto, and against recorded answers for calls that moto does not support.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do, by panicking"
)]

/// Runs the examples of one file as one test: nextest runs each test in a separate process, and each process would start a moto, which
/// costs a core for seconds. Names every example that fails.
macro_rules! on_one_moto {
    ($($example:ident),+ $(,)?) => {
        #[tokio::test]
        async fn on_moto() {
            let examples = [$((stringify!($example), tokio::spawn($example()))),+];
            let mut failed = Vec::new();
            for (name, example) in examples {
                if example.await.is_err() {
                    failed.push(name);
                }
            }
            assert!(failed.is_empty(), "{failed:#?}");
        }
    };
}

mod answers;
mod aws;
mod bucket;
mod catalog;
mod damage;
mod discovery;
mod isolated;
mod launches;
mod meter;
mod modelled;
mod mutated;
mod partitions;
mod prerequisites;
mod prices;
mod recorded;
mod recorded_types;
mod registry;
mod terminations;
mod webhooks;
mod zonal_shifts;
