//! Variables of a shell script, as far as the script itself sets them to literals.

use std::collections::{BTreeMap, BTreeSet};

use super::{commands::Command, reader};

/// Commands before assignments that leave them assignments.
const DECLARATIONS: [&str; 4] = ["export", "declare", "readonly", "typeset"];
/// Commands that may set any variable.
const SOURCES: [&str; 3] = ["source", ".", "eval"];
/// Variable that decides how unquoted values are split.
const SEPARATORS: &str = "IFS";

/// The variables after the commands read so far. A variable has a known value if one command sets it, which always runs, to a literal.
#[derive(Debug, Default)]
pub(in crate::import) struct Variables {
    values: BTreeMap<String, Assigned>,
    /// Reason why no variable is known.
    cleared: Option<String>,
}

#[derive(Debug)]
struct Assigned {
    line: usize,
    /// The value, or the reason why it is not known.
    value: Result<String, String>,
}

/// A word as a program gets it. References to variables that are not known, and commands, stay as they are written.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::import) struct Expanded {
    pub(in crate::import) text: String,
    /// The shell replaces a part of it by names of files or by several words.
    pub(in crate::import) is_pattern: bool,
}

impl Variables {
    /// Reads the next command of the script.
    pub(in crate::import) fn read(&mut self, command: &Command<'_>) {
        let line = command.line;
        let mut words = command.words.as_slice();
        if let [first, rest @ ..] = words {
            if SOURCES.contains(first) {
                let command = command.words.join(" ");
                self.cleared = Some(format!("line {line}, `{command}`, may set it"));
                return;
            }
            if DECLARATIONS.contains(first) {
                words = rest;
                while let Some((&"-r" | &"-x", rest)) = words.split_first() {
                    words = rest;
                }
            }
        }
        let assignments: Option<Vec<_>> = words.iter().map(|word| assignment(word)).collect();
        match assignments {
            Some(assignments) => {
                for (name, value) in assignments {
                    self.assign(name, value, command);
                }
            }
            None => {
                let exports = ["export", "readonly"].map(Some);
                if !exports.contains(&command.words.first().copied()) {
                    for word in &command.words {
                        self.forget_mentioned(word, line);
                    }
                }
            }
        }
    }

    fn assign(&mut self, name: &str, raw: &str, command: &Command<'_>) {
        let line = command.line;
        self.forget_mentioned(raw, line);
        if name == SEPARATORS {
            self.cleared = Some(format!("line {line} sets {SEPARATORS}"));
        }
        let value = match (self.values.get(name), &command.context) {
            (Some(before), _) => Err(format!("lines {} and {line} set {name}", before.line)),
            (None, Some(context)) => Err(format!("line {line} sets {name} {context}")),
            (None, None) => {
                let value = self.literal(raw);
                value.ok_or_else(|| format!("line {line} sets {name} to what it computes"))
            }
        };
        let assigned = Assigned { line, value };
        self.values.insert(name.to_owned(), assigned);
    }

    /// The value of an assignment, unless the shell computes it.
    fn literal(&self, raw: &str) -> Option<String> {
        let words = self.expanded(raw, false);
        let [word] = words.as_slice() else {
            return raw.is_empty().then(String::new);
        };
        let is_literal = !word.text.contains(['$', '`']) && !raw.starts_with(['~', '(']);
        is_literal.then(|| word.text.clone())
    }

    /// The words that a word of a command becomes.
    pub(in crate::import) fn words(&self, word: &str) -> Vec<Expanded> {
        self.expanded(word, true)
    }

