//! Local AWS for tests: moto and ministack as child processes on free ports of 127.0.0.1, and the stack deployed into
//! them.
//!
//! An emulator lives as long as its value, and never longer than the test process. A missing program is a panic that
//! names the remedy; nothing is ever skipped.
//!
//! Emulators are called with boto3's operation names ([`Emulator::call`]). This crate must never depend on an AWS SDK,
//! nor on any crate of the product: it reports the state of AWS independently of the code under test.

mod chart;
mod emulator;
mod local_aws;
mod ministack;
mod models;
mod moto;
mod output;
mod proxy;
mod stack;
mod template;

pub use chart::{RELAY_USER, RELEASE_NAMESPACE, chart_rbac, rendered_chart};
pub use emulator::Emulator;
pub use local_aws::LocalAws;
pub use ministack::Ministack;
pub use models::validated;
pub use moto::{Moto, Seed};
pub use output::{stderr_of, stdout_of, transcript};
pub use proxy::{Call, Proxy, ProxyFault};
pub use stack::Stack;
pub use template::{template, translated};

use std::{ffi::OsString, iter, path::PathBuf};

/// Account number of everything in the emulators; it is also the access key that selects the account.
pub const ACCOUNT: &str = "123456789012";
pub const REGION: &str = "us-east-1";

/// Environment variables that an AWS client needs besides an endpoint.
pub const CREDENTIALS: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", ACCOUNT),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", REGION),
    ("AWS_DEFAULT_REGION", REGION),
];

/// Path of a pinned tool, relative to `WHITTLE_TOOLS`, such as `bin/kubectl`.
#[must_use]
pub fn tool(path: &str) -> PathBuf {
    let program = from_environment("WHITTLE_TOOLS", ".cache/whittle-tools").join(path);
    assert!(
        program.exists(),
        "{} is missing: run `make tools`",
        program.display()
    );
    program
}

/// Program of a function that `make functions` built, by its logical id in the template, such as `ProvisionerFunction`.
#[must_use]
pub fn built_function(logical_id: &str) -> PathBuf {
    built(&format!("{logical_id}/bootstrap"))
}

/// Template that `make functions` built.
#[must_use]
pub fn built_template() -> PathBuf {
    built("template.yaml")
}

/// Program of this workspace that was built together with the running test or program, such as `relay`.
#[must_use]
pub fn built_program(name: &str) -> PathBuf {
    let running = std::env::current_exe().unwrap_or_else(|error| panic!("this program: {error}"));
    // Tests are in `deps` beside the programs.
    let mut folders = running.ancestors().skip(1);
    let programs = folders.find(|folder| !folder.ends_with("deps"));
    let program = programs.unwrap_or_else(|| panic!("no directory above {}", running.display()));
    let program = program.join(name);
    assert!(
        program.exists(),
        "{} is missing: run `cargo build -p {name}`",
        program.display()
    );
    program
}

/// `PATH` with the pinned tools in front, for scripts that look them up there.
#[must_use]
pub fn path_with_tools() -> OsString {
    let tools = tool("bin");
    let others = std::env::var_os("PATH").unwrap_or_default();
    let paths = iter::once(tools).chain(std::env::split_paths(&others));
    std::env::join_paths(paths).unwrap_or_else(|error| panic!("PATH: {error}"))
}

fn built(path: &str) -> PathBuf {
    let file = from_environment("WHITTLE_SAM_BUILD", ".cache/whittle-target/sam-build").join(path);
    assert!(
        file.exists(),
        "{} is missing: run `make functions`",
        file.display()
    );
    file
}

fn from_environment(variable: &str, below_home: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return PathBuf::from(path);
    }
    let home =
        std::env::var_os("HOME").unwrap_or_else(|| panic!("neither {variable} nor HOME is set"));
    PathBuf::from(home).join(below_home)
}
