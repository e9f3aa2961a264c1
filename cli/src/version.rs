//! `whittle version`: version and commit of this program.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::output::DocumentFormat;

#[derive(Args)]
#[command(after_help = "Examples:
  whittle version
  whittle version -o json")]
pub(crate) struct Arguments {
    /// Output format; text by default
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    /// Commit of the release that this program belongs to; other builds do not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("WHITTLE_COMMIT").filter(|commit| !commit.is_empty()),
    };
    if let Some(format) = arguments.output {
        return format.print(&version);
    }
    let mut out = std::io::stdout().lock();
    match version.commit {
        Some(commit) => writeln!(out, "whittle {} ({commit})", version.version)?,
        None => writeln!(out, "whittle {}", version.version)?,
    }
    Ok(())
}
