//! Reads of a turn, and the snapshot made of them.

pub mod devices;
pub mod gated;
pub(crate) mod node_class;
pub(crate) mod notices;
pub mod selectors;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{EC2NodeClass, NodePool, names::group};
use executor::ResolvedNodeClass;
use jiff::Timestamp;
use model::{
    Experience, InstanceId, InstanceType, NodeClassName, NodePoolName, Snapshot, Warning,
    caps::Caps,
    devices::DeviceObjects,
    ledger::{Notice, Pause, PauseLevel, RelayCounter},
    node_claim::{NodeClaim, NodeClassRef},
    plan::Expected,
    share_shapes,
};
use ports::{CloudError, cluster::Unreadable};

use self::gated::Gated;
use crate::{TurnError, context::Turn, report::events, settings::shadow_mode};

/// Everything that a turn read.
pub(crate) struct Observed {
    pub(crate) snapshot: Snapshot,
    pub(crate) counter: RelayCounter,
    /// Version of the relay's view that the pods come from; `None` if the API server was read.
    pub(crate) view: Option<u64>,
    /// NodePools that name an EC2NodeClass, as the API server returns them.
    pub(crate) node_pools: Vec<NodePool>,
    pub(crate) unreadable_pools: Vec<Unreadable>,
    pub(crate) node_classes: Vec<EC2NodeClass>,
    /// NodeClasses whose instance types are known.
    pub(crate) classes: BTreeMap<NodeClassName, ResolvedNodeClass>,
    pub(crate) experience: Experience,
    pub(crate) problems: Vec<String>,
    pub(crate) price_warnings: Vec<String>,
    /// Reason why the relay's view was not used although there is one.
    pub(crate) view_problem: Option<String>,
    pub(crate) gated: Gated,
    /// Instances that seem to have ended because EC2 does not list them: their termination is requested before they are
    /// believed gone.
    pub(crate) missing_in_ec2: BTreeSet<InstanceId>,
    /// Recorded notices that cannot be about the instances that they name.
    pub(crate) refuted: Vec<Notice>,
}

/// Pods that a lane reads. The list of all pods is by far a turn's most expensive read, so it is left out if it cannot
/// matter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodScope {
    All,
    /// All pods, possibly from the relay's view: for decisions that are validated against the API server before anything ends.
    AsPublished,
    /// All pods once a pod needs a new node, capacity is reserved or a node is being removed, else none. Possibly from the
    /// relay's view: launches read their pods again.
    IfAnyMoves,
    /// All pods once a node is being removed, else none.
    IfAnyLeaves,
}

