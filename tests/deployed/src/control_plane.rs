//! Control plane of a cluster: simulated, started from programs on this machine (`KUBEBUILDER_ASSETS`), or provided by
//! the user (`KUBECONFIG`).

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rcgen::KeyPair;
use sandbox::{Credential, Sandbox, SandboxOptions, WorldOptions};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Control plane that runs as long as this value exists.
pub(crate) struct ControlPlane {
    /// Kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// Kubeconfig of the relay's ServiceAccount; for a provided cluster, the administrator's.
    pub relay_kubeconfig: PathBuf,
    backend: Backend,
    _home: TempDir,
}

/// Backend of the control plane. Processes end with this value.
enum Backend {
    Sandbox {
        _running: Box<Sandbox>,
    },
    Programs {
        _running: Programs,
    },
    /// Cluster provided by the user.
    Provided,
}

/// Longest start of a control plane, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const ADMINISTRATOR: &str = "of-the-administrator";
const RELAY: &str = "of-the-relay";

impl ControlPlane {
    /// Starts the control plane that the environment names; a simulated one by default.
    pub(crate) fn start(runtime: &Runtime) -> Self {
        let home = TempDir::new().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let relay_kubeconfig = home.path().join("kubeconfig-of-relay");
        let (kubeconfig, relay_kubeconfig, backend) = match (
            path("KUBEBUILDER_ASSETS"),
            path("KUBECONFIG"),
        ) {
            (Some(_), Some(_)) => panic!(
                "KUBEBUILDER_ASSETS and KUBECONFIG are both set: unset the one that is not meant"
            ),
            (Some(assets), None) => {
                let _running = Programs::start(assets, home.path(), &kubeconfig);
                write_relay_kubeconfig(&kubeconfig, ADMINISTRATOR, &relay_kubeconfig);
                let backend = Backend::Programs { _running };
                (kubeconfig, relay_kubeconfig, backend)
            }
            (None, Some(given)) => (given.clone(), given, Backend::Provided),
            (None, None) => return Self::simulated(runtime),
        };
        Self {
            kubeconfig,
            relay_kubeconfig,
            backend,
            _home: home,
        }
    }

    pub(crate) fn simulated(runtime: &Runtime) -> Self {
        // Identifiers follow from the seed; clusters with the same seed would share the UID of their namespace
        // kube-system.
        static CLUSTERS: AtomicU64 = AtomicU64::new(1);
        let mut options = SandboxOptions {
            world: WorldOptions {
                seed: CLUSTERS.fetch_add(1, Ordering::Relaxed),
                ..WorldOptions::default()
            },
            ..SandboxOptions::default()
        };
        options.credentials.push(Credential {
            token: RELAY.to_owned(),
            ..Credential::member(harness::RELAY_USER, &["system:serviceaccounts"])
        });
        let sandbox = runtime.block_on(Sandbox::start(options));
        let sandbox = Box::new(sandbox.unwrap());
        let home = TempDir::new().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        fs::write(&kubeconfig, sandbox.kubeconfig_yaml()).unwrap();
        let relay_kubeconfig = home.path().join("kubeconfig-of-relay");
        write_relay_kubeconfig(&kubeconfig, sandbox.token(), &relay_kubeconfig);
        Self {
            kubeconfig,
            relay_kubeconfig,
            backend: Backend::Sandbox { _running: sandbox },
            _home: home,
        }
    }

    pub(crate) fn is_provided(&self) -> bool {
        matches!(self.backend, Backend::Provided)
    }
}

/// Writes the same kubeconfig with the relay's token.
fn write_relay_kubeconfig(kubeconfig: &Path, administrator: &str, relay_kubeconfig: &Path) {
    let access = fs::read_to_string(kubeconfig).unwrap();
    assert!(access.contains(administrator), "{access}");
    fs::write(relay_kubeconfig, access.replace(administrator, RELAY)).unwrap();
}

