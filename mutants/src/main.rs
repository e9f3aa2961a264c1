//! Builds many mutants into one: `mutants TREE < LIST` rewrites the files of TREE so that each mutant of LIST is chosen as the program
//! runs, by its number, and prints the numbers of those that it cannot write so: `unviable`, as nobody could, or to be built `apart`.
//!
//! LIST has one mutant a line, as cargo-mutants tells it, with its number. What is written for one mutant stands between `/*<number*/` and
//! `/*>*/`, and what is written to choose between some of them between `/*[number,number*/` and `/*]*/`, so that it can be told which mutants
//! the compiler refuses.

mod place;
mod text;

use std::{collections::BTreeMap, env, fs, io, path::PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// One of cargo-mutants' list.
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

/// Both from one on.
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
        let all = place::all(&source, &mutants).with_context(|| file.display().to_string())?;
        fs::write(&path, all.rewritten)?;
        for (numbers, how) in [(all.unviable, "unviable"), (all.apart, "apart")] {
            for number in numbers {
                println!("{number} {how}");
            }
        }
    }
    Ok(())
}