/// Reads the cluster, in the order that makes it safe to act on (docs/protocol.md#o1): generation, relay counters, ledger,
/// lists.
pub(crate) async fn observe(turn: &Turn<'_>, pods: PodScope) -> Result<Observed, TurnError> {
    let ledger = &turn.world.ledger;
    let cluster = turn.cluster;
    let now = turn.world.clock.now();
    let meta = ledger.meta(cluster).await?;
    let meta = meta.unwrap_or_else(|| turn.meta.clone());
    let (generation, mut pauses) = (meta.generation, meta.pauses);
    let beat = ledger.relay_beat(cluster).await?.unwrap_or_default();
    let (intents, commands, notices, nominated, experience) = tokio::try_join!(
        ledger.intents(cluster),
        ledger.commands(cluster),
        ledger.notices(cluster),
        ledger.nominations(cluster, now),
        ledger.experience(cluster, now),
    )?;
    let mut nominated_claims = BTreeMap::new();
    let nominated = nominated
        .into_iter()
        .filter_map(|(expected, until)| match expected {
            Expected::Node(name) => Some((name, until)),
            Expected::NodeClaim(name) => {
                nominated_claims.insert(name, until);
                None
            }
        })
        .collect();

    let api = &turn.api;
    let (viewed, view_problem) = match pods {
        PodScope::AsPublished | PodScope::IfAnyMoves => match views::read(turn, &beat).await {
            Ok(viewed) => (viewed, None),
            Err(problem) => (None, Some(problem)),
        },
        PodScope::All | PodScope::IfAnyLeaves => (None, None),
    };
    let reads_all_pods = match pods {
        _ if viewed.is_some() => true,
        PodScope::All | PodScope::AsPublished => true,
        PodScope::IfAnyMoves => api
            .unassigned_pods()
            .await?
            .iter()
            .any(planner::is_provisionable),
        PodScope::IfAnyLeaves => false,
    };
    let places_pods = pods == PodScope::IfAnyMoves;
    let (counter, version) = match &viewed {
        Some(viewed) => (viewed.counter.clone(), Some(viewed.version)),
        None => (beat.counter(turn.lane), None),
    };
    let all_pods = async {
        match viewed {
            Some(viewed) => Ok(viewed.pods),
            None if reads_all_pods => api.pods().await,
            None => Ok(Vec::new()),
        }
    };
    let (
        pods,
        nodes,
        node_claims,
        pools,
        node_classes,
        daemon_sets,
        namespaces,
        disruption_budgets,
        storage,
        (selectors, refused_selectors),
        gated,
    ) = tokio::try_join!(
        all_pods,
        api.nodes(),
        api.node_claims(),
        api.node_pools(),
        api.node_classes(),
        api.daemon_sets(),
        api.namespaces(),
        api.disruption_budgets(),
        api.storage(),
        selectors::observe(turn),
        gated::observe(turn),
    )?;

    let price_warnings = turn.world.catalog.price_warnings().await;
    let unreadable = node_classes.unreadable.iter();
    let mut problems: Vec<String> = unreadable
        .map(|class| {
            format!(
                "EC2NodeClass {} cannot be read: {}",
                class.name, class.message
            )
        })
        .collect();
    problems.extend(refused_selectors);
    let node_classes = node_classes.items;
    pauses.extend(shadow_mode::pauses(&pools, now));
    let node_pools: Vec<NodePool> = pools.items.into_iter().filter(is_ours).collect();
    let unreadable_pools = pools.unreadable;
    let wanted = wanted_classes(&node_pools, &node_claims);
    let mut classes = class_facts(turn, &wanted, &node_classes, &experience, &mut problems).await?;
    let (node_overlays, capacity_buffers) = gated.for_snapshot();
    let pricing = gated.for_previews();
    for facts in classes.values_mut() {
        let types = Arc::clone(&facts.types);
        facts.types = planner::priced_previews(&turn.entry.settings, &pricing, types);
    }
    let pools: Vec<model::node_pool::NodePool> = node_pools
        .iter()
        .map(|pool| with_readiness(pool.clone().into(), &node_classes, &classes))
        .map(|pool| {
            let class = classes.get(&pool.template.node_class.name);
            let price = class.map(|class| turn.world.catalog.volume_price(&class.object));
            let refused = class.map(|class| class.object.spec.refused_resources());
            let images = class.map(|class| class.object.boot_images());
            model::node_pool::NodePool {
                volume_price: price.unwrap_or_default(),
                refused_resources: refused.unwrap_or_default(),
                images: images.unwrap_or_default(),
                ..pool
            }
        })
        .map(|pool| with_pauses(pool, &pauses, now))
        .collect();
    let instance_types: BTreeMap<NodePoolName, Arc<Vec<InstanceType>>> = pools
        .iter()
        .filter_map(|pool| {
            Some((
                pool.name.clone(),
                classes.get(&pool.template.node_class.name)?.types.clone(),
            ))
        })
        .collect();
    let (notices, refuted) = notices::split_refuted(notices, &node_claims);
    let mut snapshot = Snapshot {
        now,
        cluster: cluster.clone(),
        generation,
        settings: turn.entry.settings.clone(),
        node_pools: pools,
        instance_types,
        // A launch whose NodeClaim shows its instance counts only as a NodeClaim (docs/protocol.md#o2).
        intents,
        node_claims,
        nodes,
        pods,
        daemon_sets,
        namespaces,
        disruption_budgets,
        storage,
        services: selectors.services,
        workloads: selectors.workloads,
        node_overlays,
        capacity_buffers,
        devices: DeviceObjects::default(),
        commands,
        notices,
        nominated,
        nominated_claims,
        drift: BTreeMap::new(),
        caps: caps(turn),
        account: meta.account,
        pauses,
        evidence: Vec::new(),
        cursor: None,
    };
    let has_buffers = !snapshot.capacity_buffers.is_empty();
    if !reads_all_pods && (places_pods && has_buffers || planner::any_leaves(&snapshot)) {
        snapshot.pods = api.pods().await?;
    }
    share_shapes(&mut snapshot.pods);
    problems.extend(Box::pin(devices::observe(turn, &mut snapshot)).await?);
    Ok(Observed {
        snapshot,
        counter,
        view: version,
        node_pools,
        unreadable_pools,
        node_classes,
        classes,
        experience,
        problems,
        price_warnings,
        view_problem,
        gated,
        missing_in_ec2: BTreeSet::new(),
        refuted,
    })
}

/// Whether a NodePool is Whittle's: EKS Auto Mode shares the CRDs with other NodeClasses (docs/design.md#managed-objects).
fn is_ours(pool: &NodePool) -> bool {
    let class = &pool.spec.template.spec.node_class_ref;
    class.group == group::KARPENTER_AWS && class.kind == "EC2NodeClass"
}

