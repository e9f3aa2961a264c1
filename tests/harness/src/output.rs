//! Output of a command as text.

use std::process::Output;

#[must_use]
pub fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[must_use]
pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output and standard error in the format of golden files.
#[must_use]
pub fn transcript(output: &Output) -> String {
    format!("{}\n=== stderr\n{}", stdout_of(output), stderr_of(output))
}
