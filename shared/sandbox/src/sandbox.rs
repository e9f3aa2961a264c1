use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    access::UsedAccess,
    clock::WorldClock,
    controllers::NodeJoin,
    ec2::Ec2,
    faults::{Effect, Fault},
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

/// Newest minor version whose behaviour the server follows.
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

/// State shared by requests, controllers and the owner of the sandbox.
#[derive(Debug)]
pub(crate) struct Shared {
    world: Mutex<World>,
    clock: WorldClock,
    credentials: Vec<Credential>,
    accesses: Mutex<BTreeSet<UsedAccess>>,
    faults: Mutex<Vec<Fault>>,
    /// Revision of the last write.
    writes: watch::Sender<u64>,
    watch_ends: watch::Sender<u64>,
    /// Signals changes that are not in the store.
    wake: Notify,
    bookmark_interval: Duration,
    streaming_lists: bool,
    compressed_watches: bool,
    kubernetes_minor: u32,
}

impl Shared {
    fn new(options: SandboxOptions) -> Self {
        let now = options.clock.now();
        Self {
            world: Mutex::new(World::new(&options.world, now)),
            clock: options.clock,
            credentials: options.credentials,
            accesses: Mutex::default(),
            faults: Mutex::new(Vec::new()),
            writes: watch::Sender::new(0),
            watch_ends: watch::Sender::new(0),
            wake: Notify::new(),
            bookmark_interval: options.bookmark_interval,
            streaming_lists: options.streaming_lists,
            compressed_watches: options.compressed_watches,
            kubernetes_minor: options.kubernetes_minor,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&lock(&self.world))
    }

    /// Changes the simulation, and notifies watches if the store changed.
    pub(crate) fn write<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let mut world = lock(&self.world);
        let before = world.server.store.revision();
        let result = act(&mut world, self.clock.now());
        let after = world.server.store.revision();
        drop(world);
        if before != after {
            self.writes.send_replace(after);
        }
        result
    }

    /// Makes the simulation check for work.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    pub(crate) fn record_access(&self, access: UsedAccess) {
        lock(&self.accesses).insert(access);
    }

    pub(crate) fn accesses(&self) -> Vec<UsedAccess> {
        lock(&self.accesses).iter().cloned().collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.writes.subscribe()
    }

    pub(crate) fn watch_ends(&self) -> watch::Receiver<u64> {
        self.watch_ends.subscribe()
    }

    pub(crate) fn bookmark_interval(&self) -> Duration {
        self.bookmark_interval
    }

    pub(crate) fn kubernetes_minor(&self) -> u32 {
        self.kubernetes_minor
    }

    pub(crate) fn streams_lists(&self) -> bool {
        self.streaming_lists
    }

    pub(crate) fn compresses_watches(&self) -> bool {
        self.compressed_watches
    }

    /// Takes the fault that hits this request, if any.
    pub(crate) fn next_fault(
        &self,
        verb: &str,
        resource: &str,
        subresource: Option<&str>,
        name: Option<&str>,
    ) -> Option<Effect> {
        let resource = match subresource {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource.to_owned(),
        };
        let mut faults = lock(&self.faults);
        let fault = faults
            .iter_mut()
            .find(|fault| fault.hits(verb, &resource, name))?;
        fault.times -= 1;
        let effect = fault.effect.clone();
        faults.retain(|fault| fault.times > 0);
        Some(effect)
    }
}

/// A panic elsewhere must not take the sandbox down with it: every change under these locks is complete or absent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
