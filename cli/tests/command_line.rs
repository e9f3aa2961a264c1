//! Help, completion, version, manual pages, output formats and exit codes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn whittle(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(arguments)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(environment.iter().copied())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"))
        .output()
        .unwrap()
}

/// Standard output of a command that succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = whittle(arguments, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_coloured_on_request_only_and_never_with_no_color() {
    let escapes = |environment: &[(&str, &str)]| {
        let help = whittle(&["--help"], environment).stdout;
        let help = String::from_utf8(help).unwrap();
        assert!(help.contains("Plan and explain:"), "{help}");
        help.contains('\u{1b}')
    };
    assert!(!escapes(&[]), "standard output is no terminal");
    assert!(escapes(&[("CLICOLOR_FORCE", "1")]));
    assert!(!escapes(&[("NO_COLOR", "1")]));
}

#[test]
fn completion_scripts_name_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = printed(&["completion", shell]);
        for word in ["journal", "context", "no-headers"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("conformance"), "{shell}");
    }
    let refused = whittle(&["completion", "tcsh"], &[]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn manual_has_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man");
    printed(&["man", "--dir", dir.to_str().unwrap()]);
    for page in ["whittle.1", "whittle-plan.1", "whittle-import-asg.1"] {
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
    assert!(!dir.join("whittle-conformance.1").exists());
}

#[test]
fn version_is_printed_for_people_and_programs() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(printed(&["version"]).starts_with(&format!("whittle {version}")));
    let json: Value = serde_json::from_str(&printed(&["version", "-o", "json"])).unwrap();
    assert_eq!(json.get("version"), Some(&version.into()));
    let yaml = printed(&["version", "-o", "yaml"]);
    assert!(
        yaml.starts_with(&format!("version: \"{version}\"\n")),
        "{yaml}"
    );
}

/// A check without findings.
const WELL: [&str; 3] = ["doctor", "--manifests", "doctor/well.yaml"];

#[test]
fn exit_codes_are_documented_and_returned() {
    let table = printed(&["exit-codes"]);
    assert_eq!(
        printed(&["help", "exit-codes"]).lines().next(),
        table.lines().next()
    );
    for (arguments, code) in [
        (&["version"][..], 0),
        (&["plan", "-f", "missing.yaml"], 1),
        (&["plan", "--unknown"], 2),
        (&[&WELL[..], &["--now", "2026-01-01T12:00:00Z"]].concat(), 0),
        (&["doctor", "--manifests", "doctor/troubled.yaml"], 1),
    ] {
        let output = whittle(arguments, &[]);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let documented = table
            .lines()
            .any(|line| line.trim().starts_with(&code.to_string()));
        assert!(documented, "{code}: {table}");
    }
}

#[test]
fn explain_refuses_options_without_effect() {
    for (options, code, why) in [
        (&["--at", "2h"][..], 2, "<OBJECT>"),
        (&["--last", "5"], 2, "<OBJECT>"),
        (&["--timeline"], 2, "<OBJECT>"),
        (&["-n", "shop"], 2, "<OBJECT>"),
        (&["-o", "json"], 1, "--output has an effect with an object"),
        (&["--from", "."], 1, "--from has an effect with an object"),
    ] {
        let output = whittle(&[&["explain"], options].concat(), &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {stderr}");
        assert!(stderr.contains(why), "{options:?}: {stderr}");
    }
}

#[test]
fn plan_has_all_output_formats() {
    let plan = |options: &[&str]| {
        let files = ["plan", "-f", "walkthroughs/inflate.yaml"];
        printed(&[&files[..], options].concat())
    };
    let table = plan(&["-o", "table"]);
    let header = table.lines().next().unwrap();
    let headers: Vec<&str> = header.split_whitespace().collect();
    let narrow = [
        "NAME", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "COST/H", "PODS",
    ];
    assert_eq!(headers, narrow);
    let wide = plan(&["-o", "wide"]);
    assert!(wide.lines().next().unwrap().ends_with("REASON"), "{wide}");
    let rows = plan(&["-o", "table", "--no-headers"]);
    let cells = |row: &'_ str| -> Vec<String> {
        let cells = row.split_whitespace().skip(1);
        cells.map(str::to_owned).collect()
    };
    let below: Vec<_> = table.lines().skip(1).map(cells).collect();
    assert_eq!(below, rows.lines().map(cells).collect::<Vec<_>>());
    let names = plan(&["-o", "name"]);
    assert_eq!(names.lines().count(), rows.lines().count());
    assert!(
        names.lines().all(|name| name.starts_with("default-")),
        "{names}"
    );
    let json: Value = serde_json::from_str(&plan(&["-o", "json"])).unwrap();
    let nodes = json.get("newNodes").and_then(Value::as_array).unwrap();
    assert_eq!(nodes.len(), names.lines().count());
    let yaml = plan(&["-o", "yaml"]);
    assert!(yaml.contains("newNodes:\n"), "{yaml}");
    assert!(!table.contains('\u{1b}'), "tables have no colours");
}

#[test]
fn doctor_has_all_output_formats() {
    let doctor = |format: &str| {
        let arguments = [
            "doctor",
            "--manifests",
            "doctor/troubled.yaml",
            "-o",
            format,
        ];
        String::from_utf8(whittle(&arguments, &[]).stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&doctor("json")).unwrap();
    let findings = json.as_array().unwrap();
    let names = doctor("name");
    assert_eq!(names.lines().count(), findings.len());
    assert!(
        findings
            .iter()
            .all(|finding| finding.get("remedy").is_some())
    );
    assert_eq!(doctor("table").lines().count(), findings.len() + 1);
    assert!(doctor("wide").lines().next().unwrap().ends_with("REMEDY"));
    assert!(doctor("yaml").contains("remedy:"));
}
