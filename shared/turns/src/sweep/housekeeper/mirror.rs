//! Mirror of the registry in META rows, where turns read it.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use model::{
    ClusterName, Lane, NanosPerHour,
    ledger::{Meta, Mode},
};
use ports::{LedgerError, ledger::ClusterSummary, registry::RegistryEntry};

use crate::{Entry, SweepReport, TurnError, World, context::time_limit::within, settings::entry};

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

/// Clusters whose META is written concurrently.
const CONCURRENT_WRITES: usize = 16;

/// Upper bound on the time for writing changed entries, so that other duties of the sweep have time, too. The next sweep writes
/// the rest.
const WRITING_TIME_MAX: SignedDuration = SignedDuration::from_secs(15);

/// Copies registry entries to META. Without a complete list of entries, nothing changes.
pub(super) async fn mirror(
    world: &World,
    entries: Option<Vec<RegistryEntry>>,
    summaries: &ClusterSummaries,
    report: &mut SweepReport,
) -> MirrorResult {
    let (mut mirrored, writes) = compare(world, entries, summaries, report);
    let writes = writes.into_iter().map(|write| async move {
        let written = write.apply(world).await;
        (write.cluster, written)
    });
    // Collected before the first await, so that the sweep's future is `Send`.
    let writes: Vec<_> = writes.collect();
    let mut writes = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES);
    let all = async {
        while let Some((cluster, written)) = writes.next().await {
            match written {
                Ok(()) => drop(mirrored.changed.insert(cluster)),
                Err(error) => report
                    .problems
                    .push(format!("registry entry of {cluster}: {error}")),
            }
        }
    };
    if let Err(late) = within(world, WRITING_TIME_MAX, all).await {
        report.problems.push(format!("registry: {late}"));
    }
    mirrored
}

/// Finds the META rows that differ from the registry.
fn compare(
    world: &World,
    entries: Option<Vec<RegistryEntry>>,
    summaries: &ClusterSummaries,
    report: &mut SweepReport,
) -> (MirrorResult, Vec<MetaWrite>) {
    let mut mirrored = MirrorResult::default();
    let Some(entries) = entries else {
        return (mirrored, Vec::new());
    };
    let listed: BTreeSet<&ClusterName> = entries.iter().map(|entry| &entry.cluster).collect();
    let mut writes = rest_unlisted_clusters(world, &listed, summaries, report);
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
        writes.push(MetaWrite {
            cluster: entry.cluster,
            registry: body,
            mode,
            is_listed: true,
        });
    }
    (mirrored, writes)
}

/// Least time between two lists that must both lack an entry: two sweeps at once count as one.
const LISTS_APART: SignedDuration = SignedDuration::from_secs(30);

/// Puts clusters into shadow mode that are missing in two consecutive lists: their nodes keep running, and another controller
/// may lead. An empty list while several clusters are known points to a broken registry and changes nothing.
fn rest_unlisted_clusters(
    world: &World,
    listed: &BTreeSet<&ClusterName>,
    summaries: &ClusterSummaries,
    report: &mut SweepReport,
) -> Vec<MetaWrite> {
    let mut writes = Vec::new();
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
        return writes;
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
        writes.push(MetaWrite {
            cluster: (*cluster).clone(),
            registry: entry::unlisted(&meta.registry, since),
            mode,
            is_listed: false,
        });
        if is_gone {
            tracing::warn!(%cluster, %since, "cluster no longer registered; it is in shadow mode");
        }
    }
    writes
}

/// A change of META to the state of the registry.
struct MetaWrite {
    cluster: ClusterName,
    registry: serde_json::Value,
    mode: Mode,
    /// Whether the registry has an entry of the cluster.
    is_listed: bool,
}

impl MetaWrite {
    async fn apply(&self, world: &World) -> Result<(), TurnError> {
        let cluster = &self.cluster;
        if self.is_listed && self.mode == Mode::Active {
            make_lanes_due(world, cluster).await?;
        }
        // The housekeeper is due whether or not this sweep survives, for approvals and for clusters to hand back
        // (docs/protocol.md#l4).
        let now = world.clock.now();
        let ledger = &world.ledger;
        ledger.make_due(cluster, Lane::Housekeeper, now).await?;
        let mirrored = ledger.mirror_registry(cluster, &self.registry, &self.mode);
        Ok(mirrored.await?)
    }
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
