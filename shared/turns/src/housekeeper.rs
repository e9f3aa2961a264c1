//! The sweep over all clusters: mirrors the registry, holds the leader Leases, wakes lanes that are not provably quiet and
//! collects garbage. One cluster in trouble never keeps the others waiting.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane, NotificationClass, Wake,
    ids::TurnId,
    journal::{Line, Subject},
    ledger::{Intent, IntentState, LaneRow, Lease, Meta, Mode, PauseLevel, SweepMemory},
};
use ports::{
    Cluster, ClusterError, Needs,
    ledger::{LaneEnd, Taken},
};
use serde::Serialize;

use crate::{
    Entry, Report, TurnError, World, budget, collect, entry, gone, interruption, journal,
    leader::{self, Step},
    metrics,
    notifications::{self, News},
    reach,
    relay_version::{self, Fit},
    shifts, sweep,
};

/// What one sweep came to, for its log line.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
    pub clusters: usize,
    /// `cluster/lane: reason`.
    pub woken: Vec<String>,
    /// Instances, NodeClaims, launch templates and instance profiles that were collected.
    pub collected: Vec<String>,
    /// What needs a person: foreign leaders, the brake, entries that cannot be read.
    pub alarms: Vec<String>,
    pub problems: Vec<String>,
    /// How many relays have fallen silent although their cluster has nodes.
    pub silent: u64,
    /// What everything works in spite of, such as old prices or a relay of an unknown version.
    pub complaints: Vec<String>,
}

/// Launch templates and instance profiles cost nothing; only their number is limited.
const UPKEEP_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// Wakes of one sweep are spread over this.
const SPREAD: SignedDuration = SignedDuration::from_secs(45);

/// So many clusters are looked at together: one whose API server is slow keeps none of the others waiting.
const SWEPT_AT_ONCE: usize = 32;

impl SweepReport {
    fn absorb(&mut self, other: Self) {
        self.woken.extend(other.woken);
        self.collected.extend(other.collected);
        self.alarms.extend(other.alarms);
        self.problems.extend(other.problems);
        self.complaints.extend(other.complaints);
        self.silent += other.silent;
    }
}

/// One sweep.
pub async fn housekeep(world: &World, turn: &TurnId) -> Result<SweepReport, TurnError> {
    let mut report = SweepReport::default();
    // What concerns the account is done by one housekeeper alone, which needs no way out of a VPC for it.
    let is_public = world.reach == reach::PUBLIC;
    let look_up = match is_public {
        false => false,
        true => match mirror(world, &mut report).await {
            Ok(look_up) => look_up,
            Err(error) => {
                // The ledger knows the clusters of the last time.
                report.problems.push(format!("registry: {error}"));
                false
            }
        },
    };
    let clusters = world.ledger.clusters().await?;
    let count = clusters.len();
    report.clusters = count;
    let each = clusters.into_iter().enumerate().map(|(index, cluster)| {
        let place = place(index, count);
        Box::pin(async move {
            let mut report = SweepReport::default();
            if let Err(error) = one(world, &cluster, turn, place, &mut report).await {
                report.problems.push(format!("{cluster}: {error}"));
            }
            report
        })
    });
    let mut swept = stream::iter(each).buffered(SWEPT_AT_ONCE);
    while let Some(swept) = swept.next().await {
        report.absorb(swept);
    }
    match Box::pin(interruption::poll(world, turn)).await {
        Ok(outcomes) => {
            let failed = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
            let failed = failed.map(|error| format!("an instance in trouble: {error}"));
            report.problems.extend(failed);
        }
        Err(error) => report.problems.push(format!("instance status: {error}")),
    }
    // Last, because wakes do not wait for it.
    if is_public && count > 0 {
        let now = world.clock.now();
        let prices = world.upkeep.renew_prices(look_up, now).await;
        report.complaints.extend(prices);
    }
    metrics::publish_alarms(world, report.alarms.len());
    metrics::publish_silent(world, report.silent);
    tracing::info!(
        clusters = report.clusters,
        woken = report.woken.join(", "),
        collected = report.collected.join(", "),
        alarms = report.alarms.join("; "),
        problems = report.problems.join("; "),
        complaints = report.complaints.join("; "),
        "sweep"
    );
    Ok(report)
}

