use std::collections::BTreeSet;

use clap::Command;

use super::{GROUPS, command};

/// All visible commands with their full names, built, the program itself first.
pub(super) fn visible() -> Vec<(String, Command)> {
    fn collect(command: &Command, parent: &str, found: &mut Vec<(String, Command)>) {
        let name = format!("{parent}{}", command.get_name());
        let subcommands = command.get_subcommands();
        let shown = subcommands.filter(|command| !command.is_hide_set());
        found.push((name.clone(), command.clone()));
        for subcommand in shown.filter(|command| command.get_name() != "help") {
            collect(subcommand, &format!("{name} "), found);
        }
    }
    let mut whole = command();
    whole.build();
    let mut found = Vec::new();
    collect(&whole, "", &mut found);
    found
}

#[test]
fn definition_is_consistent() {
    command().debug_assert();
}

#[test]
fn every_command_is_in_one_group() {
    let mut whole = command();
    whole.build();
    let shown = whole.get_subcommands().filter(|shown| !shown.is_hide_set());
    let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
    let grouped: Vec<&str> = GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    let unique: BTreeSet<&str> = grouped.iter().copied().collect();
    assert_eq!(shown, unique, "GROUPS lists every visible command");
    assert_eq!(grouped.len(), unique.len(), "no command is in two groups");
}

#[test]
fn help_lists_the_groups_with_all_options_and_exit_codes() {
    let help = command().render_long_help().to_string();
    for part in [
        "\nPlan and explain:\n  plan        Show the launches",
        "\nOptions:\n  -h, --help",
        "\nExit codes:\n  0  ",
    ] {
        assert!(help.contains(part), "{part:?} is missing: {help}");
    }
    assert!(!help.contains("conformance"), "{help}");
}

#[test]
fn every_command_and_argument_is_described_without_a_full_stop() {
    for (name, command) in visible() {
        let about = command.get_about().map(ToString::to_string);
        let about = about.unwrap_or_else(|| panic!("{name} has no description"));
        assert!(!about.ends_with('.'), "{name}: {about}");
        for argument in command.get_arguments().filter(|shown| !shown.is_hide_set()) {
            let id = argument.get_id();
            let help = argument.get_help().map(ToString::to_string);
            let help = help.unwrap_or_else(|| panic!("{name}: {id} has no description"));
            assert!(!help.ends_with('.'), "{name}: {id}: {help}");
        }
    }
}

#[test]
fn every_command_has_examples_that_parse() {
    for (name, shown) in visible() {
        if shown.has_subcommands() || name == "whittle exit-codes" {
            continue;
        }
        let after = shown.get_after_help().map(ToString::to_string);
        let after = after.unwrap_or_else(|| panic!("{name} has no examples"));
        let (_, examples) = after
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{name} has no examples: {after}"));
        let lines = examples.lines().map(str::trim);
        let lines = lines.filter_map(|line| line.find("whittle ").and_then(|at| line.get(at..)));
        let mut own = 0;
        for line in lines {
            let line = line.split(['|', '>', ')']).next().unwrap_or_default();
            let words = shlex::split(line).unwrap_or_default();
            if let Err(error) = command().try_get_matches_from(words) {
                panic!("{name}: {line}: {error}");
            }
            own += usize::from(line.starts_with(&name));
        }
        assert!(
            own > 0,
            "{name} has no example besides its subcommands': {examples}"
        );
    }
}
