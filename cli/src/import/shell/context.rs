//! Reasons why a command of a script may not run, or not in the script's own shell.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::import) enum Context {
    /// Within a compound command or a function that begins in this line.
    Compound {
        keyword: &'static str,
        line: usize,
    },
    /// After `&&` or `||`.
    AfterList(&'static str),
    Pipeline,
    Background,
    /// After a command of this line that may end the script.
    AfterExit(usize),
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compound { keyword, line } => {
                write!(f, "inside the `{keyword}` that begins in line {line}")
            }
            Self::AfterList(operator) => write!(f, "after `{operator}`"),
            Self::Pipeline => f.write_str("in a pipeline"),
            Self::Background => f.write_str("in the background"),
            Self::AfterExit(line) => {
                write!(f, "after line {line}, which may end the script")
            }
        }
    }
}
