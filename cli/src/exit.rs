//! Exit codes of the program. Scripts depend on them, so changes follow docs/versioning.md.

use std::{fmt::Write as _, io::Write as _, process::ExitCode};

/// Result of a command that ends without an error message of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// A command failed, and the error is on standard error.
    Failed,
    /// Arguments are invalid; clap ends the program itself.
    Usage,
    /// `whittle doctor` has findings.
    Findings,
    /// A manifest, group, option or registry entry is refused.
    Refused,
    /// A command leaves something to the user: steps of an installation, or a change that is not confirmed.
    Left,
    /// `whittle review` rates the changes as worse.
    Worse,
}

impl Exit {
    const ALL: [Self; 7] = [
        Self::Done,
        Self::Failed,
        Self::Findings,
        Self::Refused,
        Self::Left,
        Self::Usage,
        Self::Worse,
    ];

    /// The code that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed | Self::Findings | Self::Refused | Self::Left => 1,
            Self::Usage | Self::Worse => 2,
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "The command did its work",
            Self::Failed => "The command failed; standard error has the reason",
            Self::Usage => "The arguments are invalid",
            Self::Findings => "`doctor` has findings",
            Self::Refused => {
                "`convert`, `import` or `kops` refuses input; `clusters` lists a refused entry"
            }
            Self::Left => {
                "`init` leaves steps to you, unless in a dry run; `settings set` is not confirmed"
            }
            Self::Worse => {
                "`review` rates the changes as worse than `--cost` or `--evictions` allows"
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

pub(crate) fn run() -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", table())?)
}

/// All codes with their meanings, one line each.
pub(crate) fn table() -> String {
    let mut text = String::new();
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {}  {}", exit.code(), exit.meaning());
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable() {
        let codes = Exit::ALL.map(|exit| (exit, exit.code()));
        let expected = [
            (Exit::Done, 0),
            (Exit::Failed, 1),
            (Exit::Findings, 1),
            (Exit::Refused, 1),
            (Exit::Left, 1),
            (Exit::Usage, 2),
            (Exit::Worse, 2),
        ];
        assert_eq!(codes, expected);
    }
}