/// Clusters take turns over the minute.
fn place(index: usize, clusters: usize) -> SignedDuration {
    let (index, clusters) = (
        i64::try_from(index).unwrap_or(0),
        i64::try_from(clusters).unwrap_or(1).max(1),
    );
    SignedDuration::from_secs(SPREAD.as_secs() * index / clusters)
}

/// Copies registry entries to META, where turns read them. Says whether any cluster lets the Price List be asked.
async fn mirror(world: &World, report: &mut SweepReport) -> Result<bool, TurnError> {
    let mut look_up = false;
    let mut entries = Vec::new();
    for entry in world.registry.entries().await? {
        let known = world.ledger.meta(&entry.cluster).await?;
        entries.push((entry, known));
    }
    // Of two entries for one API server, the one that acts has it.
    let acts = |meta: &Meta| meta.mode != Mode::Shadow;
    entries.sort_by_key(|(_, known)| !known.as_ref().is_some_and(acts));
    let mut seen: BTreeMap<String, ClusterName> = BTreeMap::new();
    for (entry, known) in entries {
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
        look_up |= !isolated_vpc;
        // They would hold one Lease together, and both act: the other only watches.
        if let Some(endpoint) = entry::endpoint(&body) {
            match seen.get(endpoint) {
                Some(other) => {
                    mode = Mode::Shadow;
                    report.alarms.push(format!(
                        "registry entry of {cluster}: its endpoint {endpoint} is that of {other}, too: unregister one of them"
                    ));
                }
                None => drop(seen.insert(endpoint.to_owned(), cluster.clone())),
            }
        }
        let current = |meta: &Meta| meta.registry == body && meta.mode == mode;
        if !known.as_ref().is_some_and(current) {
            if mode == Mode::Active {
                look_afresh(world, cluster).await?;
            }
            world.ledger.mirror_registry(cluster, &body, &mode).await?;
        }
    }
    Ok(look_up)
}

/// Whoever may act from now on has looked while it might not: what it left undone is nobody's news (L4).
async fn look_afresh(world: &World, cluster: &ClusterName) -> Result<(), TurnError> {
    let now = world.clock.now();
    for lane in Lane::WOKEN {
        world.ledger.make_due(cluster, lane, now).await?;
    }
    Ok(())
}

async fn one(
    world: &World,
    cluster: &ClusterName,
    turn: &TurnId,
    delay: SignedDuration,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let Some(meta) = world.ledger.meta(cluster).await? else {
        return Ok(());
    };
    if reach::of(&meta) != world.reach {
        return unserved(world, cluster, &meta, report).await;
    }
    let lease = Lease {
        owner: turn.clone(),
        until: now + budget(Lane::Housekeeper),
    };
    if world
        .ledger
        .take_lane(cluster, Lane::Housekeeper, &lease, now)
        .await?
        == Taken::Held
    {
        return Ok(());
    }
    let before = world.ledger.sweep_memory(cluster).await?;
    let mut memory = before.clone();
    let lanes = world.ledger.lanes(cluster).await?;
    // First what needs no API server: it works while that is down.
    let woken = match memory.cluster_gone {
        Some(_) => Ok(()),
        None => wake_restless(world, cluster, &lanes, &mut memory, delay, report).await,
    };
    if let Err(error) = stuck_notices(world, cluster, &lanes, report).await {
        report.problems.push(format!("{cluster}: notices: {error}"));
    }
    if let Err(error) = shifts::poll(world, cluster, &meta).await {
        report
            .problems
            .push(format!("{cluster}: zonal shifts: {error}"));
    }
    let kept = keep(world, cluster, turn, &meta, &lanes, &mut memory, report).await;
    let destinations = Entry::read(&meta.registry).map(|entry| entry.destinations);
    let destinations = destinations.unwrap_or_default();
    if let Err(error) =
        notifications::send(world, cluster, &destinations, &mut memory, report).await
    {
        report
            .problems
            .push(format!("{cluster}: notifications: {error}"));
    }
    if memory != before {
        world.ledger.store_sweep_memory(cluster, &memory).await?;
    }
    let error = woken.and(kept).err().map(|error| error.to_string());
    report
        .problems
        .extend(error.iter().map(|error| format!("{cluster}: {error}")));
    let end = LaneEnd {
        now: world.clock.now(),
        due: None,
        error,
        full_look: None,
    };
    world
        .ledger
        .end_lane(cluster, Lane::Housekeeper, turn, &end)
        .await?;
    Ok(())
}

