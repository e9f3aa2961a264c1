//! `whittle man`: manual pages, which a release contains.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};

use crate::command_line;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory for the pages, one for each command
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let dir = &arguments.dir;
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command_line::command(), dir));
    written.with_context(|| format!("cannot write manual pages into {}", dir.display()))
}
