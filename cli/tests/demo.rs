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
    "No pods left",
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
    assert!(
        stdout.contains("EC2 boot takes 30 s and is shortened to 1.2 s"),
        "the demo says how time passes: {stdout}"
    );

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
    let mut rest = stdout.map(Result::unwrap);
    let commands: Vec<String> = rest
        .by_ref()
        .take_while(|line| line != "Ctrl-C ends it.")
        .filter(|line| line.contains(" --from "))
        .collect();
    let commands: Vec<Vec<&str>> = commands
        .iter()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let names: Vec<&str> = commands.iter().map(|words| words[1]).collect();
    assert_eq!(names, ["journal", "explain", "replay", "review", "compare"]);
    for words in commands {
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        // `review` ends with 2 if a change makes something worse.
        assert!(output.status.code() != Some(1), "{words:?}: {errors}");
        assert!(!output.stdout.is_empty(), "{words:?}: {errors}");
    }
    assert!(
        std::fs::read_to_string(kubeconfig)
            .unwrap()
            .contains("server: https://127.0.0.1:")
    );
    let interrupt = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    assert!(running.wait().unwrap().success());
    assert!(!kubeconfig.exists(), "the kubeconfig is removed at exit");
}

#[test]
fn stories_are_listed_with_the_default_first() {
    let output = demo().arg("--list").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.trim_start().starts_with("growth "), "{stdout}");
    assert_eq!(stdout.lines().count(), 8, "{stdout}");
}
