//! Commands that the user can repeat or continue with, with the options of this run.

use super::Arguments;
use crate::{registry::Registry, stack::Stack};

/// The words of this run after the program's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Invocation(Vec<String>);

impl Invocation {
    /// The run without `--dry-run`, so that its repetition makes the changes.
    pub(crate) fn of(words: impl IntoIterator<Item = String>) -> Self {
        let words = words.into_iter();
        Self(words.filter(|word| word != "--dry-run").collect())
    }

    /// The command that repeats this run.
    pub(crate) fn again(&self) -> String {
        let words = self.0.iter().map(|word| shell_word(word));
        let words: Vec<String> = ["whittle".to_owned()].into_iter().chain(words).collect();
        words.join(" ")
    }

    /// The command that repeats this run with one more option.
    pub(crate) fn with(&self, option: &str) -> String {
        match self.0.iter().any(|word| word == option) {
            true => self.again(),
            false => format!("{} {option}", self.again()),
        }
    }
}

/// Options with which other commands select the stack, registry and cluster of this run, each after a space; empty for defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) registry: String,
    /// Kubeconfig and context.
    pub(crate) context: String,
    /// Stack and registry.
    pub(crate) for_status: String,
    /// Stack, registry, kubeconfig and context.
    pub(crate) for_register: String,
}

impl Selection {
    pub(crate) fn of(arguments: &Arguments) -> Self {
        let option = |name: &str, value: &str, default: &str| match value == default {
            true => String::new(),
            false => format!(" {name} {}", shell_word(value)),
        };
        let stack = option("--stack", &arguments.stack.name, Stack::DEFAULT);
        let registry = option("--registry", arguments.registry.prefix(), Registry::DEFAULT);
        let name = arguments.context.as_deref();
        let mut context = option("--context", name.unwrap_or_default(), "");
        if let Some(file) = arguments.kubeconfig.select(name).file {
            context.push_str(&option("--kubeconfig", &file.to_string_lossy(), ""));
        }
        let for_status = format!("{stack}{registry}");
        Self {
            for_register: format!("{for_status}{context}"),
            for_status,
            registry,
            context,
        }
    }
}

/// A word in quotes, if a shell needs them.
pub(crate) fn shell_word(word: &str) -> String {
    shlex::try_quote(word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        init: Arguments,
    }

    #[test]
    fn repetition_has_the_options_that_were_given() {
        let words = ["init", "prod", "--values", "my values.yaml", "--dry-run"];
        let run = Invocation::of(words.map(str::to_owned));
        let again = "whittle init prod --values 'my values.yaml'";
        assert_eq!(run.again(), again);
        let with = run.with("--create-access-entries");
        assert_eq!(with, format!("{again} --create-access-entries"));
        let words = ["init", "prod", "--create-access-entries"];
        let run = Invocation::of(words.map(str::to_owned));
        assert_eq!(run.with("--create-access-entries"), run.again());
    }

    #[test]
    fn other_commands_select_the_same_stack_registry_and_cluster() {
        let selection = |options: &[&str]| {
            let words = [&["program", "prod"], options].concat();
            Selection::of(&Program::parse_from(words).init)
        };
        assert_eq!(selection(&[]), Selection::default());
        let selection = selection(&[
            "--stack",
            "other",
            "--registry",
            "/other/",
            "--context",
            "prod admin",
            "--kubeconfig",
            "config",
        ]);
        let expected =
            " --stack other --registry /other --context 'prod admin' --kubeconfig config";
        assert_eq!(selection.for_register, expected);
        assert_eq!(selection.for_status, " --stack other --registry /other");
    }
}
