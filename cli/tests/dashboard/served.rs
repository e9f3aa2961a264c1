//! `whittle dashboard` as a separate process.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::cluster::Cluster;

/// A running `whittle dashboard`; the process ends when this value is dropped.
pub(crate) struct Dashboard {
    process: Child,
    pub(crate) address: String,
}

impl Dashboard {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &Path)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_whittle"))
            .arg("dashboard")
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut address).unwrap();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Self {
            process,
            address: address.trim().to_owned(),
        }
    }

    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self::of_contexts(cluster, &["sandbox"])
    }

    pub(crate) fn of_contexts(cluster: &Cluster, contexts: &[&str]) -> Self {
        let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/us-east-1.json.gz");
        let catalog = catalog.display().to_string();
        let contexts = contexts.iter().flat_map(|context| ["--context", *context]);
        let arguments: Vec<&str> = contexts.chain(["--catalog", &catalog]).collect();
        Self::start(&arguments, &[("KUBECONFIG", &cluster.kubeconfig())])
    }

    pub(crate) fn host(&self) -> String {
        let rest = self.address.strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    pub(crate) fn token(&self) -> String {
        self.address.split_once("token=").unwrap().1.to_owned()
    }

    /// The complete HTTP response to these request lines.
    pub(crate) fn answer(&self, lines: &str) -> String {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        write!(stream, "{lines}connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Standard error of a `whittle dashboard` that refuses to start.
pub(crate) fn refused(arguments: &[&str], kubeconfig: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .arg("dashboard")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}