pub(crate) fn is_our_class(class: &NodeClassRef) -> bool {
    class.group == group::KARPENTER_AWS && class.kind == "EC2NodeClass"
}

/// NodeClasses of NodePools, and of NodeClaims that are still to be launched.
fn wanted_classes<'a>(pools: &'a [NodePool], claims: &'a [NodeClaim]) -> BTreeSet<&'a str> {
    let by_pools = pools
        .iter()
        .map(|pool| pool.spec.template.spec.node_class_ref.name.as_str());
    let unlaunched = claims.iter().filter(|claim| {
        claim.status.provider_id.is_empty() && is_our_class(&claim.spec.node_class)
    });
    by_pools
        .chain(unlaunched.map(|claim| claim.spec.node_class.name.as_str()))
        .collect()
}

async fn class_facts(
    turn: &Turn<'_>,
    wanted: &BTreeSet<&str>,
    node_classes: &[EC2NodeClass],
    experience: &Experience,
    problems: &mut Vec<String>,
) -> Result<BTreeMap<NodeClassName, ResolvedNodeClass>, TurnError> {
    let mut facts = BTreeMap::new();
    for class in node_classes {
        let name = NodeClassName::from(class.metadata.name.as_str());
        let resolved = class
            .status
            .as_ref()
            .is_some_and(|status| status.subnets.is_some());
        // An unresolved NodeClass has no zones yet, so it has no offerings.
        if !resolved || !wanted.contains(name.as_str()) {
            continue;
        }
        match turn
            .world
            .catalog
            .instance_types(turn.cluster, class, &turn.entry.raw_settings, experience)
            .await
        {
            Ok(types) => {
                facts.insert(
                    name,
                    ResolvedNodeClass {
                        object: class.clone(),
                        types,
                    },
                );
            }
            // A failure of one NodeClass does not stop the others; an answer that proves nothing stops the turn.
            Err(
                error @ (CloudError::Unknown { .. }
                | CloudError::Throttled { .. }
                | CloudError::Postponed { .. }),
            ) => {
                if let CloudError::Unknown { .. } = error {
                    emit_types_unknown(turn, class, &error).await;
                }
                return Err(error.into());
            }
            Err(error) => problems.push(format!("EC2NodeClass {name}: {error}")),
        }
    }
    Ok(facts)
}

/// Emits an event about the error, which ends the turn and would otherwise be only in its log.
async fn emit_types_unknown(turn: &Turn<'_>, class: &EC2NodeClass, error: &CloudError) {
    let warning = Warning {
        reason: "InstanceTypesUnknown",
        message: format!("nothing is launched until instance types are known: {error}"),
    };
    let event = events::of_node_class(class, warning, turn.now);
    // If posting fails too, the error that ends the turn is more useful.
    let mut discarded = turn.report();
    events::post(turn, &[event], &mut discarded).await;
}

/// Marks a NodePool as not ready while everything is paused for it, so that nothing is launched.
fn with_pauses(
    mut pool: model::node_pool::NodePool,
    pauses: &[Pause],
    now: Timestamp,
) -> model::node_pool::NodePool {
    if let Some(paused) = Pause::of_pool(pauses, Some(&pool.name), PauseLevel::All, now) {
        pool.not_ready = Some(paused.to_string());
    }
    pool
}

/// Marks a NodePool as not ready because of its own problems or its NodeClass's.
fn with_readiness(
    mut pool: model::node_pool::NodePool,
    node_classes: &[EC2NodeClass],
    facts: &BTreeMap<NodeClassName, ResolvedNodeClass>,
) -> model::node_pool::NodePool {
    if pool.not_ready.is_some() {
        return pool;
    }
    let name = &pool.template.node_class.name;
    pool.not_ready = match node_classes
        .iter()
        .find(|class| class.metadata.name == name.0)
    {
        None => Some(format!("EC2NodeClass {name} does not exist")),
        Some(class) if class.metadata.is_deleting() => {
            Some(format!("EC2NodeClass {name} is being deleted"))
        }
        Some(class) => match node_class::readiness(class) {
            Ok(()) if facts.contains_key(name) => None,
            Ok(()) => Some(format!(
                "the instance types of EC2NodeClass {name} are not known"
            )),
            Err(why) => Some(why),
        },
    };
    pool
}

/// The caps of the cluster's entry. An approval of held-back terminations lifts the cap on terminations.
fn caps(turn: &Turn<'_>) -> Caps {
    let caps = turn.entry.caps;
    match turn
        .entry
        .collect_until
        .is_some_and(|until| turn.now < until)
    {
        true => Caps {
            terminations: Some(u32::MAX),
            ..caps
        },
        false => caps,
    }
}
