mod shared;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub(crate) use self::shared::Shared;
use self::shared::lock;
use crate::{
    clock::WorldClock,
    controllers::NodeJoin,
    ec2::handle::Ec2,
    faults::Fault,
    http::{
        self,
        certificate::{self, CertificateError},
        listener::Listener,
    },
    world::{World, WorldOptions},
};

/// Running simulation with its API server on 127.0.0.1.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) shared: Arc<Shared>,
    address: SocketAddr,
    authority_pem: String,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
pub struct SandboxOptions {
    pub world: WorldOptions,
    pub clock: WorldClock,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Accepted credentials; if empty, every request is accepted as administrator.
    pub credentials: Vec<Credential>,
    /// Interval between bookmarks on watches that asked for them.
    pub bookmark_interval: Duration,
    /// Whether watches may ask for `sendInitialEvents`.
    pub streaming_lists: bool,
    /// Whether watches are compressed, chunk by chunk, for clients that accept it.
    pub compressed_watches: bool,
    /// Kubernetes minor version that the server reports, and whose discovery format it serves.
    pub kubernetes_minor: u32,
}

/// Newest minor version whose behavior the server follows.
pub const NEWEST_KUBERNETES: u32 = 37;
/// Oldest supported minor version.
pub const OLDEST_KUBERNETES: u32 = 29;

/// Bearer token and the user that it authenticates.
#[derive(Clone, Debug)]
pub struct Credential {
    pub token: String,
    pub user: String,
    /// Groups of the user. `system:masters` may do everything; other groups have the rights of their RBAC objects.
    pub groups: Vec<String>,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        port: u16,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot prepare TLS")]
    Tls(#[from] CertificateError),
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            world: WorldOptions::default(),
            clock: WorldClock::wall(),
            port: 0,
            credentials: vec![Credential::administrator("sandbox-administrator")],
            bookmark_interval: Duration::from_secs(15),
            streaming_lists: true,
            compressed_watches: false,
            kubernetes_minor: NEWEST_KUBERNETES,
        }
    }
}

impl Credential {
    pub fn administrator(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            user: "kubernetes-admin".to_owned(),
            groups: vec!["system:masters".to_owned()],
        }
    }
}

impl Sandbox {
    pub async fn start(options: SandboxOptions) -> Result<Self, StartError> {
        let port = options.port;
        let listen = |source| StartError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let identity = certificate::identity()?;
        let listener = Listener::new(listener, identity.server).map_err(listen)?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared::new(options));
        let router = http::router(shared.clone());
        let mut tasks = vec![tokio::spawn(serve(listener, router, stopped.clone()))];
        if !shared.clock.is_virtual() {
            tasks.push(tokio::spawn(drive(shared.clone(), stopped)));
        }
        Ok(Self {
            shared,
            address,
            authority_pem: identity.authority_pem,
            stop,
            tasks,
        })
    }

    /// `http://127.0.0.1:<port>`; the same port also serves TLS.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `https://127.0.0.1:<port>`, with a certificate signed by [`Self::authority_pem`].
    pub fn tls_url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Certificate authority of this run.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Token of the first credential; empty if none is required.
    pub fn token(&self) -> &str {
        self.shared
            .credentials
            .first()
            .map_or("", |credential| &credential.token)
    }

    /// Kubeconfig for the first credential.
    pub fn kubeconfig_yaml(&self) -> String {
        // The URL is HTTPS because kubectl sends tokens over TLS only.
        let (url, token) = (self.tls_url(), self.token());
        let authority = STANDARD.encode(&self.authority_pem);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: sandbox\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority}\n\
             users:\n- name: sandbox\n  user:\n    token: {token:?}\n\
             contexts:\n- name: sandbox\n  context:\n    cluster: sandbox\n    user: sandbox\n\
             current-context: sandbox\n"
        )
    }

    /// Simulated AWS account of the cluster, through the ports of turns.
    pub fn account(&self) -> Ec2 {
        let authority = self.authority_pem.clone();
        Ec2::new(self.shared.clone(), self.tls_url(), authority)
    }

    pub fn now(&self) -> Timestamp {
        self.shared.now()
    }

    /// Runs every component that has work at the present time; under a virtual clock nothing else does.
    pub fn settle(&self) {
        self.shared.write(World::step);
    }

    /// Advances a virtual clock from one due time to the next, so that everything happens at its own time.
    pub fn advance(&self, by: SignedDuration) {
        let clock = &self.shared.clock;
        let end = clock.now().checked_add(by).unwrap_or(Timestamp::MAX);
        loop {
            let due = self.shared.write(World::step);
            let now = clock.now();
            let soonest = now.checked_add(STEP_MIN).unwrap_or(end).min(end);
            let next = due.unwrap_or(end).clamp(soonest, end);
            clock.advance(next.duration_since(now));
            if next == end {
                self.settle();
                return;
            }
        }
    }

    /// Reads or changes the simulation directly.
    pub fn with<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let result = self.shared.write(act);
        self.shared.wake();
        result
    }

    /// Starts a machine that joins as a node after a delay.
    pub fn join_node(&self, join: NodeJoin, delay: SignedDuration) {
        self.with(|world, now| world.join_node(join, delay, now));
    }

    /// Stops the machine of a node, as when its instance ends. Returns whether it existed.
    pub fn stop_machine(&self, name: &str) -> bool {
        self.with(|world, _| world.stop_machine(name))
    }

    /// Adds a fault for coming requests.
    pub fn inject(&self, fault: Fault) {
        lock(&self.shared.faults).push(fault);
    }

    /// Number of faults that no request has met yet.
    pub fn pending_faults(&self) -> usize {
        lock(&self.shared.faults).len()
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        lock(&self.shared.faults).clear();
    }

    /// Ends every watch with a plain end of stream, as servers do at a restart and with clients that fall behind.
    pub fn end_watches(&self) {
        self.shared.watch_ends.send_modify(|count| *count += 1);
    }

    /// Stops serving and waits until the port is free.
    pub async fn stop(mut self) {
        self.halt();
        for task in self.tasks.drain(..) {
            // A task that panicked has reported it on standard error.
            drop(task.await);
        }
    }

    fn halt(&self) {
        self.stop.send_replace(true);
        self.end_watches();
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.halt();
    }
}

async fn serve(listener: Listener, router: axum::Router, mut stopped: watch::Receiver<bool>) {
    let stop = async move {
        // An error means that the sandbox itself was dropped.
        drop(stopped.wait_for(|stopped| *stopped).await);
    };
    // Serving ends only by the signal: accept errors are retried inside.
    drop(
        axum::serve(listener, router)
            .with_graceful_shutdown(stop)
            .await,
    );
}

/// Smallest advance of a virtual clock between two steps.
const STEP_MIN: SignedDuration = SignedDuration::from_millis(1);
/// Time within which writes are batched into one step.
const STEP_DELAY: Duration = Duration::from_millis(5);

/// Advances the simulation in real time: after every write, and when something is due.
async fn drive(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut writes = shared.subscribe();
    loop {
        writes.borrow_and_update();
        let due = shared.write(World::step);
        let wait = due.map_or(Duration::MAX, |due| shared.clock.sleep_until(due));
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            _ = writes.changed() => {}
            () = shared.wake.notified() => {}
            () = tokio::time::sleep(wait.max(STEP_DELAY)) => {}
        }
        tokio::time::sleep(STEP_DELAY).await;
    }
}