/// Every lane looks at everything every ten minutes; in a quarter of an hour one of them has.
const SERVED_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// Tells of a cluster of another reach for which nobody works.
async fn unserved(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    if world.reach != reach::PUBLIC {
        return Ok(());
    }
    let now = world.clock.now();
    let lanes = world.ledger.lanes(cluster).await?;
    let is_served = lanes.iter().any(|(_, row)| {
        let is_fresh = |at: Timestamp| now.duration_since(at) < SERVED_WITHIN;
        // A turn that fails is due again soon.
        row.last_full_look.is_some_and(is_fresh)
            || row.due.is_some_and(is_fresh)
            || row.lease.as_ref().is_some_and(|lease| lease.is_live(now))
    });
    if !is_served {
        report.alarms.push(format!(
            "{cluster}: no function serves its reach, {}: deploy with VpcLaneId, or infra/vpc-lane.yaml for a further VPC",
            reach::of(meta)
        ));
    }
    Ok(())
}

/// Interrupted nodes whose lane fails: their pods die with them unless somebody sees to it.
async fn stuck_notices(
    world: &World,
    cluster: &ClusterName,
    lanes: &[(Lane, LaneRow)],
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let failing = lanes
        .iter()
        .find(|(lane, row)| *lane == Lane::Terminator && row.failures > 0);
    let Some((_, row)) = failing else {
        return Ok(());
    };
    let notices = world.ledger.notices(cluster).await?;
    if !notices.is_empty() {
        report.alarms.push(format!(
            "{cluster}: {} interruptions are on record and their nodes cannot be drained: {}",
            notices.len(),
            row.last_error.as_deref().unwrap_or("no reason is known")
        ));
    }
    Ok(())
}

async fn wake_restless(
    world: &World,
    cluster: &ClusterName,
    lanes: &[(Lane, LaneRow)],
    memory: &mut SweepMemory,
    delay: SignedDuration,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let beat = world.ledger.relay_beat(cluster).await?;
    let fit = beat
        .as_ref()
        .map(|beat| relay_version::fit(&beat.version, env!("CARGO_PKG_VERSION")));
    let heard = sweep::is_heard(beat.as_ref(), memory, now);
    let heard = match fit {
        Some(Fit::TooOld(why)) => {
            report.alarms.push(format!("{cluster}: {why}"));
            false
        }
        Some(Fit::Unknown(why)) => {
            report.complaints.push(format!("{cluster}: {why}"));
            heard
        }
        Some(Fit::Supported) | None => heard,
    };
    if !heard && beat.is_some() && has_nodes(world, cluster).await? {
        report.silent += 1;
    }
    for lane in Lane::WOKEN {
        let row = lanes
            .iter()
            .find(|(other, _)| *other == lane)
            .map(|(_, row)| row.clone())
            .unwrap_or_default();
        if let Some(reason) = sweep::restless(lane, &row, beat.as_ref(), heard, now) {
            world
                .wakes
                .send(&Wake::new(cluster.clone(), lane, reason), delay)
                .await?;
            report.woken.push(format!("{cluster}/{lane}: {reason}"));
        }
    }
    Ok(())
}

/// So that people can ask what became of an instance that nobody owned.
async fn remember(
    world: &World,
    cluster: &ClusterName,
    turn: &TurnId,
    collected: &collect::Collected,
) {
    if collected.instances.is_empty() && collected.claims.is_empty() {
        return;
    }
    let mut report = Report::new(cluster, Lane::Housekeeper, turn, world.clock.now());
    let instances = collected.instances.iter();
    let instances = instances.map(|id| Line::new(format!("terminate {id}: nothing owns it"), []));
    let claims = collected.claims.iter().map(|name| {
        let text = format!("delete nodeclaim/{name}: its instance is gone");
        Line::new(text, [Subject::NodeClaim(name.clone())])
    });
    report.planned = instances.chain(claims).collect();
    report.stopped.clone_from(&collected.braked);
    journal::note(world, &report).await;
}

/// Whether there is anything for a relay to run on: rows of launches last as long as their NodeClaims (PROTOCOL A1).
async fn has_nodes(world: &World, cluster: &ClusterName) -> Result<bool, TurnError> {
    let intents = world.ledger.intents(cluster).await?;
    let launched = |intent: &Intent| matches!(intent.state, IntentState::Launched { .. });
    Ok(intents.iter().any(launched))
}

