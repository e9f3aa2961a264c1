//! The definition of the command line: clap's, with the commands of `whittle --help` in groups.

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use clap::{Command, CommandFactory, builder::Styles};

use crate::{Arguments, exit};

/// Headings of `whittle --help` with their commands, in the order in which they are listed.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Plan and explain",
        &[
            "plan",
            "explain",
            "journal",
            "replay",
            "review",
            "compare",
            "dashboard",
        ],
    ),
    (
        "Clusters",
        &[
            "init",
            "register",
            "status",
            "clusters",
            "doctor",
            "activate",
            "deactivate",
            "settings",
            "unregister",
        ],
    ),
    ("Operate", &["pause", "resume", "approve", "caps"]),
    ("Migrate", &["convert", "import", "kops"]),
    ("Prices", &["catalog", "prices"]),
    ("Try", &["demo"]),
    ("Help", &["completion", "version", "exit-codes", "help"]),
];

/// Longest lines of help, in characters: wider paragraphs are hard to read.
const WIDTH_MAX: usize = 120;

/// The command line.
pub(crate) fn command() -> Command {
    let command = Arguments::command();
    let template = help_template(&command);
    command.help_template(template).max_term_width(WIDTH_MAX)
}

/// Template of `whittle --help`. clap lists subcommands under one heading only.
fn help_template(command: &Command) -> String {
    let mut built = command.clone();
    built.build();
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .map(|name| name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{heading}:{header:#}");
        for name in *names {
            let found = built.find_subcommand(name);
            let about = found.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#}\n{{options}}\n\n{header}Exit codes:{header:#}\n{}\n\n\
         `whittle help <COMMAND>` prints options and examples of a command.",
        exit::table()
    );
    text
}
