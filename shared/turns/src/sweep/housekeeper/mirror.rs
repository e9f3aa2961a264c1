//! Mirror of the registry in META rows, where turns read it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use model::{
    ClusterName, Lane, NanosPerHour,
    ledger::{Meta, Mode},
};
use ports::{LedgerError, ledger::ClusterSummary, registry::RegistryEntry};

use crate::{Entry, SweepReport, TurnError, World, settings::entry};

/// Result of mirroring, for duties that concern all clusters together.
#[derive(Default)]
pub(super) struct MirrorResult {
    /// Whether any cluster permits queries of the Price List.
    pub(super) look_up: bool,
    /// Price of the nodes of all clusters, per hour.
    pub(super) price: NanosPerHour,
    /// Clusters whose META was written, so that the row read before is outdated.
    pub(super) changed: BTreeSet<ClusterName>,
}

/// Summaries of clusters by name, as read before.
pub(super) type ClusterSummaries = BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>;

/// Copies registry entries to META. Without a complete list of entries, nothing changes.
pub(super) async fn mirror(
    world: &World,
    entries: Option<Vec<RegistryEntry>>,
    summaries: &ClusterSummaries,
    report: &mut SweepReport,
) -> MirrorResult {
    let mut mirrored = MirrorResult::default();
    let Some(entries) = entries else {
        return mirrored;
    };
    let listed: BTreeSet<&ClusterName> = entries.iter().map(|entry| &entry.cluster).collect();
    rest_unlisted_clusters(world, &listed, summaries, report, &mut mirrored).await;
    // A cluster whose row cannot be read may be active.
    let may_act = |cluster: &ClusterName| match summaries.get(cluster) {
        Some(Ok(summary)) => {
            let meta = summary.meta.as_ref();
            meta.is_some_and(|meta| meta.mode != Mode::Shadow)
        }
        Some(Err(_)) => true,
        None => false,
    };
    let mut entries = entries;
    // Of two entries for one API server, the one that may act is served.
    entries.sort_by_key(|entry| !may_act(&entry.cluster));
    let mut taken: BTreeMap<String, ClusterName> = BTreeMap::new();
    for entry in entries {
        let cluster = &entry.cluster;
        let read = entry.body.and_then(|body| {
            let entry = Entry::read(&body).map_err(|error| error.to_string())?;
            Ok((body, entry))
        });
        let (
            body,
            Entry {
                mut mode,
                isolated_vpc,
                ..
            },
        ) = match read {
            Ok(read) => read,
            Err(why) => {
                report
                    .alarms
                    .push(format!("registry entry of {cluster}: {why}"));
                continue;
            }
        };
        mirrored.look_up |= !isolated_vpc;
        // Two entries for one API server would share one Lease and both act, so the second is put into shadow mode.
        let mut is_taken = false;
        if let Some(endpoint) = entry::endpoint(&body) {
            match taken.get(&endpoint) {
                Some(other) => {
                    is_taken = true;
                    mode = Mode::Shadow;
                    report.alarms.push(format!(
                        "registry entry of {cluster}: its endpoint {endpoint} is that of {other}, too: unregister one of them"
                    ));
                }
                None => drop(taken.insert(endpoint, cluster.clone())),
            }
        }
        let summary = summaries
            .get(cluster)
            .and_then(|summary| summary.as_ref().ok());
        let twin = summary.and_then(|summary| summary.memory.twin.as_ref());
        if let Some(twin) = twin.filter(|_| !is_taken) {
            mode = Mode::Shadow;
            report.alarms.push(format!(
                "registry entry of {cluster}: its API server is that of {twin}, too, by the uid of the namespace kube-system: unregister one of them"
            ));
        }
        let known = match summaries.get(cluster) {
            Some(Ok(summary)) => summary.meta.as_ref(),
            // The unreadable row is reported elsewhere and left as it is.
            Some(Err(_)) => continue,
            None => None,
        };
        mirrored.price = known.map_or(mirrored.price, |meta| meta.account.total().price);
        let current = |meta: &Meta| meta.registry == body && meta.mode == mode;
        if known.is_some_and(current) {
            continue;
        }
        match write_meta(world, cluster, &body, mode).await {
            Ok(()) => drop(mirrored.changed.insert(cluster.clone())),
            Err(error) => report
                .problems
                .push(format!("registry entry of {cluster}: {error}")),
        }
    }
    mirrored
}

