//! The relay's container image, built by `infra/tools/relay-image` without a container engine and read back as an OCI layout.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

fn write_image(program: &Path, archive: &Path, certificates: &Path) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/tools/relay-image"))
        .args([program, archive])
        .arg("--certificates")
        .arg(certificates)
        .args(["--name", "whittle/relay:1.2.3"])
        .output()
        .unwrap()
}

/// Compiles a small statically linked program, as the relay is.
fn static_program(folder: &Path) -> PathBuf {
    let source = folder.join("small.rs");
    fs::write(&source, "fn main() { println!(\"the relay\"); }").unwrap();
    let program = folder.join("small");
    let built = Command::new("rustc")
        .args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "opt-level=s",
            "-o",
        ])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

fn unpack(archive: &Path, into: &Path, arguments: &str) {
    fs::create_dir_all(into).unwrap();
    let tar = Command::new("tar")
        .arg(arguments)
        .arg(archive)
        .arg("-C")
        .arg(into)
        .status()
        .unwrap();
    assert!(tar.success());
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Path of a blob. Asserts that its digest and size match the descriptor.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let text = |field: &str| descriptor.get(field).and_then(Value::as_str).unwrap();
    let digest = text("digest").strip_prefix("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(digest);
    let content = fs::read(&path).unwrap();
    assert_eq!(sha256(&content), digest);
    assert_eq!(
        descriptor.get("size").and_then(Value::as_u64),
        u64::try_from(content.len()).ok()
    );
    path
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn static_program_becomes_a_valid_image() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let program = static_program(folder.path());
    fs::write(at("roots.crt"), "certificates").unwrap();
    let output = write_image(&program, &at("image.tar"), &at("roots.crt"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    unpack(&at("image.tar"), &at("layout"), "-xf");
    let layout = at("layout");
    assert_eq!(
        json(&layout.join("oci-layout")).pointer("/imageLayoutVersion"),
        Some(&"1.0.0".into())
    );
    let index = json(&layout.join("index.json"));
    let described = index.pointer("/manifests/0").unwrap();
    let name = described.pointer("/annotations/org.opencontainers.image.ref.name");
    assert_eq!(name, Some(&"whittle/relay:1.2.3".into()));
    let manifest = json(&blob(&layout, described));
    let config = json(&blob(&layout, manifest.get("config").unwrap()));
    assert_eq!(
        config.pointer("/config/Entrypoint/0"),
        Some(&"/usr/local/bin/relay".into())
    );
    assert_eq!(config.pointer("/config/User"), Some(&"65532:65532".into()));

    let layer = blob(&layout, manifest.pointer("/layers/0").unwrap());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(&layer).unwrap())
        .read_to_end(&mut unpacked)
        .unwrap();
    let digest = format!("sha256:{}", sha256(&unpacked));
    assert_eq!(
        config.pointer("/rootfs/diff_ids/0"),
        Some(&digest.as_str().into())
    );
    unpack(&layer, &at("root"), "-xzf");
    assert_eq!(
        fs::read_to_string(at("root/etc/ssl/certs/ca-certificates.crt")).unwrap(),
        "certificates"
    );
    let printed = Command::new(at("root/usr/local/bin/relay"))
        .output()
        .unwrap();
    assert_eq!(printed.stdout, b"the relay\n");

    write_image(&program, &at("again.tar"), &at("roots.crt"));
    assert_eq!(
        fs::read(at("image.tar")).unwrap(),
        fs::read(at("again.tar")).unwrap(),
        "the image is reproducible"
    );
}

#[test]
fn program_that_cannot_run_in_the_image_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text"), "#!/bin/sh\n").unwrap();
    fs::write(at("roots.crt"), "certificates").unwrap();
    let cases = [
        (
            PathBuf::from(env!("CARGO_BIN_EXE_whittle")),
            at("roots.crt"),
            "is linked dynamically, and the image has no C library",
        ),
        (at("text"), at("roots.crt"), "is not a 64-bit ELF program"),
        (at("missing"), at("roots.crt"), "cannot read"),
        (at("text"), at("missing.crt"), "cannot read"),
    ];
    for (program, certificates, refusal) in cases {
        let output = write_image(&program, &at("image.tar"), &certificates);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.contains(refusal),
            "{stderr}"
        );
        assert!(!at("image.tar").exists());
    }
}
