//! Variables of a shell script, as far as the script itself sets them to literals.

use std::collections::{BTreeMap, BTreeSet};

use super::{commands::Command, context::Context, reader};

/// Commands before assignments that leave them assignments.
const DECLARATIONS: [&str; 4] = ["export", "declare", "readonly", "typeset"];
/// Commands that may set any variable.
const SOURCES: [&str; 3] = ["source", ".", "eval"];
/// Commands, other than declarations, that set the variables that they name.
const SETTERS: [&str; 8] = [
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "unset",
];
/// Commands that run another one in the same shell.
const RUNNERS: [&str; 2] = ["builtin", "command"];
/// Variable that decides how unquoted values are split.
const SEPARATORS: &str = "IFS";
/// Characters at which unquoted values are split, unless the script sets others.
const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// The variables after the commands read so far. A variable has a known value if one command sets it, which always runs, to a literal.
#[derive(Debug, Default)]
pub(in crate::import) struct Variables {
    values: BTreeMap<String, Assigned>,
    /// Names that compound commands, functions and declarations with attributes mention without a dollar sign, with the line of the first
    /// mention. Such commands may run later, and attributes change later values.
    mentioned: BTreeMap<String, usize>,
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
        if sets_any(&command.words) {
            let command = command.words.join(" ");
            self.cleared = Some(format!("line {line}, `{command}`, may set it"));
            return;
        }
        let mut words = command.words.as_slice();
        if let [first, rest @ ..] = words
            && DECLARATIONS.contains(first)
        {
            words = rest;
            while let Some((&"-r" | &"-x", rest)) = words.split_first() {
                words = rest;
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
                let is_export = exports.contains(&command.words.first().copied());
                // An exported variable keeps its value.
                let keeps = |word: &str| is_export && name_length(word) == word.len();
                for word in command.words.iter().filter(|word| !keeps(word)) {
                    self.forget_mentioned(word, command);
                }
            }
        }
    }

    fn assign(&mut self, name: &str, raw: &str, command: &Command<'_>) {
        let line = command.line;
        self.forget_mentioned(raw, command);
        if name == SEPARATORS {
            self.cleared = Some(format!("line {line} sets {SEPARATORS}"));
        }
        let value = match (self.values.get(name), &command.context) {
            (Some(before), _) => Err(format!("lines {} and {line} set {name}", before.line)),
            (None, Some(context)) => Err(format!("line {line} sets {name} {context}")),
            (None, None) => match self.mentioned.get(name) {
                Some(before) => Err(format!("line {before} may set {name}, too")),
                None => {
                    let value = self.literal(raw);
                    value.ok_or_else(|| format!("line {line} sets {name} to what it computes"))
                }
            },
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
                        let starts = value.starts_with(BLANKS);
                        let ends = value.ends_with(BLANKS);
                        if starts {
                            words.extend(current.take());
                        }
                        let parts = value.split(BLANKS).filter(|part| !part.is_empty());
                        for (number, part) in parts.enumerate() {
                            if number > 0 {
                                words.extend(current.take());
                            }
                            let current = current.get_or_insert_with(empty);
                            current.text.push_str(part);
                            current.is_pattern |= part.contains(['*', '?', '[']);
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

    /// Forgets the variables that a word of a command may set: those that it mentions.
    fn forget_mentioned(&mut self, word: &str, command: &Command<'_>) {
        let line = command.line;
        for name in mentioned_names(word) {
            if let Some(assigned) = self.values.get_mut(name)
                && assigned.value.is_ok()
            {
                assigned.value = Err(format!("line {line} may set {name}, too"));
            }
            let is_compound = matches!(command.context, Some(Context::Compound { .. }));
            let is_declaration = command
                .words
                .first()
                .is_some_and(|first| DECLARATIONS.contains(first));
            if is_compound || is_declaration {
                self.mentioned.entry(name.to_owned()).or_insert(line);
            }
        }
    }
}

/// The names in a word that do not follow a dollar sign, and those of expansions that assign a default.
fn mentioned_names(word: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut start = 0;
    for part in word.split(|character: char| !is_of_name(character)) {
        let before = word.get(..start).unwrap_or_default();
        let after = word.get(start + part.len()..).unwrap_or_default();
        let is_expansion = before.ends_with('$') || before.ends_with("${");
        let within = after.split('}').next().unwrap_or_default();
        let assigns = before.ends_with("${") && within.contains('=');
        if !part.is_empty() && (!is_expansion || assigns) {
            names.insert(part);
        }
        start += part.len() + after.chars().next().map_or(0, char::len_utf8);
    }
    names
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

/// Whether a command may set any variable: it runs commands that are not read, or the shell computes the name of a variable.
fn sets_any(words: &[&str]) -> bool {
    let is_prefix = |word: &&&str| assignment(word).is_some() || RUNNERS.contains(*word);
    let prefixes = words.iter().take_while(is_prefix).count();
    let Some((command, arguments)) = words.get(prefixes..).and_then(<[_]>::split_first) else {
        return false;
    };
    let computes_name = |word: &&str| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        name.contains(['$', '`'])
    };
    match *command {
        // printf sets a variable only with this option.
        "printf" if arguments.first().is_none_or(|word| !word.starts_with("-v")) => false,
        command if SOURCES.contains(&command) => true,
        command => {
            (DECLARATIONS.contains(&command) || SETTERS.contains(&command))
                && arguments.iter().any(computes_name)
        }
    }
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
            ("export -p\nA=1\nexport B=$X A\nc $A", &["c", "1"]),
            ("A='a\u{a0}b\tc'\nc $A", &["c", "a\u{a0}b", "c"]),
            ("A=1\nprintf '%s=%s' \"$B\" C\nc $A", &["c", "1"]),
            (
                "f() {\n  echo $A ${A} ${A:-x} AB\n}\nA=1\nc $A",
                &["c", "1"],
            ),
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
            ("A=1\n: ${A:=2}", "line 2 may set A, too"),
            ("A=1\n: \"${A=2}\"", "line 2 may set A, too"),
            ("A=1\nexport \"A=2\"", "line 2 may set A, too"),
            ("A=1\nexport B A=2", "line 2 may set A, too"),
            (
                "export $(cat /etc/environment)\nA=1",
                "line 1, `export $(cat /etc/environment)`, may set it",
            ),
            (
                "while read line; do\n  export \"$line\"\ndone < f\nA=1",
                "line 2, `export \"$line\"`, may set it",
            ),
            (
                "A=1\ndeclare -x \"$k=$v\"",
                "line 2, `declare -x \"$k=$v\"`, may set it",
            ),
            (
                "A=1\nread -r \"$k\" < f",
                "line 2, `read -r \"$k\"`, may set it",
            ),
            (
                "A=1\nprintf -v \"$k\" 2",
                "line 2, `printf -v \"$k\" 2`, may set it",
            ),
            (
                "A=1\nB=2 command . f",
                "line 2, `B=2 command . f`, may set it",
            ),
            ("declare -i A\nA=1+1", "line 1 may set A, too"),
            ("A=1\n: ${A[0]:=2}", "line 2 may set A, too"),
            ("f() {\n  read A\n}\nA=1\nf", "line 2 may set A, too"),
            ("f() {\n  : ${A:=2}\n}\nA=1\nf", "line 2 may set A, too"),
            ("if x; then\n  B=$((A++))\nfi\nA=1", "line 2 may set A, too"),
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
        let commands = shell::read("A='a*'").unwrap();
        let mut variables = Variables::default();
        variables.read(&commands[0]);
        assert!(variables.words("$A")[0].is_pattern);
        assert!(!variables.words("\"$A\"")[0].is_pattern);
    }
}
