//! The simple commands of a shell script, and whether each of them always runs in the script's own shell.

use std::ops::Range;

use super::{
    context::Context,
    reader::Unreadable,
    tokens::{self, Token},
};

/// Reserved words that begin a compound command, and those that end it.
const COMPOUNDS: [(&str, &str); 8] = [
    ("if", "fi"),
    ("for", "done"),
    ("while", "done"),
    ("until", "done"),
    ("select", "done"),
    ("case", "esac"),
    ("{", "}"),
    ("(", ")"),
];
/// Reserved words within a compound command, after which a list of commands begins.
const INNER: [&str; 4] = ["then", "else", "elif", "do"];
/// Operators after which a list of commands continues over newlines.
const CONTINUING: [&str; 4] = ["&&", "||", "|", "|&"];

/// A simple command: assignments, and words without redirections. Each keeps its quotes and expansions.
#[derive(Debug)]
pub(in crate::import) struct Command<'a> {
    pub(in crate::import) words: Vec<&'a str>,
    /// Position from the first word to the last one or redirection, in bytes.
    pub(in crate::import) span: Range<usize>,
    pub(in crate::import) line: usize,
    /// Reason why the command may not run, or not in the script's own shell.
    pub(in crate::import) context: Option<Context>,
}

/// Reads a script up to its end.
pub(in crate::import) fn read(script: &str) -> Result<Vec<Command<'_>>, Unreadable> {
    let tokens = tokens::read(script)?.tokens;
    let mut parser = Parser {
        script,
        tokens: &tokens,
        at: 0,
        frames: Vec::new(),
        commands: Vec::new(),
        list: None,
        list_start: 0,
        function: None,
        end: None,
    };
    while parser.advance()? {}
    match parser.frames.last() {
        None => Ok(parser.commands),
        Some(frame) => Err(Unreadable {
            line: frame.line,
            why: format!("{} is not closed", frame.keyword),
        }),
    }
}

/// An open compound command.
struct Frame {
    keyword: &'static str,
    /// Name for messages: `function` for the body of one.
    name: &'static str,
    line: usize,
    /// A pattern of `case` follows.
    expects_pattern: bool,
}

struct Parser<'a, 't> {
    script: &'a str,
    tokens: &'t [Token<'a>],
    at: usize,
    frames: Vec<Frame>,
    commands: Vec<Command<'a>>,
    /// Operator before the next command, if it makes the command conditional.
    list: Option<Context>,
    /// Number of commands before the current list.
    list_start: usize,
    /// Line of a function whose body follows.
    function: Option<usize>,
    /// Line of a command that may end the script.
    end: Option<usize>,
}

