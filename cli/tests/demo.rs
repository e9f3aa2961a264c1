//! `whittle demo` with plain-text output, as a new user runs it.

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
fn demo_runs_to_its_end() {
    let output = demo().output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{stdout}");
    assert!(!stdout.contains('\u{1b}'), "no colours in plain lines");

    let chapters: Vec<usize> = CHAPTERS
        .map(|chapter| stdout.find(chapter).unwrap())
        .to_vec();
    assert!(chapters.is_sorted(), "{stdout}");
    let (story, summary) = stdout.rsplit_once("\n\n").unwrap();
    for (line, count) in [("launch ", 3), ("Ready ", 3), ("gone ", 3)] {
        assert!(story.matches(line).count() >= count, "{line}: {story}");
    }
    assert!(
        story.contains("  $ kubectl scale deployment inflate --replicas=50\n"),
        "{story}"
    );
    assert!(
        story.contains("; cheapest of "),
        "every launch has a reason: {story}"
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
fn keep_leaves_the_cluster_running_until_interrupted() {
    let mut running = demo().arg("--keep").stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(running.stdout.take().unwrap()).lines();
    let kubeconfig = stdout
        .find_map(|line| {
            let path = line
                .unwrap()
                .trim()
                .strip_prefix("export KUBECONFIG=")?
                .to_owned();
            Some(path)
        })
        .expect("the output names the kubeconfig");
    let kubeconfig = Path::new(&kubeconfig);
    assert!(
        std::fs::read_to_string(kubeconfig)
            .unwrap()
            .contains("server: https://127.0.0.1:")
    );
    let mut rest = stdout.map(Result::unwrap);
    assert!(rest.any(|line| line == "Ctrl-C ends it."));

    let interrupt = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    assert!(running.wait().unwrap().success());
    assert!(!kubeconfig.exists(), "the kubeconfig is removed at exit");
}
