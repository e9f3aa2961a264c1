//! Replays the corpora of the fuzz targets.

#[path = "../../fuzz/fuzz_targets/command.rs"]
mod command;
#[path = "../../fuzz/fuzz_targets/manifests.rs"]
mod manifests;
#[path = "../../fuzz/fuzz_targets/texts.rs"]
mod texts;
#[path = "../../fuzz/fuzz_targets/windows.rs"]
mod windows;

use std::{fs, io, path::PathBuf};

/// Passes each input of a corpus to `read` and checks that the corpus has at least `least` inputs.
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
fn plan_for_every_corpus_input_passes_the_check() {
    let types = manifests::types();
    replay("plan", 30, |text| manifests::plan(text, &types)).unwrap();
}

#[test]
fn external_input_is_parsed_or_rejected_without_panic() {
    replay("events", 5, texts::events).unwrap();
    replay("lists", 5, texts::lists).unwrap();
    replay("quantities", 10, texts::quantities).unwrap();
    replay("user-data", 5, texts::user_data).unwrap();
    replay("parameters", 10, texts::parameters).unwrap();
}

#[test]
fn all_budget_window_calculations_agree() {
    replay("cron", 10, windows::budget).unwrap();
}

#[test]
fn output_of_every_command_line_is_complete_and_parses() {
    replay("command-line", 20, command::line).unwrap();
}
