//! Invokes functions with every sample in `events/` against the local AWS of `make local`: the README's commands as they are
//! printed there, if Docker runs on this machine, and all others under AWS' runtime emulator, as `make invoke` does. A sidecar
//! file contains the expected response.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot read its own samples fails"
)]

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use deployed::{CLUSTER, local::Local};
use harness::LocalAws;
use serde_json::Value;

#[test]
fn every_sample_gets_the_expected_response() {
    let aws = LocalAws::start(CLUSTER);
    let folder = tempfile::tempdir().unwrap();
    let variables = folder.path().join("env.json");
    fs::write(&variables, variables_with_free_ports()).unwrap();
    let local = Local::start(&aws, &variables);

    let shown = commands_of_readme();
    let others = samples()
        .into_iter()
        .filter(|sample| !shown.contains(sample));
    // moto does not know the filter for a Capacity Block's instances, which it evaluates once there are instances.
    let (notices, others): (Vec<_>, Vec<_>) =
        others.partition(|sample| logical_id(sample) == "InterruptionFunction");
    let invoke = |samples: &[PathBuf], in_container| {
        let checked = samples.iter();
        let failed = checked.filter_map(|sample| check(sample, &variables, in_container).err());
        failed.collect::<Vec<String>>()
    };
    let mut wrong = invoke(&notices, false);
    wrong.extend(invoke(&shown, runs_docker()));
    let launched = local.deployed.instances().len();
    assert!(launched > 0, "no node for the pending pods: {wrong:?}");
    wrong.extend(invoke(&others, false));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `events/env.json` with other ports than its own, which may be in use on this machine.
fn variables_with_free_ports() -> String {
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [all, ec2] = free.map(|listener| listener.local_addr().unwrap().to_string());
    let text = fs::read_to_string(root().join("events/env.json")).unwrap();
    text.replace("127.0.0.1:4566", &all)
        .replace("127.0.0.1:5000", &ec2)
}

/// Samples in the `sam local invoke` commands of the README, one of each function.
fn commands_of_readme() -> Vec<PathBuf> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme
        .lines()
        .filter_map(|line| line.strip_prefix("sam local invoke "));
    let samples = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [function, "-e", sample, "--env-vars", "events/env.json"] = words[..] else {
            panic!("README: sam local invoke {line}")
        };
        let sample = root().join(sample);
        assert_eq!(function, logical_id(&sample));
        sample
    });
    let samples: Vec<PathBuf> = samples.collect();
    assert_eq!(samples.len(), 6);
    samples
}

fn runs_docker() -> bool {
    let info = Command::new("docker").arg("info").output();
    info.is_ok_and(|output| output.status.success())
}

/// Function of a sample as the template names it, such as `ProvisionerFunction`.
fn logical_id(sample: &Path) -> String {
    let folder = sample.parent().and_then(Path::file_name).unwrap();
    let function = folder.to_str().unwrap();
    format!("{}{}Function", function[..1].to_uppercase(), &function[1..])
}

/// Invokes a sample's function with `sam local invoke`, or under the runtime emulator without Docker.
fn check(sample: &Path, variables: &Path, in_container: bool) -> Result<(), String> {
    let logical_id = logical_id(sample);
    let mut command = match in_container {
        true => sam_local_invoke(
            &logical_id,
            sample,
            &variables.with_file_name("samconfig.toml"),
        ),
        false => {
            let mut command = Command::new(root().join("infra/tools/invoke"));
            let program = harness::built_function(&logical_id);
            command.arg(&logical_id).arg(program).arg(sample);
            command
        }
    };
    let output = command
        .arg("--env-vars")
        .arg(variables)
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

/// `sam local invoke` with the settings that `make local` writes.
fn sam_local_invoke(logical_id: &str, sample: &Path, settings: &Path) -> Command {
    let architecture = match cfg!(target_arch = "aarch64") {
        true => "arm64",
        false => "x86_64",
    };
    let mut write = Command::new(root().join("infra/tools/sam-config"));
    write.args(["--local", architecture]);
    write.arg(harness::built_template()).arg(settings);
    assert!(write.status().unwrap().success());
    let mut command = Command::new(harness::tool("bin/sam"));
    command.env("SAM_CLI_TELEMETRY", "0");
    command
        .args(["local", "invoke", logical_id, "-e"])
        .arg(sample);
    command.arg("--config-file").arg(settings);
    command
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
