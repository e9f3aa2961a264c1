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

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, quotes, operators and reserved words, and blanks, of which the last is none for a shell.
    const PIECES: [&str; 34] = [
        "a", "A=", "$", "${", "}", "'", "\"", "`", "\\", "#", "=", "(", ")", "<", "<<", "&", "&&",
        "|", ";", ";;", "\n", " ", "[[", "]]", "case", "in", "esac", "if", "fi", "for", "done",
        "function", "export", "\u{a0}",
    ];

    #[test]
    fn reading_of_every_short_script_ends() {
        for first in PIECES {
            for second in PIECES {
                for third in PIECES {
                    let script = [first, second, third].concat();
                    let spaced = [first, second, third].join(" ");
                    for script in [script, spaced] {
                        let mut variables = Variables::default();
                        for command in read(&script).iter().flatten() {
                            variables.read(command);
                            assert!(script.get(command.span.clone()).is_some(), "{script}");
                        }
                        let _words = variables.words(&script);
                        assert!(
                            code_lines(&script).len() <= script.lines().count(),
                            "{script}"
                        );
                    }
                }
            }
        }
    }
}
