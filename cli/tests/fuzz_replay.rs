//! The fuzz targets' corpora, replayed.

#[path = "../../fuzz/fuzz_targets/command.rs"]
mod command;
#[path = "../../fuzz/fuzz_targets/manifests.rs"]
mod manifests;
#[path = "../../fuzz/fuzz_targets/texts.rs"]
mod texts;
#[path = "../../fuzz/fuzz_targets/windows.rs"]
mod windows;

use std::{fs, io, path::PathBuf};

/// Has each input of a corpus read, which holds so many at least.
fn replay(target: &str, least: usize, read: impl Fn(&str)) -> io::Result<()> {
    let corpus: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../fuzz/corpus", target]
        .iter()
        .collect();
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus)? {
        let path = entry?.path();
        eprintln!("{}", path.display());
        read(&fs::read_to_string(&path)?);
        replayed += 1;
    }
    assert!(
        replayed >= least,
        "{replayed} inputs in {}",
        corpus.display()
    );
    Ok(())
}

#[test]
fn every_input_of_the_corpus_gets_a_plan_that_passes_the_check() {
    let types = manifests::types();
    replay("plan", 30, |text| manifests::plan(text, &types)).unwrap();
}

#[test]
fn whatever_others_write_is_read_or_refused_and_nobody_panics() {
    replay("events", 5, texts::events).unwrap();
    replay("lists", 5, texts::lists).unwrap();
    replay("quantities", 10, texts::quantities).unwrap();
    replay("user-data", 5, texts::user_data).unwrap();
    replay("parameters", 10, texts::parameters).unwrap();
}

#[test]
fn whoever_looks_at_a_budget_says_the_same_of_its_windows() {
    replay("cron", 10, windows::budget).unwrap();
}

#[test]
fn what_the_command_line_prints_for_files_can_be_read_and_is_finished() {
    replay("command-line", 20, command::line).unwrap();
}
