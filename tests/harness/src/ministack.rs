//! ministack: Lambda, SQS, EventBridge, Scheduler, DynamoDB, S3, STS and CloudFormation.

use std::{ffi::OsString, fs, ops::Deref, process::Command};

use serde_json::json;

use crate::emulator::Emulator;

/// Running ministack; `python/serve_ministack.py` lists its deviations from AWS.
#[derive(Debug)]
pub struct Ministack(Emulator);

impl Ministack {
    /// Starts ministack. The functions that it runs inherit this environment, which therefore names the endpoints of
    /// other emulators.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(environment: &[(&str, String)]) -> Self {
        let environment: serde_json::Map<_, _> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        Self(Emulator::start("ministack", &json!({"environment": environment})).0)
    }

    /// Kills every process that runs this function, as a crash of its host would, and returns their number. Messages in
    /// work return to the queue when their visibility timeout ends.
    #[must_use]
    pub fn kill_function(&self, function: &str) -> usize {
        let marks = [
            format!("AWS_LAMBDA_FUNCTION_NAME={function}"),
            format!("AWS_ENDPOINT_URL={}", self.endpoint()),
        ];
        let processes = fs::read_dir("/proc").unwrap_or_else(|error| panic!("/proc: {error}"));
        let pids: Vec<OsString> = processes
            .filter_map(Result::ok)
            .filter(|process| {
                // Processes of other users, and processes that end meanwhile, are not readable and do not run this
                // function.
                let environment = fs::read(process.path().join("environ")).unwrap_or_default();
                marks.iter().all(|mark| {
                    environment
                        .split(|byte| *byte == 0)
                        .any(|entry| entry == mark.as_bytes())
                })
            })
            .map(|process| process.file_name())
            .collect();
        for pid in &pids {
            // The process may have ended by itself.
            let _ = Command::new("kill").arg("-KILL").arg(pid).status();
        }
        pids.len()
    }
}

impl Deref for Ministack {
    type Target = Emulator;

    fn deref(&self) -> &Emulator {
        &self.0
    }
}
