//! A sweep's duties to one cluster and its account: the leader Lease, and collection of what nothing owns.

use std::collections::BTreeSet;

use api::names::tag;
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, InstanceId, Lane, NotificationClass, Uid,
    ids::TurnId,
    journal::{Line, Subject},
    ledger::{LaneRow, Meta, Mode, SweepMemory},
};
use ports::{Cluster, ClusterError, Needs, cluster::LeaderLease};
use serde_json::Value;

use super::mirror::make_lanes_due;
use crate::{
    Entry, Report, SweepReport, TurnError, World,
    context::identity::EntriesByCluster,
    report::{
        events, journal, metrics,
        notifications::{self, NotificationDraft},
        status,
    },
    settings::entry,
    sweep::{
        collect::{self, CollectionResult},
        deleted_cluster, identity,
        leader::{self, LeaseHolder, LeaseStep},
        shifts,
    },
};

/// Interval of their collection: launch templates and instance profiles cost nothing; only their number is limited.
const TEMPLATES_EVERY: SignedDuration = SignedDuration::from_hours(1);

/// A visited cluster, as its rows in the ledger show it.
pub(super) struct VisitContext<'a> {
    pub(super) cluster: &'a ClusterName,
    pub(super) turn: &'a TurnId,
    pub(super) meta: &'a Meta,
    pub(super) lanes: &'a [(Lane, LaneRow)],
    pub(super) entries: &'a EntriesByCluster,
}

