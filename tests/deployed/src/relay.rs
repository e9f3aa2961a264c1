//! Process of the relay.

use std::{
    fs,
    process::{Child, Command},
};

use tempfile::NamedTempFile;

use super::{CLUSTER, Deployed};

/// Running relay. Dropping the value kills it, as when its pod is deleted.
pub struct Relay {
    process: Child,
    log: NamedTempFile,
}

impl Relay {
    pub fn start(deployed: &Deployed<'_>) -> Self {
        let program = harness::built_program("relay");
        let log = NamedTempFile::new().unwrap();
        let queue = |output: &str| deployed.stack.output(output).to_owned();
        let process = Command::new(program)
            .env_clear()
            .envs(deployed.aws.environment())
            .env("KUBECONFIG", deployed.cluster.relay_kubeconfig())
            .env("WHITTLE_CLUSTER", CLUSTER)
            .env("WHITTLE_TABLE", deployed.stack.output("Table"))
            .env("WHITTLE_QUEUE_PROVISION", queue("ProvisionQueueUrl"))
            .env("WHITTLE_QUEUE_LIFECYCLE", queue("LifecycleQueueUrl"))
            .env("WHITTLE_QUEUE_DISRUPT", queue("DisruptQueueUrl"))
            .env("WHITTLE_QUEUE_TERMINATE", queue("TerminateQueueUrl"))
            .env("WHITTLE_LISTEN", "127.0.0.1:0")
            .stdout(log.reopen().unwrap())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        Self { process, log }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The process may have ended by itself; its log then has the reason.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log.path()).unwrap_or_default();
            eprintln!("---- the relay's log ----\n{log}");
        }
    }
}
