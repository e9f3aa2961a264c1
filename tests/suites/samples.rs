//! Invokes functions with every sample in `events/` under AWS' runtime emulator, as `make invoke` does, against the deployed
//! stack's table and queues and a registered cluster without nodes. A sidecar file contains the expected response.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot read its own samples fails"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use deployed::{CLUSTER, Deployed};
use harness::{LocalAws, Stack};
use serde_json::{Value, json};

#[test]
fn every_sample_gets_the_expected_response() {
    let samples = samples();
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    // The sweep reads the registry.
    deployed.sweep();
    let wrong: Vec<_> = samples
        .iter()
        .filter_map(|sample| check(sample, &deployed.stack).err())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} samples:\n{}",
        wrong.len(),
        samples.len(),
        wrong.join("\n")
    );
}

fn check(sample: &Path, stack: &Stack<'_>) -> Result<(), String> {
    let function = sample
        .parent()
        .and_then(Path::file_name)
        .unwrap()
        .to_str()
        .unwrap();
    let logical_id = format!("{}{}Function", function[..1].to_uppercase(), &function[1..]);
    let variables = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        &variables,
        json!({"Parameters": stack.function_environment(function)}).to_string(),
    )
    .unwrap();
    let output = Command::new(root().join("infra/tools/invoke"))
        .arg(&logical_id)
        .arg(harness::built_function(&logical_id))
        .arg(sample)
        .arg("--env-vars")
        .arg(variables.path())
        .env("PATH", harness::path_with_tools())
        .output()
        .unwrap();
    let name = sample.strip_prefix(root()).unwrap().display();
    let log = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{name}: no answer ({})\n{log}", output.status))?;
    let promised = promised_answer(sample);
    if !output.status.success() || !holds(&answer, &promised) {
        return Err(format!(
            "{name}: answered {answer} ({}), promised was {promised}\n{log}",
            output.status
        ));
    }
    Ok(())
}

/// Whether the response contains everything that is expected; additional fields of objects are ignored.
fn holds(answer: &Value, promised: &Value) -> bool {
    match promised.as_object() {
        Some(promised) => promised
            .iter()
            .all(|(key, value)| answer.get(key).is_some_and(|found| holds(found, value))),
        None => answer == promised,
    }
}

fn promised_answer(sample: &Path) -> Value {
    let sidecar = sample.with_extension("yaml");
    let text = fs::read_to_string(&sidecar)
        .unwrap_or_else(|error| panic!("{}: {error}", sidecar.display()));
    let mut sidecar: Value = serde_saphyr::from_str(&text)
        .unwrap_or_else(|error| panic!("{}: {error}", sidecar.display()));
    for field in ["about", "source", "answer"] {
        assert!(
            sidecar.get(field).is_some(),
            "{}: no {field}",
            sample.display()
        );
    }
    sidecar["answer"].take()
}

fn samples() -> Vec<PathBuf> {
    let mut samples: Vec<_> = files(&root().join("events"))
        .into_iter()
        .filter(|path| path.is_dir())
        .flat_map(|function| files(&function))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    samples.sort();
    assert!(!samples.is_empty(), "no samples in events/");
    samples
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}
