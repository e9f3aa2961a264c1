//! The whole of Whittle in one process: an embedded cluster and account, the ledger in memory, and turns that run when they are woken.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s::{Access, Credentials, KubeCluster};
use model::{InstanceType, ledger::Mode};
use ports::Cluster;
use sandbox::{Sandbox, SandboxOptions, WorldClock, WorldOptions, ec2::AccountOptions};
use serde_json::json;
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet};

use super::{
    audience::MessageSender,
    identities::Identities,
    karpenter,
    kubectl::Kubectl,
    lanes::{self, Queue},
    names::{CLUSTER, LEASE_NAMESPACE},
    notices,
    observation::take_pictures,
    picture::Picture,
    ports::{Connected, DroppedMetrics, OneCluster, SharedClock},
    relay,
    script::manifest,
};
use crate::journal::Directory;

/// Name of the kubeconfig in the world's directory.
pub(super) const KUBECONFIG: &str = "kubeconfig.yaml";
/// NodePool in the world's directory with which recorded turns are planned again.
pub(super) const CHANGED: &str = "on-demand.yaml";
/// Writes kept for watches by kind. NodeClaims are the largest objects with about 12 kB.
const HISTORY_LIMIT: usize = 1_024;
/// Time from an instance's launch to its node's registration, in simulated time.
pub(super) const BOOT: SignedDuration = SignedDuration::from_secs(30);

/// A running world. Dropping it stops everything.
pub(super) struct World {
    sandbox: Sandbox,
    clock: WorldClock,
    client: k8s::Client,
    kubectl: Kubectl,
    registry: Arc<OneCluster>,
    memory: Arc<fakes::Sim>,
    /// Journal, kubeconfig, and a changed NodePool to plan again with.
    directory: TempDir,
    pictures: watch::Receiver<Arc<Picture>>,
    #[cfg(test)]
    worlds: lanes::Worlds,
    tasks: JoinSet<()>,
    /// Renews the Lease of a running Karpenter.
    karpenter: Mutex<JoinSet<()>>,
}

impl World {
    /// Starts a world with this catalog; `message_sender` receives the results of turns and the pictures.
    pub(super) async fn start(
        catalog: Arc<Vec<InstanceType>>,
        clock: WorldClock,
        message_sender: MessageSender,
    ) -> Result<Self> {
        Self::start_as(catalog, clock, message_sender, Identities::default()).await
    }

