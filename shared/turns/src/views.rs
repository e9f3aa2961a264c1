//! The first rung of observation: pods as the cluster's relay publishes them. Any doubt leads to the next one, the API server's
//! own lists.
//!
//! A view is read only if it shows all that the relay's heartbeat has counted for the lane, so that a look at it is a full look
//! (PROTOCOL L6). It may still be wrong, as a relay may be: nothing is ended by it, and every launch reads its pods again (A6).

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use model::{
    ClusterName,
    ledger::{RelayBeat, RelayCounter},
    pod::Pod,
    view::{ViewPointer, object_name},
};
use view::{CHAIN_MAX, Doubt, View};

use crate::lane::Turn;

/// A heartbeat comes every half a minute; what is older, or from a clock that is off by as much, proves nothing.
const FRESH: SignedDuration = SignedDuration::from_secs(90);
/// So many versions are read at a time.
const AT_ONCE: usize = 16;
/// Pods that a warm function remembers, of all its clusters.
const REMEMBERED_MAX: usize = 120_000;

/// The views that a warm function has read, to be led on by what came since.
#[derive(Debug, Default)]
pub struct Views(Mutex<BTreeMap<ClusterName, View>>);

/// Pods as of a version, and the changes that it shows.
pub(crate) struct Viewed {
    pub(crate) pods: Vec<Pod>,
    pub(crate) counter: RelayCounter,
    pub(crate) version: u64,
}

/// The pods of the newest version; `None` where there is no view to rely on, for a reason that is worth telling or not.
pub(crate) async fn read(turn: &Turn<'_>, beat: &RelayBeat) -> Result<Option<Viewed>, String> {
    let Some(pointer) = newest(turn.view.as_ref(), beat) else {
        return Ok(None);
    };
    let off = pointer.at.duration_since(turn.now).abs();
    if off > FRESH {
        return Err(format!(
            "the relay's view is {off:#} away by its clock: it has stopped, or its clock is wrong"
        ));
    }
    let counter = pointer.counter(turn.lane);
    if counter.seq < beat.counter(turn.lane).seq {
        // What has happened since is on its way.
        return Ok(None);
    }
    let pods = turn.world.views.lead_on(turn, pointer).await;
    let pods = pods.map_err(|why| format!("the relay's view is not used: {why}"))?;
    Ok(Some(Viewed {
        pods,
        counter,
        version: pointer.version,
    }))
}

/// Of the relay's process that beats now.
fn newest<'a>(woken: Option<&'a ViewPointer>, beat: &'a RelayBeat) -> Option<&'a ViewPointer> {
    let pointers = [woken, beat.view.as_ref()].into_iter().flatten();
    let own = pointers.filter(|pointer| pointer.epoch == beat.epoch);
    own.max_by_key(|pointer| pointer.version)
}

impl Views {
    async fn lead_on(&self, turn: &Turn<'_>, pointer: &ViewPointer) -> Result<Vec<Pod>, String> {
        // One that turns out wrong is not remembered.
        let known = self.lock().remove(turn.cluster);
        let view = match known.and_then(|view| Some((view.until(pointer)?, view))) {
            Some((versions, mut view)) => {
                for object in objects(turn, pointer, versions).await? {
                    view.follow(turn.cluster, &object).map_err(text)?;
                }
                view
            }
            None => opened(turn, pointer).await?,
        };
        view.is(pointer).map_err(text)?;
        let pods = view.pods();
        self.remember(turn.cluster, view);
        Ok(pods)
    }

    fn remember(&self, cluster: &ClusterName, view: View) {
        let mut known = self.lock();
        let others: usize = known.values().map(View::len).sum();
        if others + view.len() > REMEMBERED_MAX {
            known.clear();
        }
        if view.len() <= REMEMBERED_MAX {
            known.insert(cluster.clone(), view);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ClusterName, View>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn opened(turn: &Turn<'_>, pointer: &ViewPointer) -> Result<View, String> {
    let mut objects = objects(turn, pointer, pointer.full..=pointer.version)
        .await?
        .into_iter();
    let full = objects.next().unwrap_or_default();
    let mut view = View::open(turn.cluster, &pointer.epoch, pointer.full, &full).map_err(text)?;
    for object in objects {
        view.follow(turn.cluster, &object).map_err(text)?;
    }
    Ok(view)
}

/// These versions as they lie in the bucket.
async fn objects(
    turn: &Turn<'_>,
    pointer: &ViewPointer,
    versions: std::ops::RangeInclusive<u64>,
) -> Result<Vec<Vec<u8>>, String> {
    if versions.end().saturating_sub(*versions.start()) > CHAIN_MAX {
        return Err(format!("it is more than {CHAIN_MAX} versions long"));
    }
    let archive = &turn.world.archive;
    let each = versions.map(|version| async move {
        let name = object_name(turn.cluster, &pointer.epoch, version);
        match archive.get(&name).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(text(Doubt::Missing { version })),
            Err(error) => Err(error.to_string()),
        }
    });
    let each: Vec<_> = each.collect();
    stream::iter(each).buffered(AT_ONCE).try_collect().await
}

fn text(doubt: Doubt) -> String {
    crate::lane::chain(&doubt)
}
