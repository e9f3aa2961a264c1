//! Words and operators of a shell script. A word keeps its quotes and expansions.

use std::ops::Range;

use super::reader::{Reader, Unreadable, line_at};

/// Operators, longer ones before their prefixes.
const OPERATORS: [&str; 24] = [
    ";;&", "<<<", "<<-", "&>>", ";;", ";&", "&&", "||", "|&", "&>", "<<", "<&", "<>", ">>", ">&",
    ">|", ";", "&", "|", "(", ")", "<", ">", "\n",
];
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Position in the script, in bytes.
    pub(super) start: usize,
    pub(super) line: usize,
    pub(super) is_word: bool,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

pub(super) struct Tokens<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    /// Positions of the bodies of here-documents.
    pub(super) here_documents: Vec<Range<usize>>,
}

/// The lines of a script without its comments, with their numbers. In a script that is not understood only whole lines are comments.
pub(in crate::import) fn code_lines(script: &str) -> Vec<(usize, String)> {
    let lines = script.lines().enumerate();
    let Ok(read) = read(script) else {
        let is_comment = |line: &str| line.trim_start().starts_with('#');
        let code = lines.filter(|(_, line)| !is_comment(line));
        return code
            .map(|(number, line)| (number + 1, line.to_owned()))
            .collect();
    };
    let tokens = read.tokens.iter().filter(|token| token.text != "\n");
    let words = tokens.map(|token| (token.line, token.text));
    let here_documents = read.here_documents.into_iter().map(|body| {
        let text = script.get(body.clone()).unwrap_or_default();
        (line_at(script, body.start), text)
    });
    let mut parts: Vec<(usize, &str)> = words.chain(here_documents).collect();
    parts.sort_by_key(|(line, _)| *line);
    let mut code: Vec<(usize, String)> = Vec::new();
    for (first, text) in parts {
        for (number, part) in text.lines().enumerate() {
            let line = first + number;
            match code.last_mut() {
                Some((last, text)) if *last == line => {
                    text.push(' ');
                    text.push_str(part);
                }
                _ => code.push((line, part.to_owned())),
            }
        }
    }
    code
}

pub(super) fn read(script: &str) -> Result<Tokens<'_>, Unreadable> {
    let mut reader = Reader::new(script);
    let (mut tokens, mut here_documents) = (Vec::new(), Vec::new());
    // Here-documents whose bodies follow the line, by their end marker and whether tabs before it are ignored.
    let mut pending: Vec<(String, bool)> = Vec::new();
    let mut expects_marker: Option<bool> = None;
    let (mut line, mut counted) = (1, 0);
    while let Some(first) = reader.peek() {
        let start = reader.at;
        let passed = script.get(counted..start).unwrap_or_default();
        line += passed.matches('\n').count();
        counted = start;
        let rest = reader.rest();
        let operator = OPERATORS
            .iter()
            .find(|operator| rest.starts_with(**operator));
        // A process substitution and an arithmetic command are words.
        let is_word = ["<(", ">(", "(("].iter().any(|word| rest.starts_with(word));
        match operator.filter(|_| !is_word) {
            _ if [' ', '\t', '\r'].contains(&first) => reader.skip(1),
            _ if rest.starts_with("\\\n") => reader.skip(2),
            _ if first == '#' => reader.comment(),
            Some(operator) => {
                reader.skip(operator.len());
                match *operator {
                    "<<" | "<<-" => expects_marker = Some(*operator == "<<-"),
                    "\n" => {
                        for (marker, ignores_tabs) in pending.drain(..) {
                            here_documents.push(reader.here_document(&marker, ignores_tabs));
                        }
                    }
                    _ => {}
                }
                tokens.push(Token {
                    text: operator,
                    start,
                    line,
                    is_word: false,
                });
            }
            None => {
                reader.word()?;
                if reader.at == start {
                    // Reading would never end.
                    return Err(Unreadable {
                        line,
                        why: format!("{first:?} begins no word"),
                    });
                }
                let text = script.get(start..reader.at).unwrap_or_default();
                if let Some(ignores_tabs) = expects_marker.take() {
                    let marker = text.replace(['\'', '"', '\\'], "");
                    pending.push((marker, ignores_tabs));
                }
                tokens.push(Token {
                    text,
                    start,
                    line,
                    is_word: true,
                });
            }
        }
    }
    Ok(Tokens {
        tokens,
        here_documents,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<&str> {
        let tokens = read(script).unwrap().tokens;
        tokens.iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_keep_their_quotes_and_substitutions() {
        assert_eq!(
            words("a 'b c' \"d $(e \"f\") g\" ${h:-'i }'} `j k` $((1<<2)) # l\nm\\\nn\\ o"),
            [
                "a",
                "'b c'",
                "\"d $(e \"f\") g\"",
                "${h:-'i }'}",
                "`j k`",
                "$((1<<2))",
                "\n",
                "m\\\nn\\ o"
            ]
        );
        assert_eq!(
            words("a>b 2>&1|c&&d <(e f)"),
            ["a", ">", "b", "2", ">&", "1", "|", "c", "&&", "d", "<(e f)"]
        );
        // A comment may hold a parenthesis.
        assert_eq!(words("$(a;# )\nb) c"), ["$(a;# )\nb)", "c"]);
    }

    #[test]
    fn only_blanks_of_bash_separate_words() {
        for space in ['\u{a0}', '\u{b}', '\u{c}', '\u{85}', '\u{2003}', '\u{3000}'] {
            let word = format!("a{space}b");
            assert_eq!(words(&format!("{word} c")), [&word, "c"]);
            assert_eq!(words(&format!("{space} c")).len(), 2);
            let substitution = format!("$(a{space}# b)");
            assert_eq!(words(&substitution), [&substitution]);
        }
    }

    #[test]
    fn here_documents_are_no_commands() {
        let script = "cat <<-'EOF' <<B > f\n\tEOF x\n\tEOF\nb\nB\nlast";
        assert_eq!(
            words(script),
            ["cat", "<<-", "'EOF'", "<<", "B", ">", "f", "\n", "last"]
        );
    }

    #[test]
    fn code_is_numbered_by_line_and_has_no_comments() {
        let script = "# a\nb 'c\nd' # e\ncat <<X\n# f\nX\n";
        let code: Vec<(usize, String)> = code_lines(script);
        let of = |number: usize| {
            let line = code.iter().find(|(line, _)| *line == number);
            line.map(|(_, text)| text.trim())
        };
        assert_eq!(
            [1, 2, 3, 5].map(of),
            [None, Some("b 'c"), Some("d'"), Some("# f")]
        );
    }

    #[test]
    fn text_that_is_not_closed_is_reported_with_its_line() {
        for (script, line, why) in [
            ("a\nb 'c\n", 2, "' is not closed"),
            ("a $(b\n", 1, "( is not closed"),
            ("a\n\n\"${b\"", 3, "\" is not closed"),
        ] {
            let error = read(script).err().unwrap();
            assert_eq!((error.line, error.why.as_str()), (line, why), "{script}");
        }
        assert!(read(&"$(".repeat(100_000)).is_err());
    }
}