    /// Starts a world with functions that act as these identities.
    pub(super) async fn start_as(
        catalog: Arc<Vec<InstanceType>>,
        clock: WorldClock,
        message_sender: MessageSender,
        identities: Identities,
    ) -> Result<Self> {
        let account = AccountOptions {
            boot: BOOT,
            ..AccountOptions::us_east_1(catalog, CLUSTER)
        };
        let mut options = SandboxOptions {
            world: WorldOptions {
                account,
                history_limit: HISTORY_LIMIT,
                ..WorldOptions::default()
            },
            clock: clock.clone(),
            ..SandboxOptions::default()
        };
        let members = identities.of_lanes.values();
        options.credentials.extend(members.cloned());
        let sandbox = Sandbox::start(options)
            .await
            .context("cannot start the simulated cluster")?;
        let client_of = |token: &str| {
            let access = Access {
                endpoint: sandbox.url(),
                certificate_authority: None,
                credentials: Credentials::BearerToken(token.into()),
            };
            access.client()
        };
        let client = client_of(sandbox.token())?;
        let kubectl = Kubectl::new(client.clone());
        // CRDs exist before the first wake, as with the chart.
        for crd in api::schema::crds() {
            kubectl.apply_one(&crd.manifest).await?;
        }
        sandbox.install(&identities.manifests)?;
        let clusters = identities.clusters(client_of)?;
        let api: Arc<dyn Cluster> = Arc::new(KubeCluster::new(client.clone(), LEASE_NAMESPACE));
        let account = Arc::new(sandbox.account());
        let queue = Arc::new(Queue::new(clock.clone()));
        let memory = Arc::new(fakes::Sim::new(CLUSTER));
        let directory = tempfile::Builder::new().prefix("whittle-demo-").tempdir();
        let directory = directory.context("cannot make a directory for the journal")?;
        std::fs::write(directory.path().join(KUBECONFIG), sandbox.kubeconfig_yaml())
            .context("cannot write a kubeconfig")?;
        let changed = directory.path().join(CHANGED);
        std::fs::write(changed, manifest(CHANGED)?).context("cannot write a manifest")?;
        let journal = Arc::new(Directory::create(directory.path(), &CLUSTER.into())?);
        let registry = Arc::new(OneCluster::new(json!({
            "type": "endpoint", "endpoint": sandbox.url(), "reach": "public", "mode": "active",
            "settings": identities.settings,
        })));
        let world = turns::World {
            cloud: account.clone(),
            upkeep: account.clone(),
            ledger: memory.clone(),
            journal: journal.clone(),
            archive: journal,
            // The demo's cluster sends no notifications.
            notifier: Arc::new(fakes::Sim::new(CLUSTER)),
            wakes: queue.clone(),
            clock: Arc::new(SharedClock(clock.clone())),
            catalog: account.clone(),
            node_classes: account.clone(),
            launches: account.clone(),
            registry: registry.clone(),
            clusters: Arc::new(Connected(api.clone())),
            metrics: Arc::new(DroppedMetrics),
            holder: format!("whittle/{}/us-east-1/demo", sandbox::ec2::ACCOUNT),
            share: turns::Share::TURN,
            views: Arc::default(),
            heartbeats: Arc::default(),
            reach: turns::PUBLIC.to_owned(),
        };
        let (sender, pictures) = watch::channel(Arc::new(Picture::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(take_pictures(
            api,
            account.clone(),
            clock.clone(),
            sender,
            message_sender.clone(),
        ));
        let worlds = lanes::Worlds::new(world, clusters);
        // The first sweep registers the cluster: no wake comes before it.
        lanes::sweep(&worlds, &clock, &message_sender).await;
        tasks.spawn(relay::relay(pictures.clone(), queue.clone()));
        tasks.spawn(notices::deliver_announcements(
            worlds.clone(),
            account,
            pictures.clone(),
            clock.clone(),
            message_sender.clone(),
        ));
        tasks.spawn(lanes::serve(
            worlds.clone(),
            queue,
            clock.clone(),
            message_sender.clone(),
        ));
        tasks.spawn(lanes::sweeps(worlds.clone(), clock.clone(), message_sender));
        Ok(Self {
            sandbox,
            #[cfg(test)]
            worlds,
            clock,
            client,
            kubectl,
            registry,
            memory,
            directory,
            pictures,
            tasks,
            karpenter: Mutex::default(),
        })
    }

    pub(super) fn client(&self) -> k8s::Client {
        self.client.clone()
    }

    pub(super) fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Directory of the journal, the kubeconfig and a changed NodePool.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The world of a lane's function.
    #[cfg(test)]
    pub(super) fn of(&self, lane: model::Lane) -> turns::World {
        self.worlds.of(lane)
    }

    #[cfg(test)]
    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Names of the Region's zones.
    pub(super) fn zones(&self) -> Vec<String> {
        let account = self.sandbox.account();
        account.with(|account, _, _| account.options.zones.keys().cloned().collect())
    }

    /// Limits a capacity pool of the account: with 0 it answers with insufficient capacity.
    pub(super) fn set_capacity(&self, pool: sandbox::ec2::Pool, instances: u32) {
        self.sandbox
            .account()
            .with(|account, _, _| account.set_capacity(pool, instances));
    }

    /// Upgrades the control plane.
    pub(super) fn upgrade_kubernetes(&self, version: &str) {
        self.sandbox
            .account()
            .with(|account, _, _| account.upgrade_kubernetes(version));
    }

    /// Sets the mode of the registry entry; the next sweep reads it.
    pub(super) fn set_mode(&self, mode: Mode) {
        self.registry.set_mode(mode);
    }

    /// Turns the nodes into those of a Karpenter that leads: removes all that Whittle remembers and recorded of them, and lets Karpenter
    /// hold the Lease.
    pub(super) fn start_karpenter(&self) -> Result<()> {
        self.memory.with(|world| {
            let rows = world.ledger.of(&CLUSTER.into());
            rows.intents.clear();
            rows.calls.clear();
            rows.claims.clear();
            rows.commands.clear();
            world.ledger.owners.clear();
        });
        let launch = api::names::tag::LAUNCH;
        self.sandbox
            .account()
            .with(|account, _, _| account.remove_tag(launch));
        let lead = karpenter::lead(self.cluster(), self.clock.clone());
        self.karpenter().spawn(lead);
        let journal = Directory::open(self.directory())?;
        Ok(journal.remove_records(&CLUSTER.into())?)
    }

    /// Scales Karpenter to zero: it gives up its Lease.
    pub(super) async fn stop_karpenter(&self) -> Result<()> {
        let mut tasks = std::mem::take(&mut *self.karpenter());
        tasks.shutdown().await;
        Ok(karpenter::give_up(&self.cluster(), &self.clock).await?)
    }

    fn karpenter(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.karpenter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn cluster(&self) -> KubeCluster {
        KubeCluster::new(self.client(), LEASE_NAMESPACE)
    }

    /// Pictures of the world, a few times a second.
    pub(super) fn pictures(&self) -> watch::Receiver<Arc<Picture>> {
        self.pictures.clone()
    }

    /// Stops everything, and waits for it.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.sandbox.stop().await;
    }
}