/// Duties that need the cluster's API server: its identity, its leader Lease, and garbage collection. Returns when they are due
/// again, if that is sooner than the rest of a cluster may last.
pub(super) async fn perform_duties(
    world: &World,
    visited: &VisitContext<'_>,
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> Result<Option<Timestamp>, TurnError> {
    let VisitContext {
        cluster,
        turn,
        meta,
        lanes,
        entries,
    } = *visited;
    let now = world.clock.now();
    let is_unregistered = entry::is_unregistered(meta);
    memory.released = false;
    let api = match world.clusters.connect(cluster, &meta.registry).await {
        Err(ClusterError::NoCluster { .. }) if is_unregistered => {
            memory.cluster_gone = None;
            memory.released = true;
            return Ok(None);
        }
        Err(ClusterError::NoCluster { .. }) => {
            deleted_cluster::collect(world, cluster, meta, memory, report).await?;
            return Ok(Some(now));
        }
        connected => connected?,
    };
    memory.cluster_gone = None;
    let uid = api.identity().await?;
    memory.twin = entries.preceding_entry(cluster, meta, &uid);
    let is_new = match memory.twin {
        Some(_) => false,
        None => identity::record(world, cluster, meta, &uid, memory, report).await?,
    };
    if is_new {
        make_lanes_due(world, cluster).await?;
    }
    let mode = match memory.twin {
        Some(_) => Mode::Shadow,
        None => meta.mode,
    };
    let holder = LeaseHolder::new(&world.holder, cluster, &uid);
    let lease = api.leader_lease().await?;
    let is_ours = |lease: &LeaderLease| holder.is_named(&lease.holder);
    let was_leading = lease.as_ref().is_some_and(is_ours);
    let step = if mode == Mode::Shadow {
        let working = lanes.iter().any(|(lane, row)| {
            *lane != Lane::Housekeeper && row.lease.as_ref().is_some_and(|lease| lease.is_live(now))
        });
        let busy = working || !world.ledger.open_calls(cluster).await?.is_empty();
        let holder = holder.or_former(memory.twin.is_none());
        leader::give_up(lease.as_ref(), holder, busy)
    } else {
        leader::take_or_renew(lease.as_ref(), &holder, memory, now)
    };
    let leads = match step {
        LeaseStep::Nothing => was_leading,
        LeaseStep::Write(write) => {
            if !was_leading && is_ours(&write) {
                make_lanes_due(world, cluster).await?;
            }
            is_ours(&api.hold_leader_lease(&write).await?)
        }
        LeaseStep::HeldByOther { holder } => {
            report.alarms.push(format!(
                "{cluster}: Karpenter's leader Lease is held by {holder}"
            ));
            false
        }
    };
    memory.released = is_unregistered && !leads;
    // Taking over and handing back take several sweeps (docs/protocol.md#b2), and so does resolving a second entry for the same
    // cluster.
    let is_settled =
        was_leading == leads && leads == (mode == Mode::Active) && memory.twin.is_none();
    let mut again = (!is_settled).then_some(now);
    if leads && mode == Mode::Active {
        shifts::announce(world, cluster, &api, memory).await?;
        // EKS gives a cluster's name only once, so the former cluster is gone. Elsewhere it may live on under another endpoint.
        let is_eks = meta.registry.get("type").and_then(Value::as_str) == Some("eks");
        let approved = Entry::read(&meta.registry)
            .ok()
            .and_then(|entry| entry.collect_until)
            .is_some_and(|until| now < until);
        let may = collect::CollectionPolicy {
            approved,
            pauses: &meta.pauses,
            uid: &uid,
            formers: memory.formers(),
            ends_formers: is_eks,
        };
        let collected = collect::collect(world, cluster, &api, memory, may).await?;
        again = again.or(collected.again);
        report_unowned(cluster, &memory.formers(), &collected, report);
        let problems = collected.failures.problems.iter();
        report
            .problems
            .extend(problems.map(|problem| format!("{cluster}: {problem}")));
        for event in &collected.failures.events {
            if let Err(error) = events::post_once(world, cluster, &*api, event).await {
                let problem = format!("{cluster}: event {}: {error}", event.reason);
                report.problems.push(problem);
            }
        }
        let names = collected.names();
        report
            .collected
            .extend(names.map(|name| format!("{cluster}/{name}")));
        record_in_journal(world, cluster, turn, &collected).await;
        metrics::publish(world, cluster, collected.metrics.clone());
        let warnings = status::publish(&*api, Lane::Housekeeper, &collected.metrics, None).await;
        let warnings = warnings.map(|warning| format!("{cluster}: {warning}"));
        report.warnings.extend(warnings);
        if !collected.claims.is_empty() || !collected.nodes.is_empty() {
            world
                .ledger
                .make_due(cluster, Lane::Terminator, now)
                .await?;
        }
        // Launch templates and instance profiles name their cluster, without its uid.
        if collected.is_alone {
            let removed = collect_unused_templates(world, cluster, &*api, memory, report).await;
            report
                .collected
                .extend(removed.iter().map(|name| format!("{cluster}/{name}")));
        }
        if let Some(braked) = collected.braked {
            tracing::error!(%cluster, reason = braked, "garbage collection stopped");
            let class = NotificationClass::Approval;
            let draft = NotificationDraft {
                // Notified again every hour, as long as it lasts.
                id: format!("{}/{}", class.as_str(), now.as_second() / 3600),
                class,
                title: "garbage collection waits for approval".to_owned(),
                details: vec![braked.clone()],
            };
            let entry = Entry::read(&meta.registry).ok();
            let destinations = entry.map(|entry| entry.destinations).unwrap_or_default();
            notifications::enqueue(world, cluster, &destinations, vec![draft]).await?;
            report.alarms.push(format!("{cluster}: {braked}"));
        }
    }
    Ok(again)
}

/// Collects unused launch templates and instance profiles at intervals. Nothing depends on it, so failures are retried the next
/// time.
async fn collect_unused_templates(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> BTreeSet<String> {
    let now = world.clock.now();
    let is_fresh = |at: Timestamp| now.duration_since(at) < TEMPLATES_EVERY;
    if memory.leftovers_deleted_at.is_some_and(is_fresh) {
        return BTreeSet::new();
    }
    memory.leftovers_deleted_at = Some(now);
    let removed = async {
        let (node_classes, node_claims) = tokio::try_join!(api.node_classes(), api.node_claims())?;
        // An EC2NodeClass that cannot be read may need objects that no other needs.
        let node_classes = node_classes.complete("EC2NodeClass")?;
        let needs = Needs {
            node_classes: &node_classes,
            node_claims: &node_claims,
        };
        Ok::<_, TurnError>(world.upkeep.collect(cluster, &needs, now).await?)
    };
    removed.await.unwrap_or_else(|error| {
        report.problems.push(format!(
            "{cluster}: launch templates and instance profiles: {error}"
        ));
        BTreeSet::new()
    })
}

/// Reports instances that carry the cluster's name and are left alone, because nothing proves that they are its own.
fn report_unowned(
    cluster: &ClusterName,
    formers: &BTreeSet<Uid>,
    collected: &CollectionResult,
    report: &mut SweepReport,
) {
    let listed = |instances: &BTreeSet<InstanceId>| {
        let instances: Vec<&str> = instances.iter().map(InstanceId::as_str).collect();
        instances.join(", ")
    };
    if !collected.unproven.is_empty() {
        report.warnings.push(format!(
            "{cluster}: no record, Node or tag {} shows that these instances, which carry its name, belong to it; they are kept: {}; another stack may have launched them, so terminate them only if nobody needs them",
            tag::CLUSTER_UID,
            listed(&collected.unproven)
        ));
    }
    if !collected.formers.is_empty() {
        let uids: Vec<&str> = formers.iter().map(Uid::as_str).collect();
        report.alarms.push(format!(
            "{cluster}: instances of the cluster that its registry entry led to before (uid {}) still exist: {}; terminate them if that cluster is gone, otherwise register it under another name",
            uids.join(" or "),
            listed(&collected.formers)
        ));
    }
}

/// Records collected resources in the journal, so that people can look up why an instance was terminated.
async fn record_in_journal(
    world: &World,
    cluster: &ClusterName,
    turn: &TurnId,
    collected: &CollectionResult,
) {
    let mut report = Report::new(cluster, Lane::Housekeeper, turn, world.clock.now());
    let instances = collected.instances.iter();
    let instances = instances.map(|id| Line::new(format!("terminate {id}: nothing owns it"), []));
    let nodes = collected.nodes.iter().map(|name| {
        let text = format!("delete node/{name}: no NodeClaim names it");
        Line::new(text, [Subject::Node(name.clone())])
    });
    let claims = collected.claims.iter().map(|name| {
        let text = format!("delete nodeclaim/{name}: its instance is gone");
        Line::new(text, [Subject::NodeClaim(name.clone())])
    });
    report.planned = instances.chain(nodes).chain(claims).collect();
    if report.planned.is_empty() {
        return;
    }
    report.stopped.clone_from(&collected.braked);
    journal::record_report(world, &report).await;
}
