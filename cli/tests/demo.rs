//! The demo as a newcomer runs it, told in plain lines.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

const CHAPTERS: [&str; 4] = [
    "A cluster without nodes",
    "Two NodePools by weight",
    "Layered constraints",
    "Nothing left to run",
];

fn demo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whittle"));
    command.arg("demo");
    command
}

#[test]
fn the_story_is_told_to_its_end() {
    let output = demo().output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{told}");
    assert!(!told.contains('\u{1b}'), "no colours in plain lines");

    let chapters: Vec<usize> = CHAPTERS.map(|chapter| told.find(chapter).unwrap()).to_vec();
    assert!(chapters.is_sorted(), "{told}");
    let (story, summary) = told.rsplit_once("\n\n").unwrap();
    for (line, count) in [("launch ", 3), ("Ready ", 3), ("gone ", 3)] {
        assert!(story.matches(line).count() >= count, "{line}: {story}");
    }
    assert!(
        story.contains("  $ kubectl scale deployment inflate --replicas=50\n"),
        "{story}"
    );
    assert!(
        story.contains("; cheapest of "),
        "every launch says why: {story}"
    );
    assert!(!story.contains("  ! "), "nothing went wrong: {story}");

    assert!(summary.contains("  pods     77 ran; "), "{summary}");
    assert!(summary.contains(" × r6gd.xlarge on-demand\n"), "{summary}");
    assert!(
        summary.ends_with("  gone     every instance, node and NodeClaim\n"),
        "{summary}"
    );
}

#[test]
fn the_cluster_is_left_up_until_it_is_interrupted() {
    let mut running = demo().arg("--keep").stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(running.stdout.take().unwrap()).lines();
    let kubeconfig = told
        .find_map(|line| {
            let path = line
                .unwrap()
                .trim()
                .strip_prefix("export KUBECONFIG=")?
                .to_owned();
            Some(path)
        })
        .expect("it says how to reach the cluster");
    let kubeconfig = Path::new(&kubeconfig);
    assert!(
        std::fs::read_to_string(kubeconfig)
            .unwrap()
            .contains("server: https://127.0.0.1:")
    );
    let mut rest = told.map(Result::unwrap);
    assert!(rest.any(|line| line == "Ctrl-C ends it."));

    let interrupt = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    assert!(running.wait().unwrap().success());
    assert!(!kubeconfig.exists(), "it takes its kubeconfig with it");
}