impl<'a> Parser<'a, '_> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    /// Reads the tokens up to the next position of a command; returns whether there were any.
    fn advance(&mut self) -> Result<bool, Unreadable> {
        let Some(token) = self.peek() else {
            return Ok(false);
        };
        if let Some(frame) = self.frames.last_mut()
            && frame.expects_pattern
        {
            self.at += 1;
            match token.text {
                "esac" if token.is_word => drop(self.frames.pop()),
                ")" => frame.expects_pattern = false,
                _ => {}
            }
            return Ok(true);
        }
        match token.is_word {
            true => self.word(token)?,
            false => self.operator(token)?,
        }
        Ok(true)
    }

    fn operator(&mut self, token: Token<'a>) -> Result<(), Unreadable> {
        match token.text {
            "\n" if self.continues_list() => {}
            "\n" | ";" => self.begin_list(),
            "&" => {
                self.mark(self.list_start, &Context::Background);
                self.begin_list();
            }
            "&&" => self.list = Some(Context::AfterList("&&")),
            "||" => self.list = Some(Context::AfterList("||")),
            "|" | "|&" => {
                let last = self.commands.len().saturating_sub(1);
                self.mark(last.max(self.list_start), &Context::Pipeline);
                self.list = Some(Context::Pipeline);
            }
            "(" => return self.open(token, "("),
            ")" => return self.close(token),
            ";;" | ";&" | ";;&" => match self.frames.last_mut() {
                Some(frame) if frame.keyword == "case" => {
                    frame.expects_pattern = true;
                    self.begin_list();
                }
                _ => return Err(unexpected(token)),
            },
            _ => return self.simple(token),
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the newline at the current position leaves the list of commands open. After another newline that is decided.
    fn continues_list(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_some_and(|before| before.text == "\n" || CONTINUING.contains(&before.text))
    }

    fn begin_list(&mut self) {
        self.list = None;
        self.list_start = self.commands.len();
    }

    /// Gives this context to the commands from this number on that always run.
    fn mark(&mut self, from: usize, context: &Context) {
        for command in self.commands.iter_mut().skip(from) {
            command.context.get_or_insert_with(|| context.clone());
        }
    }

    fn word(&mut self, token: Token<'a>) -> Result<(), Unreadable> {
        match token.text {
            "case" => {
                self.open(token, "case")?;
                // The word that patterns are compared with.
                self.at += 1;
                while self.peek().is_some_and(|token| token.text == "\n") {
                    self.at += 1;
                }
                if self.peek().is_none_or(|token| token.text != "in") {
                    return Err(Unreadable {
                        line: token.line,
                        why: "case has no `in`".to_owned(),
                    });
                }
                self.at += 1;
                if let Some(frame) = self.frames.last_mut() {
                    frame.expects_pattern = true;
                }
                Ok(())
            }
            "for" | "select" => {
                self.open(token, token.text)?;
                // The words of the loop, which assigns its variable.
                self.simple(token)
            }
            "fi" | "done" | "esac" | "}" => self.close(token),
            "function" => {
                self.function = Some(token.line);
                self.at += 2;
                self.skip_parentheses();
                Ok(())
            }
            "[[" => {
                while let Some(inner) = self.peek() {
                    self.at += 1;
                    if inner.text == "]]" {
                        return Ok(());
                    }
                }
                Err(Unreadable {
                    line: token.line,
                    why: "[[ is not closed".to_owned(),
                })
            }
            "!" | "time" => {
                self.at += 1;
                Ok(())
            }
            text if INNER.contains(&text) => {
                self.at += 1;
                self.begin_list();
                Ok(())
            }
            text if COMPOUNDS.iter().any(|(open, _)| *open == text) => self.open(token, text),
            _ => self.simple(token),
        }
    }

    fn open(&mut self, token: Token<'a>, keyword: &str) -> Result<(), Unreadable> {
        let compound = COMPOUNDS.iter().find(|(open, _)| *open == keyword);
        let (keyword, _) = compound.ok_or_else(|| unexpected(token))?;
        let (name, line) = match self.function.take() {
            Some(line) => ("function", line),
            None => (*keyword, token.line),
        };
        self.frames.push(Frame {
            keyword,
            name,
            line,
            expects_pattern: false,
        });
        self.at += 1;
        self.begin_list();
        Ok(())
    }

    fn close(&mut self, token: Token<'a>) -> Result<(), Unreadable> {
        let frame = self.frames.pop();
        let is_closed = |frame: Frame| {
            let mut compounds = COMPOUNDS.iter();
            compounds.any(|(open, close)| *open == frame.keyword && *close == token.text)
        };
        if !frame.is_some_and(is_closed) {
            return Err(unexpected(token));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips the parentheses after a function's name; returns whether there are any.
    fn skip_parentheses(&mut self) -> bool {
        let texts = [self.at, self.at + 1].map(|at| self.tokens.get(at).map(|token| token.text));
        let is_there = texts == [Some("("), Some(")")];
        if is_there {
            self.at += 2;
        }
        is_there
    }

    /// Reads a simple command, or the name of a function.
    fn simple(&mut self, first: Token<'a>) -> Result<(), Unreadable> {
        let mut words: Vec<&'a str> = Vec::new();
        let (mut word_start, mut end) = (first.start, first.start);
        while let Some(token) = self.peek() {
            if is_redirection(token) {
                // A number right before a redirection is a file descriptor.
                let is_descriptor = |word: &&str| {
                    end == token.start && word.chars().all(|digit| digit.is_ascii_digit())
                };
                if words.last().is_some_and(is_descriptor) {
                    words.pop();
                }
                end = token.end();
                self.at += 1;
                if let Some(target) = self.peek().filter(|target| target.is_word) {
                    end = target.end();
                    self.at += 1;
                }
                continue;
            }
            let is_array = |word: &&str| word.ends_with('=') && end == token.start;
            if token.text == "(" && words.last().is_some_and(is_array) {
                end = self.array(token)?;
                words.pop();
                words.push(self.script.get(word_start..end).unwrap_or_default());
                continue;
            }
            if words.len() == 1 && self.skip_parentheses() {
                self.function = Some(first.line);
                return Ok(());
            }
            if !token.is_word {
                break;
            }
            words.push(token.text);
            (word_start, end) = (token.start, token.end());
            self.at += 1;
        }
        if self.peek().is_some_and(|token| token.text == "(") {
            return Err(unexpected(first));
        }
        if words.is_empty() {
            return Ok(());
        }
        let line = first.line;
        let of_frame = self.frames.last().map(|frame| Context::Compound {
            keyword: frame.name,
            line: frame.line,
        });
        let of_end = self.end.map(Context::AfterExit);
        let list = self.list.clone();
        if may_end(&words, list.as_ref()) {
            self.end = Some(line);
        }
        self.commands.push(Command {
            words,
            span: first.start..end,
            line,
            context: of_frame.or(list).or(of_end),
        });
        Ok(())
    }

    /// Skips the values of an array; returns their end.
    fn array(&mut self, open: Token<'a>) -> Result<usize, Unreadable> {
        while let Some(token) = self.peek() {
            self.at += 1;
            if token.text == ")" {
                return Ok(token.end());
            }
        }
        Err(unexpected(open))
    }
}

fn unexpected(token: Token<'_>) -> Unreadable {
    Unreadable {
        line: token.line,
        why: format!("{:?} is not expected here", token.text),
    }
}

fn is_redirection(token: Token<'_>) -> bool {
    !token.is_word && token.text.contains(['<', '>'])
}

/// Whether a command may end the script. An instance whose script ends with an error does not join, so later commands have no effect.
fn may_end(words: &[&str], list: Option<&Context>) -> bool {
    match words {
        ["exit"] => list != Some(&Context::AfterList("||")),
        ["exit", status, ..] => status.parse().is_ok_and(|status: u8| status == 0),
        ["exec", _, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of a script, each with its line and its context.
    fn commands(script: &str) -> Vec<String> {
        let commands = read(script).unwrap();
        let text = |command: &Command<'_>| {
            let words = command.words.join(" ");
            match &command.context {
                None => format!("{} {words}", command.line),
                Some(context) => format!("{} {words} ({context})", command.line),
            }
        };
        commands.iter().map(text).collect()
    }

    #[test]
    fn commands_that_always_run_have_no_context() {
        let script = "#!/bin/bash\nset -ex; A=1 2>&1\nif a\nthen b\nfi > f\nexec > >(tee log) 2>&1\n\
                      for x in 1 2; do c; done\ncase $x in (y|z) d;; *) e\nesac\n[[ $x =~ ^(a|b)$ ]] && f\n\
                      g <<EOF \\\n  h\n$(i\nEOF\nj=(1\n2) k\n";
        assert_eq!(
            commands(script),
            [
                "2 set -ex",
                "2 A=1",
                "3 a (inside the `if` that begins in line 3)",
                "4 b (inside the `if` that begins in line 3)",
                "6 exec",
                "7 x in 1 2 (inside the `for` that begins in line 7)",
                "7 c (inside the `for` that begins in line 7)",
                "8 d (inside the `case` that begins in line 8)",
                "8 e (inside the `case` that begins in line 8)",
                "10 f (after `&&`)",
                "11 g h",
                "15 j=(1\n2) k",
            ]
        );
    }

    #[test]
    fn commands_in_lists_functions_and_shells_of_their_own_have_one() {
        let script = "a || b\nc | d\ne && f &\ng() {\n  h\n}\nfunction i\n{ j; }\n(k)\nl || exit 1\nm\np &&\n\nq || # r\n s\nt |\nu &\nv\n\
                      [ n ] && exit 0\no\n";
        assert_eq!(
            commands(script),
            [
                "1 a",
                "1 b (after `||`)",
                "2 c (in a pipeline)",
                "2 d (in a pipeline)",
                "3 e (in the background)",
                "3 f (after `&&`)",
                "5 h (inside the `function` that begins in line 4)",
                "8 j (inside the `function` that begins in line 7)",
                "9 k (inside the `(` that begins in line 9)",
                "10 l",
                "10 exit 1 (after `||`)",
                "11 m",
                "12 p",
                "14 q (after `&&`)",
                "15 s (after `||`)",
                "16 t (in a pipeline)",
                "17 u (in a pipeline)",
                "18 v",
                "19 [ n ]",
                "19 exit 0 (after `&&`)",
                "20 o (after line 19, which may end the script)",
            ]
        );
    }

    #[test]
    fn scripts_that_are_not_understood_are_reported_with_their_line() {
        for (script, line) in [
            ("a\nif b; then\n", 2),
            ("a\n\nfi\n", 3),
            ("if a; done", 1),
            ("a ;;", 1),
            ("a )", 1),
            ("a b (c)", 1),
            ("a\n[[ b && c\nd\n", 2),
            ("a\ncase b\nc\nesac\nfor d in e; do f; done\n", 2),
        ] {
            assert_eq!(
                read(script).err().map(|error| error.line),
                Some(line),
                "{script}"
            );
        }
    }
}
