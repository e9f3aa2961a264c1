//! Compiles many mutants into one program: `mutants TREE < LIST` rewrites the files of TREE so that each mutant of LIST
//! can be switched on at run time by its number. It prints the numbers of the mutants that cannot be written so:
//! `unviable` if they do not compile, `apart` if they must be built separately.
//!
//! LIST has one mutant per line, in cargo-mutants' JSON with its number. The text of one mutant is between
//! `/*<number*/` and `/*>*/`, and the text that switches between several is between `/*[number,number*/` and `/*]*/`,
//! so that a compiler error identifies its mutants.

mod place;
mod text;

use std::{collections::BTreeMap, env, fs, io, path::PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Mutant of cargo-mutants' list.
#[derive(Deserialize)]
pub struct Mutant {
    pub number: u32,
    pub file: PathBuf,
    pub genre: String,
    pub replacement: String,
    pub span: Span,
}

#[derive(Deserialize)]
pub struct Span {
    pub start: Position,
}

/// Line and column, both counted from one.
#[derive(Deserialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

fn main() -> Result<()> {
    let tree = PathBuf::from(env::args().nth(1).context("usage: mutants TREE < LIST")?);
    let mut files = BTreeMap::<PathBuf, Vec<Mutant>>::new();
    for line in io::stdin().lines() {
        let mutant: Mutant = serde_json::from_str(&line?)?;
        files.entry(mutant.file.clone()).or_default().push(mutant);
    }
    for (file, mutants) in files {
        let path = tree.join(&file);
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let rewrite =
            place::rewrite(&source, &mutants).with_context(|| file.display().to_string())?;
        fs::write(&path, rewrite.rewritten)?;
        for (numbers, how) in [(rewrite.unviable, "unviable"), (rewrite.apart, "apart")] {
            for number in numbers {
                println!("{number} {how}");
            }
        }
    }
    Ok(())
}
