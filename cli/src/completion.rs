//! `whittle completion`: completion scripts for shells.

use std::io::Write;

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

use crate::command_line;

#[derive(Args)]
#[command(after_help = "Examples:
  source <(whittle completion bash)
  whittle completion zsh > \"${fpath[1]}/_whittle\"
  whittle completion fish > ~/.config/fish/completions/whittle.fish
  whittle completion powershell | Out-String | Invoke-Expression")]
pub(crate) struct Arguments {
    /// Shell that runs the script
    #[arg(value_enum)]
    shell: SupportedShell,
}

#[derive(Clone, Copy, ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let shell = match arguments.shell {
        SupportedShell::Bash => Shell::Bash,
        SupportedShell::Zsh => Shell::Zsh,
        SupportedShell::Fish => Shell::Fish,
        SupportedShell::Powershell => Shell::PowerShell,
    };
    // clap_complete offers hidden commands, too.
    let whole = command_line::command();
    let visible = whole.get_subcommands().filter(|shown| !shown.is_hide_set());
    let mut command = Command::new("whittle")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(visible.cloned());
    // clap_complete panics if it cannot write, as into a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "whittle", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}
