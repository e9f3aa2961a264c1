//! ministack: Lambda, SQS, EventBridge, Scheduler, DynamoDB, S3, STS and CloudFormation.

use std::{ffi::OsString, fs, ops::Deref, process::Command};

use serde_json::json;

use crate::emulator::Emulator;

/// ministack; `python/serve_ministack.py` lists its ways.
#[derive(Debug)]
pub struct Ministack(Emulator);

impl Ministack {
    /// Starts ministack. The functions it runs see this environment too, so other emulators' endpoints belong into it.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(environment: &[(&str, String)]) -> Self {
        let environment: serde_json::Map<_, _> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        Self(Emulator::start("ministack", &json!({"environment": environment})).0)
    }

    /// Kills every process that runs this function, as a crash of Lambda's host would, and says how many there were.
    /// What they were working on returns to the queue when its visibility time-out ends.
    #[must_use]
    pub fn kill_function(&self, function: &str) -> usize {
        let marks = [
            format!("AWS_LAMBDA_FUNCTION_NAME={function}"),
            format!("AWS_ENDPOINT_URL={}", self.endpoint()),
        ];
        let processes = fs::read_dir("/proc").unwrap_or_else(|error| panic!("/proc: {error}"));
        let victims: Vec<OsString> = processes
            .filter_map(Result::ok)
            .filter(|process| {
                // Processes of others, and those that end meanwhile, cannot be read and are not ours.
                let environment = fs::read(process.path().join("environ")).unwrap_or_default();
                marks.iter().all(|mark| {
                    environment
                        .split(|byte| *byte == 0)
                        .any(|entry| entry == mark.as_bytes())
                })
            })
            .map(|process| process.file_name())
            .collect();
        for victim in &victims {
            // It may have ended by itself.
            let _ = Command::new("kill").arg("-KILL").arg(victim).status();
        }
        victims.len()
    }
}

impl Deref for Ministack {
    type Target = Emulator;

    fn deref(&self) -> &Emulator {
        &self.0
    }
}
