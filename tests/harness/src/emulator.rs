//! Emulator process and the protocol of calls to it (`python/wire.py` is the other end).

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// Upper bound on the log lines that a failed test prints, newest kept: enough for the failing request and its cause.
const LOG_LINES_SHOWN: usize = 200;

/// Running emulator. Its standard input closes when this value is dropped or the test process ends, and the emulator
/// then ends itself.
#[derive(Debug)]
pub struct Emulator {
    name: &'static str,
    endpoint: String,
    child: Child,
    channel: Option<Mutex<Channel>>,
    log: NamedTempFile,
}

#[derive(Debug)]
struct Channel {
    calls: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Emulator {
    /// Starts `python/serve_<name>.py` in the virtual environment `name` and waits for the announcement of its
    /// endpoint.
    pub(crate) fn start(name: &'static str, argument: &Value) -> (Self, Value) {
        let python = crate::tool(&format!("{name}/bin/python"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("python/serve_{name}.py"));
        let log = NamedTempFile::with_prefix(format!("{name}-"))
            .unwrap_or_else(|error| panic!("{name}'s log: {error}"));
        let log_file = log
            .reopen()
            .unwrap_or_else(|error| panic!("{name}'s log: {error}"));
        let mut child = Command::new(python)
            .arg(script)
            .arg(argument.to_string())
            .envs(crate::CREDENTIALS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let (Some(calls), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            panic!("{name} was started without pipes");
        };
        let channel = Some(Mutex::new(Channel {
            calls,
            answers: BufReader::new(answers),
        }));
        let mut emulator = Self {
            name,
            endpoint: String::new(),
            child,
            channel,
            log,
        };
        let announcement = emulator.channel(Channel::next);
        emulator.endpoint = text(&announcement, "endpoint");
        (emulator, announcement)
    }

    /// URL such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Calls an operation with boto3's names, such as `("ec2", "describe_instances", json!({"Filters": […]}))`.
    ///
    /// # Panics
    ///
    /// If the operation fails.
    pub fn call(&self, service: &str, operation: &str, parameters: Value) -> Value {
        self.try_call(service, operation, parameters)
            .unwrap_or_else(|error| panic!("{}: {service} {operation}: {error}", self.name))
    }

    /// Like [`Self::call`], for operations that may fail.
    ///
    /// # Errors
    ///
    /// The text of the exception that boto3 raises.
    pub fn try_call(
        &self,
        service: &str,
        operation: &str,
        parameters: Value,
    ) -> Result<Value, String> {
        let call = json!({"service": service, "operation": operation, "parameters": parameters});
        let mut answer = self.channel(|channel| channel.send(&call));
        match answer.get_mut("ok") {
            Some(value) => Ok(value.take()),
            None => Err(text(&answer, "error")),
        }
    }

    fn channel(&self, exchange: impl FnOnce(&mut Channel) -> Option<Value>) -> Value {
        let Some(channel) = &self.channel else {
            panic!("{} has ended", self.name)
        };
        let mut channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(&mut channel).unwrap_or_else(|| {
            panic!(
                "{} ended unexpectedly; the end of its log:\n{}",
                self.name,
                self.log_tail()
            )
        })
    }

    fn log_tail(&self) -> String {
        let Ok(log) = File::open(self.log.path()) else {
            return "(no log)".to_owned();
        };
        let lines: Vec<String> = BufReader::new(log).lines().map_while(Result::ok).collect();
        let from = lines.len().saturating_sub(LOG_LINES_SHOWN);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

impl Channel {
    /// Sends a call and returns the response; `None` if the process has ended.
    fn send(&mut self, call: &Value) -> Option<Value> {
        writeln!(self.calls, "{call}").ok()?;
        self.calls.flush().ok()?;
        self.next()
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "---- the end of {}'s log ----\n{}",
                self.name,
                self.log_tail()
            );
        }
        drop(self.channel.take());
        // The emulator kills itself and its children; a failure to do so does not affect the test.
        let _ = self.child.wait();
    }
}

/// String field of an announcement or response.
pub(crate) fn text(value: &Value, field: &str) -> String {
    match value.get(field).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => panic!("no text {field:?} in {value}"),
    }
}