/// Path in an environment variable; an empty variable counts as unset.
fn path(variable: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// Processes of a control plane: etcd, API server, controller manager and scheduler. They end with this value.
pub(crate) struct Programs {
    assets: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
    running: Vec<(&'static str, Child)>,
}

impl Programs {
    fn start(assets: PathBuf, home: &Path, kubeconfig: &Path) -> Self {
        let mut programs = Self {
            assets,
            home: home.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            running: Vec::new(),
        };
        let [etcd, peers, api_server] = free_ports();
        let etcd = format!("http://127.0.0.1:{etcd}");
        programs.run(
            "etcd",
            &[
                ("data-dir", &programs.path("etcd")),
                ("listen-client-urls", &etcd),
                ("advertise-client-urls", &etcd),
                ("listen-peer-urls", &format!("http://127.0.0.1:{peers}")),
                ("unsafe-no-fsync", "true"),
            ],
        );
        programs.run_api_server(&etcd, &api_server.to_string());
        programs.wait_for(&["get", "--raw=/readyz"]);
        // The defaults (20 and 50 requests a second) would throttle bursts of pods; managed control planes raise them.
        let known = [
            ("kubeconfig", kubeconfig.to_str().unwrap()),
            ("kube-api-burst", "1000"),
            ("kube-api-qps", "500"),
            ("leader-elect", "false"),
            ("secure-port", "0"),
        ];
        let key = programs.path("accounts.key");
        let signs = ("service-account-private-key-file", key.as_str());
        programs.run("kube-controller-manager", &[&known[..], &[signs]].concat());
        programs.run("kube-scheduler", &known);
        // Pods need this ServiceAccount.
        programs.wait_for(&["get", "serviceaccount/default", "--namespace=default"]);
        programs
    }

    fn run_api_server(&mut self, etcd: &str, port: &str) {
        let key = KeyPair::generate().unwrap();
        fs::write(self.path("accounts.key"), key.serialize_pem()).unwrap();
        fs::write(self.path("accounts.pub"), key.public_key_pem()).unwrap();
        let tokens = format!(
            "{ADMINISTRATOR},administrator,administrator,system:masters\n{RELAY},{},relay,system:serviceaccounts\n",
            harness::RELAY_USER
        );
        fs::write(self.path("tokens.csv"), tokens).unwrap();
        self.run(
            "kube-apiserver",
            &[
                ("etcd-servers", etcd),
                ("bind-address", "127.0.0.1"),
                ("advertise-address", "127.0.0.1"),
                ("endpoint-reconciler-type", "none"),
                ("secure-port", port),
                ("cert-dir", &self.path("certificates")),
                ("service-cluster-ip-range", "10.100.0.0/16"),
                ("service-account-issuer", "https://kubernetes.default.svc"),
                ("service-account-key-file", &self.path("accounts.pub")),
                (
                    "service-account-signing-key-file",
                    &self.path("accounts.key"),
                ),
                ("token-auth-file", &self.path("tokens.csv")),
                ("authorization-mode", "RBAC"),
            ],
        );
        // The API server's certificate is self-signed.
        let authority = self.path("certificates/apiserver.crt");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "started",
            "clusters": [{"name": "started", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "certificate-authority": authority,
            }}],
            "users": [{"name": "administrator", "user": {"token": ADMINISTRATOR}}],
            "contexts": [{"name": "started", "context": {"cluster": "started", "user": "administrator"}}],
        });
        fs::write(&self.kubeconfig, kubeconfig.to_string()).unwrap();
    }

    fn run(&mut self, program: &'static str, arguments: &[(&str, &str)]) {
        let path = self.assets.join(program);
        assert!(
            path.exists(),
            "{} is missing: KUBEBUILDER_ASSETS needs etcd, kube-apiserver, kube-controller-manager and kube-scheduler, which `make control-plane` builds",
            path.display()
        );
        let log = fs::File::create(self.path(&format!("{program}.log"))).unwrap();
        let arguments = arguments.iter();
        let child = Command::new(path)
            .args(arguments.map(|(flag, value)| format!("--{flag}={value}")))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.running.push((program, child.unwrap()));
    }

    /// Path of a file in the control plane's own directory.
    fn path(&self, file: &str) -> String {
        self.home.join(file).to_str().unwrap().to_owned()
    }

    /// Waits until kubectl succeeds.
    fn wait_for(&mut self, arguments: &[&str]) {
        let started = Instant::now();
        loop {
            let kubectl = Command::new(harness::tool("bin/kubectl"))
                .args(arguments)
                .env("KUBECONFIG", &self.kubeconfig)
                .output()
                .unwrap();
            if kubectl.status.success() {
                return;
            }
            let mut running = self.running.iter_mut();
            let ended = running.any(|(_, child)| child.try_wait().unwrap().is_some());
            if ended || started.elapsed() > START_TIMEOUT {
                let stderr = String::from_utf8_lossy(&kubectl.stderr);
                panic!("the control plane does not start: kubectl {arguments:?}: {stderr}");
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Last lines of the processes' logs.
    fn logs(&self) -> String {
        let log = |(program, _): &(&str, Child)| {
            let text = fs::read_to_string(self.path(&format!("{program}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines
                .get(lines.len().saturating_sub(20)..)
                .unwrap_or_default();
            format!("---- {program} ----\n{}", last.join("\n"))
        };
        self.running.iter().map(log).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for (_, child) in self.running.iter_mut().rev() {
            // The process may have ended by itself; its log then has the reason.
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// Ports that are free at present. Other processes on the machine take only ports that they were assigned.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
