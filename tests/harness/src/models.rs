//! Validates requests that no emulator receives against the services' API models (`python/models.py`).

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

/// Returns for each request (`method`, `path` with its query, `headers`, `body`) its operation, such as
/// `eks:CreateAccessEntry`, and the violations of the service's model; the operation is `None` if service or operation
/// are unknown.
///
/// # Panics
///
/// If Python fails.
#[must_use]
pub fn validated(requests: &[Value]) -> Vec<(Option<String>, Vec<String>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/validate.py");
    let mut python = Command::new(crate::tool("moto/bin/python"))
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("validate.py does not start: {error}"));
    let mut input = python.stdin.take().unwrap_or_else(|| panic!("no pipe"));
    let text = Value::from(requests).to_string();
    let written = input.write_all(text.as_bytes());
    drop(input);
    let output = python.wait_with_output();
    let output = output.unwrap_or_else(|error| panic!("validate.py: {error}"));
    written.unwrap_or_else(|error| panic!("validate.py: {error}"));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("validate.py: {error}"))
}
