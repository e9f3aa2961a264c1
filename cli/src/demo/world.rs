//! The whole of Whittle in one process: an embedded cluster and account, the ledger in memory, and turns that run when they are woken.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s::{Access, Credentials, KubeCluster};
use model::{ClusterName, InstanceType, Lane, NanosPerHour, launch::Instance};
use ports::{
    Clock, Cluster, ClusterError, Clusters, Metric, Metrics, Registry, RegistryError,
    registry::RegistryEntry,
};
use sandbox::{
    Credential, Sandbox, SandboxOptions, WorldClock, WorldOptions,
    ec2::{AccountOptions, handle::Ec2},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use super::{
    audience::{Message, MessageSender, send_message},
    kubectl::Kubectl,
    lanes::{self, Queue},
    picture::{Picture, Priced},
    relay,
};

/// Name of the cluster and of its registry entry, and tag value of its subnets.
pub(super) const CLUSTER: &str = "demo";
const LEASE_NAMESPACE: &str = "kube-system";
/// Time from an instance's launch to its node's registration.
const BOOT: SignedDuration = SignedDuration::from_secs(30);

/// Identities of functions in the cluster, and objects that exist besides Karpenter's CRDs.
#[derive(Default)]
pub(super) struct Identities {
    /// Credentials by lane; other lanes are the cluster's administrator.
    pub(super) of_lanes: BTreeMap<Lane, Credential>,
    pub(super) manifests: Vec<Value>,
    /// Settings of the registry entry.
    pub(super) settings: serde_json::Map<String, Value>,
}

/// A running world. Dropping it stops everything.
pub(super) struct World {
    sandbox: Sandbox,
    clock: WorldClock,
    client: k8s::Client,
    kubectl: Kubectl,
    pictures: watch::Receiver<Arc<Picture>>,
    #[cfg(test)]
    worlds: lanes::Worlds,
    tasks: JoinSet<()>,
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
        let cluster_of =
            |client| -> Arc<dyn Cluster> { Arc::new(KubeCluster::new(client, LEASE_NAMESPACE)) };
        let mut clusters: BTreeMap<Lane, Arc<dyn Clusters>> = BTreeMap::new();
        for (lane, credential) in &identities.of_lanes {
            let cluster = cluster_of(client_of(&credential.token)?);
            clusters.insert(*lane, Arc::new(Connected(cluster)));
        }
        let api = cluster_of(client.clone());
        let account = Arc::new(sandbox.account());
        let queue = Arc::new(Queue::new(clock.clone()));
        let memory = Arc::new(fakes::Sim::new(CLUSTER));
        let world = turns::World {
            cloud: account.clone(),
            upkeep: account.clone(),
            ledger: memory.clone(),
            journal: memory.clone(),
            archive: memory,
            // The demo's cluster sends no notifications.
            notifier: Arc::new(fakes::Sim::new(CLUSTER)),
            wakes: queue.clone(),
            clock: Arc::new(SharedClock(clock.clone())),
            catalog: account.clone(),
            node_classes: account.clone(),
            launches: account.clone(),
            registry: Arc::new(OneCluster(json!({
                "type": "endpoint", "endpoint": sandbox.url(), "reach": "public", "mode": "active",
                "settings": identities.settings,
            }))),
            clusters: Arc::new(Connected(api.clone())),
            metrics: Arc::new(DroppedMetrics),
            holder: "whittle/000000000000/us-east-1/demo".to_owned(),
            share: turns::Share::TURN,
            views: Arc::default(),
            heartbeats: Arc::default(),
            reach: turns::PUBLIC.to_owned(),
        };
        let (sender, pictures) = watch::channel(Arc::new(Picture::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(take_pictures(
            api,
            account,
            clock.clone(),
            sender,
            message_sender.clone(),
        ));
        let worlds = lanes::Worlds::new(world, clusters);
        // The first sweep registers the cluster: no wake comes before it.
        lanes::sweep(&worlds, &clock, &message_sender).await;
        tasks.spawn(relay::relay(pictures.clone(), queue.clone()));
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
            pictures,
            tasks,
        })
    }

    pub(super) fn client(&self) -> k8s::Client {
        self.client.clone()
    }

    pub(super) fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    pub(super) fn kubeconfig_yaml(&self) -> String {
        self.sandbox.kubeconfig_yaml()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The world of a lane's function.
    #[cfg(test)]
    pub(super) fn of(&self, lane: Lane) -> turns::World {
        self.worlds.of(lane)
    }

    #[cfg(test)]
    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Limits a capacity pool of the account: with 0 it answers with insufficient capacity.
    #[cfg(test)]
    pub(super) fn set_capacity(&self, pool: sandbox::ec2::Pool, instances: u32) {
        self.sandbox
            .account()
            .with(|account, _, _| account.set_capacity(pool, instances));
    }

    /// Upgrades the control plane.
    #[cfg(test)]
    pub(super) fn upgrade_kubernetes(&self, version: &str) {
        self.sandbox
            .account()
            .with(|account, _, _| account.upgrade_kubernetes(version));
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

/// Interval between pictures.
const PICTURE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(150);

async fn take_pictures(
    api: Arc<dyn Cluster>,
    account: Arc<Ec2>,
    clock: WorldClock,
    pictures: watch::Sender<Arc<Picture>>,
    message_sender: MessageSender,
) {
    loop {
        // A cluster that does not answer is observed again later.
        if let Ok(picture) = picture(&*api, &account, &clock).await {
            let picture = Arc::new(picture);
            // The picture is printed before any turn acts on it.
            send_message(&message_sender, Message::Picture(picture.clone()));
            pictures.send_replace(picture);
        }
        tokio::time::sleep(PICTURE_INTERVAL).await;
    }
}

async fn picture(
    api: &dyn Cluster,
    account: &Ec2,
    clock: &WorldClock,
) -> Result<Picture, ClusterError> {
    let (classes, pools, claims, nodes, pods) = tokio::try_join!(
        api.node_classes(),
        api.node_pools(),
        api.node_claims(),
        api.nodes(),
        api.pods(),
    )?;
    let ready = classes
        .items
        .iter()
        .filter(|class| turns::readiness(class).is_ok());
    let ready = ready.map(|class| class.metadata.name.clone()).collect();
    let classes = classes.items.into_iter().map(|class| class.metadata);
    let pools = pools.items.into_iter().map(|pool| pool.metadata);
    let asked_for = classes.chain(pools);
    let (instances, hourly, spent_nanos) = account.with(|account, _, now| {
        let priced = |instance: &Instance| Priced {
            instance: instance.clone(),
            price: account.price(&instance.id).unwrap_or(NanosPerHour(0)),
        };
        (
            account.instances().map(priced).collect(),
            account.hourly_cost(),
            account.spent_nanos(now),
        )
    });
    Ok(Picture {
        at: clock.now(),
        asked_for: asked_for
            .map(|metadata| (metadata.uid, metadata.generation))
            .collect(),
        ready,
        claims,
        nodes: nodes
            .into_iter()
            .map(|node| (node.name.clone(), node))
            .collect(),
        pods,
        instances,
        hourly,
        spent_nanos,
    })
}

struct SharedClock(WorldClock);

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A registry with one entry.
struct OneCluster(Value);

#[async_trait]
impl Registry for OneCluster {
    async fn entries(&self) -> Result<Vec<RegistryEntry>, RegistryError> {
        Ok(vec![RegistryEntry {
            cluster: CLUSTER.into(),
            body: Ok(self.0.clone()),
        }])
    }
}

/// Metrics that are dropped: the demo shows events instead.
struct DroppedMetrics;

impl Metrics for DroppedMetrics {
    fn publish(&self, _: Option<&ClusterName>, _: Timestamp, _: &[Metric]) {}
}

/// A cluster with an open connection.
struct Connected(Arc<dyn Cluster>);

#[async_trait]
impl Clusters for Connected {
    async fn connect(&self, _: &ClusterName, _: &Value) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(self.0.clone())
    }
}
