//! Snapshot of a running cluster, read from its API server as a turn reads it, but without the ledger.

mod source;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::names::group;
use jiff::Timestamp;
use k8s::{ContextClient, ContextSelection, KubeCluster};
use model::{
    InstanceType, NodePoolName, Snapshot, node_pool::NodePool, share_shapes, snapshot::Settings,
};
use ports::Cluster;
use turns::{
    gated::{self, Gated},
    selectors,
};

use self::source::Source;
pub(crate) use self::source::offered;
use crate::{
    classes, cluster,
    progress::Progress,
    regions::{self, Catalog},
};

/// Fills the snapshot. Every NodePool may use the catalog's types in the zones of its EC2NodeClass's subnets; without a catalog EC2 is
/// queried, in builds with AWS. Returns warnings for the user.
pub(crate) fn observe(
    selection: &ContextSelection,
    snapshot: &mut Snapshot,
    catalog: &Catalog,
) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _progress = Progress::of("Reading the cluster");
    runtime.block_on(async {
        let ContextClient { context, client } = k8s::from_kubeconfig(selection).await?;
        let (source, mut problems) = Source::of(catalog, snapshot.now).await?;
        let live = Live::new(client, source);
        let read = live.observe(snapshot).await;
        problems
            .extend(read.with_context(|| format!("cannot read the cluster of context {context}"))?);
        Ok(problems)
    })
}

/// A cluster that can be observed repeatedly.
pub(crate) struct Live {
    cluster: KubeCluster,
    source: Source,
    /// Warnings about instance types and prices.
    notes: Vec<String>,
}

impl Live {
    fn new(client: k8s::Client, source: Source) -> Self {
        Self {
            // The Lease is irrelevant, because the cluster is only read.
            cluster: KubeCluster::new(client, "kube-system"),
            source,
            notes: Vec::new(),
        }
    }

    pub(crate) fn of_table(client: k8s::Client, types: Vec<InstanceType>) -> Self {
        Self::new(client, Source::Table(types))
    }

    /// Connects without a catalog: uses the types that EC2 offers where it can be queried, and else those of us-east-1.
    pub(crate) async fn lenient(
        client: k8s::Client,
        catalog: &Catalog,
        now: Timestamp,
    ) -> Result<Self> {
        let (source, notes) = Source::of(catalog, now).await?;
        Ok(Self {
            notes,
            ..Self::new(client, source.or_table())
        })
    }

    /// Fills the snapshot; returns warnings for the user.
    pub(crate) async fn observe(&self, snapshot: &mut Snapshot) -> Result<Vec<String>> {
        let mut problems = self.notes.clone();
        problems.extend(read(&self.cluster, snapshot, &self.source).await?);
        Ok(problems)
    }
}

async fn read(api: &KubeCluster, snapshot: &mut Snapshot, source: &Source) -> Result<Vec<String>> {
    let (
        pods,
        nodes,
        claims,
        pools,
        node_classes,
        daemon_sets,
        namespaces,
        budgets,
        storage,
        (selectors, refused),
        gated,
    ) = tokio::try_join!(
        api.pods(),
        api.nodes(),
        api.node_claims(),
        api.node_pools(),
        api.node_classes(),
        api.daemon_sets(),
        api.namespaces(),
        api.disruption_budgets(),
        api.storage(),
        selectors::read(api, &snapshot.settings),
        gated::read(api, &snapshot.settings),
    )?;
    snapshot.pods = pods;
    share_shapes(&mut snapshot.pods);
    snapshot.nodes = nodes;
    snapshot.node_claims = claims;
    snapshot.daemon_sets = daemon_sets;
    snapshot.namespaces = namespaces;
    snapshot.disruption_budgets = budgets;
    snapshot.storage = storage;
    snapshot.services = selectors.services;
    snapshot.workloads = selectors.workloads;
    let mut problems = gated.warnings.clone();
    problems.extend(refused);
    if snapshot.settings.device_claims {
        problems.extend(turns::devices::read(api, snapshot).await?);
    }
    // Objects without an effect are reported; reading them may be forbidden.
    let idle = gated::read(api, &with_gates_turned(&snapshot.settings)).await;
    let idle = idle.unwrap_or_else(|error| {
        problems.push(format!(
            "what is behind feature gates that are off is left out: {error}"
        ));
        Gated::default()
    });
    let mut previews = Vec::new();
    for gated in [gated, idle] {
        previews.extend(gated.for_previews());
        let (overlays, buffers) = gated.for_snapshot();
        snapshot.node_overlays.extend(overlays);
        snapshot.capacity_buffers.extend(buffers);
        problems.extend(gated.overlays.iter().flat_map(cluster::wrong));
        let buffers = gated.buffers.iter();
        problems.extend(
            buffers.filter_map(|buffer| cluster::unresolved(&buffer.shape, &buffer.resolved)),
        );
    }
    problems.extend(cluster::behind_gates(snapshot));
    problems.extend(pools.unreadable.iter().map(|pool| {
        format!(
            "NodePool {} cannot be read and is left out: {}",
            pool.name, pool.message
        )
    }));
    problems.extend(node_classes.unreadable.iter().map(|class| {
        let (name, message) = (&class.name, &class.message);
        format!("EC2NodeClass {name} cannot be read and is left out: {message}")
    }));
    let zones = regions::of_cluster(&node_classes.items, &snapshot.nodes);
    for pool in pools.items {
        let reference = &pool.spec.template.spec.node_class_ref;
        if reference.group != group::KARPENTER_AWS {
            continue;
        }
        let name = reference.name.clone();
        let class = node_classes
            .items
            .iter()
            .find(|class| class.metadata.name == name);
        let mut pool = NodePool::from(pool);
        let usable = match class {
            None => Err(format!("EC2NodeClass {name} does not exist")),
            Some(class) => turns::readiness(class),
        };
        if let Err(reason) = usable {
            pool.not_ready.get_or_insert(reason);
        }
        let offered = match class.filter(|_| pool.not_ready.is_none()) {
            Some(class) => {
                let types = source.types(class, &zones, &mut problems).await?;
                let types = classes::with_devices(types, class, &snapshot.settings);
                planner::priced_previews(&snapshot.settings, &previews, types)
            }
            None => Arc::default(),
        };
        if let Some(class) = class {
            pool.volume_price = classes::volume_price(&offered, class);
            pool.refused_resources = class.spec.refused_resources();
            pool.images = class.boot_images();
        }
        if offered.is_empty() && pool.not_ready.is_none() {
            problems.push(elsewhere(&pool.name, &name));
        }
        snapshot.instance_types.insert(pool.name.clone(), offered);
        snapshot.node_pools.push(pool);
    }
    Ok(problems)
}

/// These settings with every feature gate inverted.
fn with_gates_turned(settings: &Settings) -> Settings {
    let mut turned = settings.clone();
    for gate in [gated::NODE_OVERLAY, gated::CAPACITY_BUFFER] {
        let is_on = settings.feature_gates.get(gate) == Some(&true);
        turned.feature_gates.insert(gate.to_owned(), !is_on);
    }
    turned
}

fn elsewhere(pool: &NodePoolName, class: &str) -> String {
    format!(
        "NodePool {pool}: no instance type is known in a zone of EC2NodeClass {class}; \
         --catalog names the types of another Region"
    )
}
