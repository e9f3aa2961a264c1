//! Variables of a shell script, as far as the script itself sets them to literals.

use std::collections::{BTreeMap, BTreeSet};

/// Commands before assignments that leave them assignments.
const DECLARATIONS: [&str; 4] = ["export", "declare", "readonly", "typeset"];
/// Commands that may set any variable.
const SOURCES: [&str; 3] = ["source", ".", "eval"];
const OPENING: [&str; 7] = ["if", "for", "while", "until", "case", "select", "{"];
const CLOSING: [&str; 4] = ["fi", "done", "esac", "}"];

/// The variables with known values after the lines read so far. A variable is forgotten when a line may change it in a way that only
/// the instance knows.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
    /// Number of open compound commands: an assignment in one of them may never run.
    depth: usize,
    /// End marker of the here-document that the next lines belong to.
    here_document: Option<String>,
}

impl Variables {
    /// Reads the next line of the script.
    pub(super) fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(marker) = &self.here_document {
            if line == marker {
                self.here_document = None;
            }
            return;
        }
        if line.starts_with("Content-Type:") {
            // The next part of a MIME archive is a process of its own.
            *self = Self::default();
            return;
        }
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        self.here_document = here_document(line);
        let keywords: Vec<&str> = line.split([' ', '\t', ';']).collect();
        let count = |of: &[&str]| {
            keywords
                .iter()
                .filter(|keyword| of.contains(keyword))
                .count()
        };
        let (opened, closed) = (count(&OPENING), count(&CLOSING));
        let is_always_run = self.depth == 0 && opened == 0;
        self.depth = (self.depth + opened).saturating_sub(closed);
        if keywords
            .first()
            .is_some_and(|first| SOURCES.contains(first))
        {
            self.values.clear();
        }
        match assignments(&self.expanded(line)) {
            Some(assignments) => {
                for (name, value) in assignments {
                    match value.filter(|_| is_always_run) {
                        Some(value) => drop(self.values.insert(name, value)),
                        None => drop(self.values.remove(&name)),
                    }
                }
            }
            None => self.forget_mentioned(line),
        }
    }

    /// A command with its known variables replaced by their values, quoted so that splitting it into words yields those of the shell.
    pub(super) fn expanded(&self, command: &str) -> String {
        let mut expanded = String::new();
        let (mut is_single, mut is_double) = (false, false);
        let mut rest = command;
        while let Some(character) = rest.chars().next() {
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            match character {
                '\\' if !is_single => {
                    expanded.push(character);
                    if let Some(escaped) = rest.chars().next() {
                        rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                        expanded.push(escaped);
                    }
                    continue;
                }
                '\'' if !is_double => is_single = !is_single,
                '"' if !is_single => is_double = !is_double,
                '$' if !is_single => {
                    if let Some((value, after)) = self.reference(rest) {
                        expanded.push_str(&quoted(value, is_double));
                        rest = after;
                        continue;
                    }
                }
                _ => {}
            }
            expanded.push(character);
        }
        expanded
    }

    /// The value of the variable that `text`, which follows a dollar sign, names, and the text after the name.
    fn reference<'a>(&self, text: &'a str) -> Option<(&str, &'a str)> {
        // A command after an open here-document may belong to it.
        if self.here_document.is_some() {
            return None;
        }
        let (name, after) = match text.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => text.split_at(name_length(text)),
        };
        Some((self.values.get(name)?, after))
    }

    /// Forgets the variables that a command may set: those that it names without a dollar sign.
    fn forget_mentioned(&mut self, line: &str) {
        let words: BTreeSet<&str> = line
            .split(|character: char| !is_of_name(character))
            .collect();
        let keeps = line.starts_with("export ");
        self.values.retain(|name, _| {
            keeps || !words.contains(name.as_str()) || {
                let mut mentions = line.match_indices(name.as_str());
                mentions.all(|(at, _)| {
                    let before = line.get(..at).unwrap_or_default();
                    before.ends_with('$') || before.ends_with("${") || before.ends_with(is_of_name)
                })
            }
        });
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The length of the variable's name at the start of a text, in bytes.
fn name_length(text: &str) -> usize {
    match text.starts_with(|first: char| first.is_ascii_digit()) {
        true => 0,
        false => text
            .find(|character| !is_of_name(character))
            .unwrap_or(text.len()),
    }
}

/// The assignments of a line that consists of them; `None` is the value of one that the shell computes.
fn assignments(line: &str) -> Option<Vec<(String, Option<String>)>> {
    let line = line.trim_end_matches(';');
    if unquoted(line).any(|(_, character)| ";&|<>()".contains(character)) {
        return None;
    }
    let words = shlex::split(line)?;
    let declares = words
        .first()
        .is_some_and(|first| DECLARATIONS.contains(&first.as_str()));
    let words = words.get(usize::from(declares)..).unwrap_or_default();
    let mut assignments = Vec::new();
    for word in words {
        let (name, value) = word.trim_end_matches(';').split_once('=')?;
        if name.is_empty() || name_length(name) != name.len() {
            return None;
        }
        let is_literal = !value.contains(['$', '`']);
        assignments.push((name.to_owned(), is_literal.then(|| value.to_owned())));
    }
    (!assignments.is_empty()).then_some(assignments)
}

/// The characters of a line outside of quotes, with their positions in bytes.
fn unquoted(line: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut is_single, mut is_double, mut is_escaped) = (false, false, false);
    line.char_indices().filter(move |(_, character)| {
        let escaped = std::mem::take(&mut is_escaped);
        match character {
            _ if escaped => {}
            '\\' if !is_single => is_escaped = true,
            '\'' if !is_double => is_single = !is_single,
            '"' if !is_single => is_double = !is_double,
            _ => return !is_single && !is_double,
        }
        false
    })
}