/// Least time between two lists that must both lack an entry: two sweeps at once count as one.
const LISTS_APART: SignedDuration = SignedDuration::from_secs(30);

/// Puts clusters into shadow mode that are missing in two consecutive lists: their nodes keep running, and another controller
/// may lead. An empty list while several clusters are known points to a broken registry and changes nothing.
async fn rest_unlisted_clusters(
    world: &World,
    listed: &BTreeSet<&ClusterName>,
    summaries: &ClusterSummaries,
    report: &mut SweepReport,
    mirrored: &mut MirrorResult,
) {
    let known: Vec<(&ClusterName, &Meta)> = summaries
        .iter()
        .filter_map(|(cluster, summary)| Some((cluster, summary.as_ref().ok()?.meta.as_ref()?)))
        .filter(|(_, meta)| !entry::is_unregistered(meta))
        .collect();
    let unlisted: Vec<_> = known
        .iter()
        .filter(|(cluster, _)| !listed.contains(cluster))
        .collect();
    if unlisted.len() > 1 && listed.is_empty() {
        report.alarms.push(format!(
            "the registry is empty, but {} clusters are known: they are served as before. Write their entries again, or remove the clusters one by one: whittle unregister <cluster> --purge --force",
            unlisted.len()
        ));
        return;
    }
    let now = world.clock.now();
    for (cluster, meta) in unlisted {
        let since = entry::unlisted_since(&meta.registry);
        let is_gone = since.is_some_and(|since| now.duration_since(since) >= LISTS_APART);
        let (since, mode) = match (since, is_gone) {
            (Some(since), true) => (since, Mode::Shadow),
            (Some(_), false) => continue,
            (None, _) => (now, meta.mode),
        };
        let registry = entry::unlisted(&meta.registry, since);
        let ledger = &world.ledger;
        let written = async {
            ledger.make_due(cluster, Lane::Housekeeper, now).await?;
            ledger.mirror_registry(cluster, &registry, &mode).await
        };
        match written.await {
            Ok(()) => drop(mirrored.changed.insert((*cluster).clone())),
            Err(error) => report.problems.push(format!(
                "registry entry of {cluster}, which is gone: {error}"
            )),
        }
        if is_gone {
            tracing::warn!(%cluster, %since, "cluster no longer registered; it is in shadow mode");
        }
    }
}

async fn write_meta(
    world: &World,
    cluster: &ClusterName,
    body: &serde_json::Value,
    mode: Mode,
) -> Result<(), TurnError> {
    if mode == Mode::Active {
        make_lanes_due(world, cluster).await?;
    }
    // The housekeeper is due whether or not this sweep survives, for approvals and for clusters to hand back
    // (docs/protocol.md#l4).
    let now = world.clock.now();
    let ledger = &world.ledger;
    ledger.make_due(cluster, Lane::Housekeeper, now).await?;
    ledger.mirror_registry(cluster, body, &mode).await?;
    Ok(())
}

/// Makes all lanes due: a lane that may act from now on evaluated the cluster while it might not, and no new wake announces
/// its unfinished work (docs/protocol.md#l4).
pub(super) async fn make_lanes_due(world: &World, cluster: &ClusterName) -> Result<(), TurnError> {
    let now = world.clock.now();
    for lane in Lane::WOKEN {
        world.ledger.make_due(cluster, lane, now).await?;
    }
    Ok(())
}
