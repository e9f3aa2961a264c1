//! A running cluster, as its API server has it: the snapshot that a turn would plan from, but for what the ledger knows.

#[cfg(feature = "aws")]
use std::sync::OnceLock;
use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result};
use api::{EC2NodeClass, names::group};
use jiff::Timestamp;
use k8s::KubeCluster;
use model::{
    InstanceType, NodePoolName, Snapshot, node_pool::NodePool, share_shapes, snapshot::Settings,
};
use ports::Cluster;
use turns::{
    gated::{self, Gated},
    selectors,
};

use crate::{classes, cluster};

/// Fills the snapshot. Every NodePool may use those of `types` that its EC2NodeClass has subnets for; without them EC2 is
/// asked, where this program is built to. Returns what users should know of that.
pub(crate) fn observe(
    context: &str,
    snapshot: &mut Snapshot,
    types: Option<Vec<InstanceType>>,
) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = k8s::from_kubeconfig(context).await?;
        let (source, mut problems) = match types {
            Some(types) => (Source::Table(types), Vec::new()),
            None => Source::unless_given(snapshot.now).await?,
        };
        let live = Live::new(client, source);
        let read = live.observe(snapshot).await;
        problems
            .extend(read.with_context(|| format!("cannot read the cluster of context {context}"))?);
        Ok(problems)
    })
}

/// A cluster that may be looked at more than once.
pub(crate) struct Live {
    cluster: KubeCluster,
    source: Source,
    /// What is the matter with instance types and prices.
    notes: Vec<String>,
}

impl Live {
    fn new(client: k8s::Client, source: Source) -> Self {
        Self {
            // The Lease is not looked at: nothing is done to the cluster.
            cluster: KubeCluster::new(client, "kube-system"),
            source,
            notes: Vec::new(),
        }
    }

    pub(crate) fn of_table(client: k8s::Client, types: Vec<InstanceType>) -> Self {
        Self::new(client, Source::Table(types))
    }

    /// Without types, those that EC2 offers where it can be asked, and else those of us-east-1.
    pub(crate) async fn lenient(
        client: k8s::Client,
        types: Option<Vec<InstanceType>>,
        now: Timestamp,
    ) -> Result<Self> {
        if let Some(types) = types {
            return Ok(Self::of_table(client, types));
        }
        let (source, notes) = Source::unless_given(now).await?;
        Ok(Self {
            notes,
            ..Self::new(client, source.or_table()?)
        })
    }

    /// Fills the snapshot; returns what users should know of that.
    pub(crate) async fn observe(&self, snapshot: &mut Snapshot) -> Result<Vec<String>> {
        let mut problems = self.notes.clone();
        problems.extend(read(&self.cluster, snapshot, &self.source).await?);
        Ok(problems)
    }
}

/// Where instance types come from.
enum Source {
    Table(Vec<InstanceType>),
    #[cfg(feature = "aws")]
    Region(Box<crate::aws::Region>),
    /// The table, once EC2 has refused, and why it did.
    #[cfg(feature = "aws")]
    RegionOrTable(Box<crate::aws::Region>, Vec<InstanceType>, OnceLock<String>),
}

impl Source {
    #[cfg(feature = "aws")]
    async fn unless_given(now: Timestamp) -> Result<(Self, Vec<String>)> {
        let (region, problems) = crate::aws::Region::connect(now).await;
        Ok((Self::Region(Box::new(region)), problems))
    }

    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unused_async, reason = "as where EC2 is asked")]
    async fn unless_given(_: Timestamp) -> Result<(Self, Vec<String>)> {
        let note = "instance types and prices are those of us-east-1: --catalog names others, and a build with \
                    `--features aws` asks EC2";
        let table = crate::catalogs::us_east_1()?;
        Ok((Self::Table(table), vec![note.to_owned()]))
    }

    #[cfg_attr(
        not(feature = "aws"),
        expect(clippy::unnecessary_wraps, reason = "as where EC2 is asked")
    )]
    fn or_table(self) -> Result<Self> {
        Ok(match self {
            #[cfg(feature = "aws")]
            Self::Region(region) => {
                Self::RegionOrTable(region, crate::catalogs::us_east_1()?, OnceLock::new())
            }
            other => other,
        })
    }

    #[cfg_attr(
        not(feature = "aws"),
        expect(
            clippy::ptr_arg,
            unused_variables,
            reason = "only AWS can refuse to answer"
        )
    )]
    async fn types(
        &self,
        class: &EC2NodeClass,
        problems: &mut Vec<String>,
    ) -> Result<Arc<Vec<InstanceType>>> {
        match self {
            Self::Table(types) => Ok(Arc::new(offered(types, class))),
            #[cfg(feature = "aws")]
            Self::Region(region) => region.instance_types(class).await,
            #[cfg(feature = "aws")]
            Self::RegionOrTable(region, table, refused) => {
                let why = match refused.get() {
                    Some(why) => why,
                    None => match region.instance_types(class).await {
                        Ok(types) => return Ok(types),
                        Err(error) => refused.get_or_init(|| format!("{error:#}")),
                    },
                };
                let note = format!(
                    "instance types and prices are those of us-east-1, because EC2 refuses: {why}"
                );
                if !problems.contains(&note) {
                    problems.push(note);
                }
                Ok(Arc::new(offered(table, class)))
            }
        }
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
    let mut problems = gated.complaints.clone();
    problems.extend(refused);
    if snapshot.settings.device_claims {
        problems.extend(turns::devices::read(api, snapshot).await?);
    }
    // What has no effect is told of, and needs no right to read it.
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
        problems.extend(buffers.filter_map(|one| cluster::unresolved(&one.shape, &one.resolved)));
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
                let types = source.types(class, &mut problems).await?;
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

/// These settings, but the gates that are on are off, and those that are off on.
fn with_gates_turned(settings: &Settings) -> Settings {
    let mut turned = settings.clone();
    for gate in [gated::NODE_OVERLAY, gated::CAPACITY_BUFFER] {
        let is_on = settings.feature_gates.get(gate) == Some(&true);
        turned.feature_gates.insert(gate.to_owned(), !is_on);
    }
    turned
}

/// The types with an offering in a zone of the NodeClass's subnets.
pub(crate) fn offered(types: &[InstanceType], class: &EC2NodeClass) -> Vec<InstanceType> {
    let subnets = class
        .status
        .as_ref()
        .and_then(|status| status.subnets.as_ref());
    let zones: BTreeSet<&str> = subnets
        .into_iter()
        .flatten()
        .map(|subnet| subnet.zone.as_str())
        .collect();
    let mut offered = types.to_vec();
    for kind in &mut offered {
        kind.offerings
            .retain(|offering| zones.contains(offering.zone.as_str()));
    }
    offered.retain(|kind| !kind.offerings.is_empty());
    offered
}

fn elsewhere(pool: &NodePoolName, class: &str) -> String {
    format!(
        "NodePool {pool}: no instance type is known in a zone of EC2NodeClass {class}; \
         --catalog names the types of another Region"
    )
}
