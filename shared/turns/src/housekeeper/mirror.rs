//! What people registered, where turns read it.

use std::collections::BTreeMap;

use model::{
    ClusterName, Lane, NanosPerHour,
    ledger::{Meta, Mode},
};

use super::SweepReport;
use crate::{Entry, TurnError, World, entry};

/// What concerns all clusters together.
#[derive(Default)]
pub(super) struct Mirrored {
    /// Whether any cluster lets the Price List be asked.
    pub(super) look_up: bool,
    /// What the nodes of all clusters cost an hour.
    pub(super) price: NanosPerHour,
}

/// Copies registry entries to META, where turns read them.
pub(super) async fn mirror(world: &World, report: &mut SweepReport) -> Result<Mirrored, TurnError> {
    let mut mirrored = Mirrored::default();
    let mut entries = Vec::new();
    for entry in world.registry.entries().await? {
        let known = world.ledger.meta(&entry.cluster).await?;
        if let Some(meta) = &known {
            mirrored.price = meta.account.total().price;
        }
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
        mirrored.look_up |= !isolated_vpc;
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
    Ok(mirrored)
}

/// Whoever may act from now on has looked while it might not: what it left undone is nobody's news (L4).
pub(super) async fn look_afresh(world: &World, cluster: &ClusterName) -> Result<(), TurnError> {
    let now = world.clock.now();
    for lane in Lane::WOKEN {
        world.ledger.make_due(cluster, lane, now).await?;
    }
    Ok(())
}