/// What needs the cluster itself: its leader Lease, and garbage collection.
async fn keep(
    world: &World,
    cluster: &ClusterName,
    turn: &TurnId,
    meta: &Meta,
    lanes: &[(Lane, LaneRow)],
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let api = match world.clusters.connect(cluster, &meta.registry).await {
        Err(ClusterError::NoCluster { .. }) => {
            return gone::bury(world, cluster, meta, memory, report).await;
        }
        connected => connected?,
    };
    memory.cluster_gone = None;
    let lease = api.leader_lease().await?;
    let step = if meta.mode == Mode::Shadow {
        let working = lanes.iter().any(|(lane, row)| {
            *lane != Lane::Housekeeper && row.lease.as_ref().is_some_and(|lease| lease.is_live(now))
        });
        let busy = working || !world.ledger.open_calls(cluster).await?.is_empty();
        leader::hand_back(lease.as_ref(), &world.holder, busy)
    } else {
        leader::lead(lease.as_ref(), &world.holder, memory, now)
    };
    let leads = match step {
        Step::Nothing => lease.is_some_and(|lease| lease.holder == world.holder),
        Step::Write(write) => {
            let led = lease.is_some_and(|lease| lease.holder == world.holder);
            if !led && write.holder == world.holder {
                look_afresh(world, cluster).await?;
            }
            let lease = api.hold_leader_lease(&write).await?;
            lease.holder == world.holder
        }
        Step::Foreign { holder } => {
            report.alarms.push(format!(
                "{cluster}: Karpenter's leader Lease is held by {holder}"
            ));
            false
        }
    };
    if leads && meta.mode == Mode::Active {
        shifts::announce(world, cluster, &api, memory).await?;
        let approved = Entry::read(&meta.registry)
            .ok()
            .and_then(|entry| entry.collect_until)
            .is_some_and(|until| now < until);
        let paused = meta.paused(PauseLevel::All, now).is_some();
        let may = collect::Allowed { approved, paused };
        let collected = collect::collect(world, cluster, &api, memory, may).await?;
        report.collected.extend(
            collected
                .instances
                .iter()
                .map(|id| format!("{cluster}/{id}")),
        );
        report.collected.extend(
            collected
                .claims
                .iter()
                .map(|name| format!("{cluster}/{name}")),
        );
        remember(world, cluster, turn, &collected).await;
        metrics::publish(world, cluster, collected.metrics);
        if !collected.claims.is_empty() {
            world
                .ledger
                .make_due(cluster, Lane::Terminator, now)
                .await?;
        }
        let spent = upkeep(world, cluster, &*api, memory, report).await;
        report
            .collected
            .extend(spent.iter().map(|name| format!("{cluster}/{name}")));
        if let Some(braked) = collected.braked {
            tracing::error!(%cluster, "{braked}");
            let class = NotificationClass::Approval;
            let news = News {
                // Told again every hour, as long as it lasts.
                id: format!("{}/{}", class.as_str(), now.as_second() / 3600),
                class,
                title: "garbage collection waits for approval".to_owned(),
                details: vec![braked.clone()],
            };
            let entry = Entry::read(&meta.registry).ok();
            let destinations = entry.map(|entry| entry.destinations).unwrap_or_default();
            notifications::put(world, cluster, &destinations, vec![news]).await?;
            report.alarms.push(format!("{cluster}: {braked}"));
        }
    }
    Ok(())
}

/// Looks through what was made for launches, now and then. Nothing depends on it, so what fails is tried the next time.
async fn upkeep(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> BTreeSet<String> {
    let now = world.clock.now();
    let is_fresh = |at: Timestamp| now.duration_since(at) < UPKEEP_EVERY;
    if memory.upkept_at.is_some_and(is_fresh) {
        return BTreeSet::new();
    }
    memory.upkept_at = Some(now);
    let spent = async {
        let (node_classes, node_claims) = tokio::try_join!(api.node_classes(), api.node_claims())?;
        let needs = Needs {
            node_classes: &node_classes,
            node_claims: &node_claims,
        };
        Ok::<_, TurnError>(world.upkeep.collect(cluster, &needs, now).await?)
    };
    spent.await.unwrap_or_else(|error| {
        report.problems.push(format!(
            "{cluster}: launch templates and instance profiles: {error}"
        ));
        BTreeSet::new()
    })
}
