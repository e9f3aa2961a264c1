use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use k8s_openapi::jiff::SignedDuration;
use sandbox::{KubeletOptions, NodeJoin, Sandbox, SandboxOptions, WorldOptions};
use tempfile::TempDir;

/// Longest wait for a condition under the wall clock: generous, because machines under load are slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Running sandbox with short durations, and `kubectl` configured for it.
pub(crate) struct Fixture {
    pub(crate) sandbox: Sandbox,
    kubectl: PathBuf,
    home: TempDir,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::start_with(SandboxOptions::default()).await
    }

    pub(crate) async fn start_with(options: SandboxOptions) -> Self {
        let instant = SignedDuration::from_millis(50);
        let kubelet = KubeletOptions {
            node_ready: instant,
            pod_start: instant,
            pod_stop: instant,
            ..KubeletOptions::default()
        };
        let world = WorldOptions {
            kubelet,
            ..options.world
        };
        let sandbox = Sandbox::start(SandboxOptions { world, ..options })
            .await
            .unwrap();
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("config"), sandbox.kubeconfig_yaml()).unwrap();
        Self {
            sandbox,
            kubectl: find_kubectl(),
            home,
        }
    }

    /// Runs kubectl; panics with its standard error if it fails.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "").await
    }

    /// Runs kubectl with text on its standard input.
    pub(crate) async fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        match self.try_kubectl(arguments, input).await {
            Ok(output) => output,
            Err(error) => panic!("kubectl {}: {error}", arguments.join(" ")),
        }
    }

    /// Runs kubectl; returns its output, or its error output if it fails.
    pub(crate) async fn try_kubectl(
        &self,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        command
            .args(arguments)
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(input.as_bytes())
                .unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }

    pub(crate) fn join_node(&self, name: &str) {
        let mut resources = model::Resources::default();
        for (name, quantity) in [("cpu", "4"), ("memory", "8Gi"), ("pods", "110")] {
            resources.set_quantity(name, quantity).unwrap();
        }
        let join = NodeJoin {
            name: name.to_owned(),
            provider_id: format!("aws:///us-east-1a/{name}"),
            instance_type: "m5.xlarge".to_owned(),
            zone: "us-east-1a".to_owned(),
            architecture: "amd64".to_owned(),
            allocatable: resources.clone(),
            capacity: resources,
            internal_ip: "10.0.0.1".to_owned(),
            ..NodeJoin::default()
        };
        self.sandbox.join_node(join, SignedDuration::ZERO);
    }

    /// Status code of one request over plain HTTP, without a client's retries.
    pub(crate) async fn plain_status(&self, method: &str, path: &str, body: &str) -> u16 {
        self.status_as(self.sandbox.token(), method, path, body)
            .await
    }

    pub(crate) async fn status_as(&self, token: &str, method: &str, path: &str, body: &str) -> u16 {
        let answer = self.answer_as(token, method, path, body).await;
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Whole response to one request, as text.
    pub(crate) async fn answer_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let url = self.sandbox.url();
        let address = url.strip_prefix("http://").unwrap();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// kube-rs client over TLS, configured by the kubeconfig.
    pub(crate) async fn client(&self) -> kube::Client {
        let config = kube::config::Kubeconfig::from_yaml(&self.sandbox.kubeconfig_yaml()).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options)
            .await
            .unwrap();
        kube::Client::try_from(config).unwrap()
    }
}

/// Waits until a condition holds.
pub(crate) async fn eventually<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let start = tokio::time::Instant::now();
    while !holds().await {
        assert!(start.elapsed() < TIMEOUT, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Path of the real kubectl. No test is skipped for lack of it.
#[expect(
    clippy::disallowed_methods,
    reason = "tests find their tools by the environment"
)]
fn find_kubectl() -> PathBuf {
    let tools = std::env::var("WHITTLE_TOOLS").map(PathBuf::from);
    let home = std::env::var("HOME").map(|home| PathBuf::from(home).join(".cache/whittle-tools"));
    let path = std::env::var("PATH").unwrap_or_default();
    [tools, home]
        .into_iter()
        .flatten()
        .map(|tools| tools.join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join("kubectl"))
        .find(|kubectl| kubectl.is_file())
        .expect("kubectl is in none of $WHITTLE_TOOLS/bin, ~/.cache/whittle-tools/bin and PATH: run infra/tools/install")
}
