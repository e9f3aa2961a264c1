//! One emulator process, and how it is asked (its side is `python/wire.py`).

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// How much of an emulator's log is shown when a test fails.
const LOG_LINES_SHOWN: usize = 200;

/// A running emulator. It ends when this is dropped or the test process ends: its standard input ends with either.
#[derive(Debug)]
pub struct Emulator {
    name: &'static str,
    endpoint: String,
    child: Child,
    wire: Option<Mutex<Wire>>,
    log: NamedTempFile,
}

#[derive(Debug)]
struct Wire {
    calls: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Emulator {
    /// Starts `python/serve_<name>.py` in the virtual environment `name` and waits for its announcement.
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
        let wire = Some(Mutex::new(Wire {
            calls,
            answers: BufReader::new(answers),
        }));
        let mut emulator = Self {
            name,
            endpoint: String::new(),
            child,
            wire,
            log,
        };
        let announcement = emulator.wire(Wire::next);
        emulator.endpoint = text(&announcement, "endpoint");
        (emulator, announcement)
    }

    /// Where it listens, such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Calls an operation in boto3's words, such as `("ec2", "describe_instances", json!({"Filters": […]}))`.
    ///
    /// # Panics
    /// If the operation fails.
    pub fn call(&self, service: &str, operation: &str, parameters: Value) -> Value {
        self.try_call(service, operation, parameters)
            .unwrap_or_else(|error| panic!("{}: {service} {operation}: {error}", self.name))
    }

    /// As [`Self::call`], for operations that may fail.
    ///
    /// # Errors
    /// The exception, as boto3 words it.
    pub fn try_call(
        &self,
        service: &str,
        operation: &str,
        parameters: Value,
    ) -> Result<Value, String> {
        let call = json!({"service": service, "operation": operation, "parameters": parameters});
        let mut answer = self.wire(|wire| wire.ask(&call));
        match answer.get_mut("ok") {
            Some(value) => Ok(value.take()),
            None => Err(text(&answer, "error")),
        }
    }

    fn wire(&self, exchange: impl FnOnce(&mut Wire) -> Option<Value>) -> Value {
        let Some(wire) = &self.wire else {
            panic!("{} has ended", self.name)
        };
        let mut wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(&mut wire).unwrap_or_else(|| {
            panic!(
                "{} ended unexpectedly; its log says:\n{}",
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

impl Wire {
    /// `None` when the process has gone.
    fn ask(&mut self, call: &Value) -> Option<Value> {
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
        drop(self.wire.take());
        // It kills itself and what it has started; whether that went well no longer matters to the test.
        let _ = self.child.wait();
    }
}

/// A string field of an announcement or answer.
pub(crate) fn text(value: &Value, field: &str) -> String {
    match value.get(field).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => panic!("no text {field:?} in {value}"),
    }
}
