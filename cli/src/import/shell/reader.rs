//! A position in a shell script that moves over quotes, expansions and here-documents as a whole.

use std::{fmt, ops::Range};

/// Bound on substitutions within each other, which are read recursively.
const DEPTH_MAX: usize = 50;

/// Characters that end a word: blanks, of which bash knows no others, and those of operators.
const WORD_ENDS: &str = " \t\r\n;&|<>()";
/// Characters after which a number sign begins a comment.
const COMMENTS_AFTER: &str = " \t\n(;&|";

/// Part of a script that is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::import) struct Unreadable {
    pub(in crate::import) line: usize,
    pub(super) why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The number of the line at a position in bytes, from 1.
pub(in crate::import) fn line_at(text: &str, position: usize) -> usize {
    let before = text.get(..position).unwrap_or(text);
    before.matches('\n').count() + 1
}

pub(super) struct Reader<'a> {
    script: &'a str,
    pub(super) at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(script: &'a str) -> Self {
        Self {
            script,
            at: 0,
            depth: 0,
        }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.script.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Skips this many bytes, which end at a character's end.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.script.len());
    }

    fn skip_character(&mut self) {
        self.skip(self.peek().map_or(0, char::len_utf8));
    }

    /// Skips a backslash and the character after it.
    fn escaped(&mut self) {
        self.skip(1);
        self.skip_character();
    }

    pub(super) fn comment(&mut self) {
        let rest = self.rest();
        self.skip(rest.find('\n').unwrap_or(rest.len()));
    }

    pub(super) fn here_document(&mut self, marker: &str, ignores_tabs: bool) -> Range<usize> {
        let start = self.at;
        while self.at < self.script.len() {
            let (end, rest) = (self.at, self.rest());
            let line = rest.split_inclusive('\n').next().unwrap_or_default();
            self.skip(line.len());
            let line = line.trim_end_matches(['\n', '\r']);
            let is_end = match ignores_tabs {
                true => line.trim_start_matches('\t') == marker,
                false => line == marker,
            };
            if is_end {
                return start..end;
            }
        }
        start..self.at
    }

    pub(super) fn word(&mut self) -> Result<(), Unreadable> {
        if ["<(", ">("]
            .iter()
            .any(|open| self.rest().starts_with(open))
        {
            self.skip(2);
            self.parentheses()?;
        } else if self.rest().starts_with("((") {
            self.skip(1);
            return self.parentheses();
        }
        while let Some(next) = self.peek() {
            match next {
                '\\' => self.escaped(),
                '\'' => self.quoted('\'')?,
                '`' => self.quoted('`')?,
                '"' => self.double_quoted()?,
                '$' => self.dollar(false)?,
                _ if WORD_ENDS.contains(next) => break,
                _ => self.skip_character(),
            }
        }
        Ok(())
    }

    /// Skips text in single quotes, or in backticks, in which a backslash escapes.
    fn quoted(&mut self, quote: char) -> Result<(), Unreadable> {
        let start = self.at;
        self.skip(1);
        while let Some(next) = self.peek() {
            match next {
                '\\' if quote == '`' => self.escaped(),
                _ if next == quote => {
                    self.skip(1);
                    return Ok(());
                }
                _ => self.skip_character(),
            }
        }
        Err(self.not_closed(start, quote))
    }

    fn double_quoted(&mut self) -> Result<(), Unreadable> {
        let start = self.at;
        self.skip(1);
        while let Some(next) = self.peek() {
            match next {
                '\\' => self.escaped(),
                '`' => self.quoted('`')?,
                '$' => self.dollar(true)?,
                '"' => {
                    self.skip(1);
                    return Ok(());
                }
                _ => self.skip_character(),
            }
        }
        Err(self.not_closed(start, '"'))
    }

    /// Skips a dollar sign, and the braces, parentheses or quotes that belong to it.
    fn dollar(&mut self, is_double_quoted: bool) -> Result<(), Unreadable> {
        self.skip(1);
        match self.peek() {
            Some('(') => {
                self.skip(1);
                self.parentheses()
            }
            Some('{') => self.braces(),
            Some('\'') if !is_double_quoted => {
                let start = self.at;
                self.skip(1);
                while let Some(next) = self.peek() {
                    match next {
                        '\\' => self.escaped(),
                        '\'' => {
                            self.skip(1);
                            return Ok(());
                        }
                        _ => self.skip_character(),
                    }
                }
                Err(self.not_closed(start, '\''))
            }
            _ => Ok(()),
        }
    }

    fn braces(&mut self) -> Result<(), Unreadable> {
        let start = self.at;
        self.deeper()?;
        self.skip(1);
        while let Some(next) = self.peek() {
            match next {
                '\\' => self.escaped(),
                '\'' => self.quoted('\'')?,
                '`' => self.quoted('`')?,
                '"' => self.double_quoted()?,
                '$' => self.dollar(false)?,
                '}' => {
                    self.skip(1);
                    self.depth -= 1;
                    return Ok(());
                }
                _ => self.skip_character(),
            }
        }
        Err(self.not_closed(start, '{'))
    }

    /// Skips to the end of parentheses, the first of which is skipped already.
    fn parentheses(&mut self) -> Result<(), Unreadable> {
        let start = self.at.saturating_sub(1);
        self.deeper()?;
        let mut open = 1_usize;
        let mut before = '(';
        while let Some(next) = self.peek() {
            match next {
                '\\' => self.escaped(),
                '\'' => self.quoted('\'')?,
                '`' => self.quoted('`')?,
                '"' => self.double_quoted()?,
                '$' => self.dollar(false)?,
                '#' if COMMENTS_AFTER.contains(before) => self.comment(),
                '(' => {
                    open += 1;
                    self.skip(1);
                }
                ')' => {
                    open -= 1;
                    self.skip(1);
                    if open == 0 {
                        self.depth -= 1;
                        return Ok(());
                    }
                }
                _ => self.skip_character(),
            }
            before = next;
        }
        Err(self.not_closed(start, '('))
    }

    fn deeper(&mut self) -> Result<(), Unreadable> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unreadable {
                line: line_at(self.script, self.at),
                why: format!("more than {DEPTH_MAX} substitutions are within each other"),
            });
        }
        Ok(())
    }

    fn not_closed(&self, start: usize, open: char) -> Unreadable {
        Unreadable {
            line: line_at(self.script, start),
            why: format!("{open} is not closed"),
        }
    }
}

/// The length of the expansion at the start of a text, which is a dollar sign or a backtick, in bytes.
pub(super) fn expansion_length(text: &str) -> Result<usize, Unreadable> {
    let mut reader = Reader::new(text);
    match text.starts_with('`') {
        true => reader.quoted('`')?,
        false => {
            reader.dollar(true)?;
            if reader.at == 1 {
                let is_special = |first: char| "@*#?-$!".contains(first) || first.is_ascii_digit();
                let special = text.chars().nth(1).is_some_and(is_special);
                reader.skip(match special {
                    true => 1,
                    false => super::variables::name_length(reader.rest()),
                });
            }
        }
    }
    Ok(reader.at)
}