    /// Reason why a text with a reference is not known.
    pub(in crate::import) fn cause(&self, text: &str) -> String {
        let names = text.split('$').skip(1).map(|rest| {
            let rest = rest.strip_prefix('{').unwrap_or(rest);
            rest.get(..name_length(rest)).unwrap_or_default()
        });
        let mut names = names.filter(|name| !name.is_empty());
        let Some(name) = names.next() else {
            return "a command or the shell computes it".to_owned();
        };
        let assigned = self.values.get(name).map(|assigned| &assigned.value);
        match (&self.cleared, assigned) {
            (Some(cause), _) => cause.clone(),
            (None, Some(Err(cause))) => cause.clone(),
            (None, Some(Ok(_))) => format!("it is not the plain value of {name}"),
            (None, None) => format!("the script does not set {name}"),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        if self.cleared.is_some() {
            return None;
        }
        self.values.get(name)?.value.as_deref().ok()
    }

    /// Expands a word; a value outside of quotes is split at white space if the word is one of a command.
    fn expanded(&self, word: &str, splits: bool) -> Vec<Expanded> {
        let mut words: Vec<Expanded> = Vec::new();
        let mut current: Option<Expanded> = None;
        let (mut is_single, mut is_double) = (false, false);
        let mut rest = word;
        while let Some(character) = rest.chars().next() {
            let is_plain = !is_single && !is_double;
            let (length, text) = match character {
                '\'' if !is_double => {
                    is_single = !is_single;
                    (1, String::new())
                }
                '"' if !is_single => {
                    is_double = !is_double;
                    (1, String::new())
                }
                '\\' if !is_single => escaped(rest, is_double),
                '$' if is_plain && rest.starts_with("$\"") => (1, String::new()),
                '$' | '`' if !is_single => {
                    let (length, value) = self.expansion(rest);
                    if let (true, true, Some(value)) = (is_plain, splits, value) {
                        let starts = value.starts_with(char::is_whitespace);
                        let ends = value.ends_with(char::is_whitespace);
                        if starts {
                            words.extend(current.take());
                        }
                        for (number, part) in value.split_whitespace().enumerate() {
                            if number > 0 {
                                words.extend(current.take());
                            }
                            current.get_or_insert_with(empty).text.push_str(part);
                        }
                        if ends {
                            words.extend(current.take());
                        }
                        rest = rest.get(length..).unwrap_or_default();
                        continue;
                    }
                    let raw = rest.get(..length).unwrap_or_default();
                    (length, value.unwrap_or(raw).to_owned())
                }
                _ => (character.len_utf8(), character.to_string()),
            };
            let is_first = current.is_none();
            let current = current.get_or_insert_with(empty);
            current.text.push_str(&text);
            current.is_pattern |=
                is_plain && ("*?[{".contains(character) || character == '~' && is_first);
            rest = rest.get(length..).unwrap_or_default();
        }
        words.extend(current);
        words
    }

    /// The length of the expansion at the start of a text, and its value if it is a known variable.
    fn expansion(&self, text: &str) -> (usize, Option<&str>) {
        if text.starts_with("$'") {
            return (1, None);
        }
        let length = reader::expansion_length(text).unwrap_or(text.len());
        let raw = text.get(1..length).unwrap_or_default();
        let name = raw.strip_prefix('{').and_then(|raw| raw.strip_suffix('}'));
        let name = name.unwrap_or(raw);
        (length, self.value(name))
    }

    /// Forgets the variables that a word may set: those that it names without a dollar sign.
    fn forget_mentioned(&mut self, word: &str, line: usize) {
        let names: BTreeSet<&str> = word
            .split(|character: char| !is_of_name(character))
            .collect();
        let is_mentioned = |name: &str| {
            names.contains(name) && {
                let mut mentions = word.match_indices(name);
                mentions.any(|(at, _)| {
                    let before = word.get(..at).unwrap_or_default();
                    !(before.ends_with('$')
                        || before.ends_with("${")
                        || before.ends_with(is_of_name))
                })
            }
        };
        for (name, assigned) in &mut self.values {
            if assigned.value.is_ok() && is_mentioned(name) {
                assigned.value = Err(format!("line {line} may set {name}, too"));
            }
        }
    }
}

fn empty() -> Expanded {
    Expanded {
        text: String::new(),
        is_pattern: false,
    }
}

/// The length of an escaped character, and the text that it stands for.
fn escaped(rest: &str, is_double: bool) -> (usize, String) {
    let Some(next) = rest.chars().nth(1) else {
        return (1, "\\".to_owned());
    };
    let length = 1 + next.len_utf8();
    let text = match next {
        '\n' => String::new(),
        _ if is_double && !"$`\"\\".contains(next) => format!("\\{next}"),
        _ => next.to_string(),
    };
    (length, text)
}

/// The name and the value of an assignment.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    (!name.is_empty() && name_length(name) == name.len()).then_some((name, value))
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The length of the variable's name at the start of a text, in bytes.
pub(super) fn name_length(text: &str) -> usize {
    match text.starts_with(|first: char| first.is_ascii_digit()) {
        true => 0,
        false => text
            .find(|character| !is_of_name(character))
            .unwrap_or(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::shell;

    /// The words of the last command of a script, and the reason why one of them is not known.
    fn last(script: &str) -> (Vec<String>, String) {
        let commands = shell::read(script).unwrap();
        let (last, before) = commands.split_last().unwrap();
        let mut variables = Variables::default();
        before.iter().for_each(|command| variables.read(command));
        let words = last.words.iter().flat_map(|word| variables.words(word));
        let words: Vec<String> = words.map(|word| word.text).collect();
        let cause = variables.cause(&words.concat());
        (words, cause)
    }

    #[test]
    fn variables_that_a_script_sets_to_literals_are_expanded() {
        for (script, expected) in [
            ("A=10.0.0.10\nc --dns $A", &["c", "--dns", "10.0.0.10"][..]),
            ("export A='x y' B=\"z\"\nc \"${A}\" $B", &["c", "x y", "z"]),
            ("A=1\nB=$A.2;c \"$B\"", &["c", "1.2"]),
            (
                "A='--x  \"y\" '\nc $A-$A",
                &["c", "--x", "\"y\"", "---x", "\"y\""],
            ),
            ("A=1\nexport A\necho $A ${A}\nc $A", &["c", "1"]),
            ("if [ -n \"$B\" ]; then\n  :\nfi\nA=1\nc $A", &["c", "1"]),
            ("A='1\n2' # 3\nc \"$A\"", &["c", "1\n2"]),
            ("A=a\\\nb\nc $A\\\nd", &["c", "abd"]),
            ("declare -r A=1 B=2\nc $A$B", &["c", "12"]),
            ("A=\nc x$A \"$A\"", &["c", "x", ""]),
            ("echo $((1<<2)) '<<'\nA=1\nc $A", &["c", "1"]),
        ] {
            assert_eq!(last(script).0, expected, "{script}");
        }
    }

    #[test]
    fn unknown_variables_are_reported_with_their_cause() {
        for (script, cause) in [
            ("", "the script does not set A"),
            (
                "A=$(curl -s http://169.254.169.254)",
                "line 1 sets A to what it computes",
            ),
            ("A=`hostname`", "line 1 sets A to what it computes"),
            ("A=$B", "line 1 sets A to what it computes"),
            ("A=(1 2)", "line 1 sets A to what it computes"),
            ("A=~/x", "line 1 sets A to what it computes"),
            ("A=1\nread A", "line 2 may set A, too"),
            ("A=1\nunset A", "line 2 may set A, too"),
            ("A=1\nA+=2", "line 2 may set A, too"),
            ("A=1\nB=$((A++))", "line 2 may set A, too"),
            ("A=1\nfor A in x; do :; done", "line 2 may set A, too"),
            ("A=1\n\nA=1", "lines 1 and 3 set A"),
            (
                "A=1\n. /etc/environment",
                "line 2, `. /etc/environment`, may set it",
            ),
            (
                "source /etc/environment\nA=1",
                "line 1, `source /etc/environment`, may set it",
            ),
            (
                "if true; then eval \"$X\"; fi\nA=1",
                "line 1, `eval \"$X\"`, may set it",
            ),
            ("IFS=,\nA=1", "line 1 sets IFS"),
            (
                "if true; then\n  A=1\nfi",
                "line 2 sets A inside the `if` that begins in line 1",
            ),
            (
                "f() {\n  A=1\n}",
                "line 2 sets A inside the `function` that begins in line 1",
            ),
            ("x && A=1", "line 1 sets A after `&&`"),
            ("A=1 | x", "line 1 sets A in a pipeline"),
            ("cat <<EOF\nA=1\nEOF", "the script does not set A"),
            ("A=1 env", "the script does not set A"),
            ("# A=1", "the script does not set A"),
        ] {
            let (words, why) = last(&format!("{script}\nc $A ${{A}}"));
            assert_eq!(words, ["c", "$A", "${A}"], "{script}");
            assert_eq!(why, cause, "{script}");
        }
        for word in ["${A:-x}", "${A%x}", "$'a'", "$(A)", "`A`", "$1"] {
            let (words, _) = last(&format!("A=1\nc {word}"));
            assert!(words.concat().contains(['$', '`']), "{word}: {words:?}");
        }
    }

    #[test]
    fn unquoted_patterns_are_recognized() {
        let variables = Variables::default();
        for (word, is_pattern) in [
            ("a*", true),
            ("{a,b}", true),
            ("~/a", true),
            ("'a*'", false),
            ("\\*", false),
            ("a~", false),
        ] {
            assert_eq!(variables.words(word)[0].is_pattern, is_pattern, "{word}");
        }
    }
}
