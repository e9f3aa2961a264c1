//! Shell scripts in user data, as far as importing needs them: the commands, whether each of them always runs, and the variables that the
//! script sets to literals. A script that is not understood is an error with its line; nothing is guessed.

mod commands;
mod context;
mod reader;
mod tokens;
mod variables;

pub(super) use self::{
    commands::{Command, read},
    reader::line_at,
    tokens::code_lines,
    variables::Variables,
};