/// The end marker of the here-document that a line begins.
fn here_document(line: &str) -> Option<String> {
    // An arithmetic expression shifts.
    if line.contains("((") {
        return None;
    }
    let is_opening = |at: usize| line.get(at..).is_some_and(|rest| rest.starts_with("<<"));
    let (at, _) = unquoted(line).find(|(at, _)| is_opening(*at))?;
    let after = line.get(at + 2..)?;
    let word = after.trim_start_matches('-').split_whitespace().next()?;
    let marker = word.trim_matches(['\'', '"', '\\', ';']);
    // `<<<` begins a word instead.
    (!marker.is_empty() && !marker.starts_with('<')).then(|| marker.to_owned())
}

/// A value with the characters escaped that the shell would not read again after an expansion.
fn quoted(value: &str, is_double: bool) -> String {
    let is_special = |character: char| match is_double {
        true => ['"', '\\', '$', '`'].contains(&character),
        false => {
            !is_of_name(character)
                && character.is_ascii_punctuation()
                && !"-=,.:/".contains(character)
        }
    };
    let mut quoted = String::new();
    for character in value.chars() {
        if is_special(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(script: &str, command: &str) -> String {
        let mut variables = Variables::default();
        script.lines().for_each(|line| variables.read(line));
        variables.expanded(command)
    }

    #[test]
    fn variables_that_a_script_sets_to_literals_are_expanded() {
        for (script, command, expected) in [
            ("A=10.0.0.10", "--dns $A", "--dns 10.0.0.10"),
            ("export A='x y' B=\"z\"", "--a \"${A}\" $B", "--a \"x y\" z"),
            ("A=1\nB=$A.2;", "\"$B\"", "\"1.2\""),
            ("A='--x \"y\"'", "$A", "--x \\\"y\\\""),
            ("A=1\nA=2", "$A", "2"),
            ("A=1\nexport A\necho $A ${A}", "$A", "1"),
            ("if [ -n \"$B\" ]; then\n  :\nfi\nA=1", "$A", "1"),
            ("A=1", "'$A' \\$A", "'$A' \\$A"),
            ("echo $((1<<2)) '<<'\nA=1", "$A", "1"),
        ] {
            assert_eq!(self::expanded(script, command), expected, "{script}");
        }
    }

    #[test]
    fn variables_that_only_the_instance_knows_stay() {
        for script in [
            "",
            "A=$(curl -s http://169.254.169.254)",
            "A=`hostname`",
            "A=$B",
            "A=1\nread A",
            "A=1\nunset A",
            "A=1\nA+=2",
            "A=1\n. /etc/environment",
            "A=1\neval \"$(cat x)\"",
            "if true; then\n  A=1\nfi",
            "if true; then A=1; fi",
            "f() {\n  A=1\n}",
            "cat <<EOF\nA=1\nEOF",
            "A=1 env",
            "# A=1",
            "A=1\nContent-Type: text/x-shellscript",
            "A='1",
            "A=1;B=2",
            "A=1&&true",
            "A=1>file",
            "A=1\nA=2;B=1",
            "A=1\ncat << EOF",
        ] {
            assert_eq!(expanded(script, "$A ${A}"), "$A ${A}", "{script}");
        }
    }
}
