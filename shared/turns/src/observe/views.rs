//! The first rung of observation: pods as the cluster's relay publishes them. Any doubt leads to the next one, the API server's
//! own lists.
//!
//! A view is read only if it covers all that the relay's heartbeat has counted for the lane, so that a turn with it is a full
//! look (docs/protocol.md#l6). It may still be wrong, as a relay may be: nothing is ended by it, and every launch reads its
//! pods again (docs/protocol.md#a6). A view that turned out wrong or too large is not read again before the relay begins
//! another.

use std::pin::pin;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use model::{
    ledger::{RelayBeat, RelayCounter},
    pod::Pod,
    view::{ViewPointer, object_name},
};
use view::{
    CHAIN_MAX, View, ViewError,
    document::{CHANGES_BYTES_MAX, FULL_BYTES_MAX},
};

use crate::context::{Turn, Views};

/// Longest age of a view: heartbeats come every half a minute; an older one, or one by a clock that is off by as much, proves
/// nothing.
const AGE_MAX: SignedDuration = SignedDuration::from_secs(90);
/// Concurrent reads of versions.
const CONCURRENT_READS: usize = 16;

/// Reason why there is no view.
enum ViewFailure {
    /// The bucket may answer the next time.
    NotRead(String),
    /// The view is wrong, and stays so.
    Refused(String),
}

impl From<ViewError> for ViewFailure {
    fn from(error: ViewError) -> Self {
        let text = ports::with_causes(&error);
        // A missing view may still come.
        match matches!(error, ViewError::Missing { .. }) {
            true => Self::NotRead(text),
            false => Self::Refused(text),
        }
    }
}

/// Pods as of a version, and the changes that it covers.
pub(crate) struct ViewedPods {
    pub(crate) pods: Vec<Pod>,
    pub(crate) counter: RelayCounter,
    pub(crate) version: u64,
}

/// Reads the pods of the newest version; `None` if, for a harmless reason, no view can be relied on; an error for a reason to
/// report.
pub(crate) async fn read(turn: &Turn<'_>, beat: &RelayBeat) -> Result<Option<ViewedPods>, String> {
    let Some(pointer) = newest(turn.view.as_ref(), beat) else {
        return Ok(None);
    };
    let off = pointer.at.duration_since(turn.now).abs();
    if off > AGE_MAX {
        return Err(format!(
            "the relay's view of pods is dated {off:#} before or after now: the relay has stopped, or its clock is wrong"
        ));
    }
    let counter = pointer.counter(turn.lane);
    if counter.seq < beat.counter(turn.lane).seq {
        // Newer versions are on their way.
        return Ok(None);
    }
    let views = &turn.world.views;
    let origin = (pointer.epoch.clone(), pointer.full);
    if views.is_refused(turn.cluster, &origin) {
        return Err("the relay's view is not used: it was refused before".to_owned());
    }
    let pods = update(views, turn, pointer).await.map_err(|failure| {
        let why = match failure {
            ViewFailure::NotRead(why) => why,
            ViewFailure::Refused(why) => {
                views.refuse(turn.cluster, origin);
                why
            }
        };
        format!("the relay's view is not used: {why}")
    })?;
    Ok(Some(ViewedPods {
        pods,
        counter,
        version: pointer.version,
    }))
}

/// The newest pointer of the relay's current process.
fn newest<'a>(woken: Option<&'a ViewPointer>, beat: &'a RelayBeat) -> Option<&'a ViewPointer> {
    let pointers = [woken, beat.view.as_ref()].into_iter().flatten();
    let own = pointers.filter(|pointer| pointer.epoch == beat.epoch);
    own.max_by_key(|pointer| pointer.version)
}

/// Reads the pods of the version that `pointer` names, and caches it.
async fn update(
    views: &Views,
    turn: &Turn<'_>,
    pointer: &ViewPointer,
) -> Result<Vec<Pod>, ViewFailure> {
    let cached = views.take(turn.cluster);
    let cached = cached.and_then(|view| Some((view.until(pointer)?, view)));
    let (versions, mut view) = match cached {
        Some(cached) => cached,
        None => (
            pointer.full.saturating_add(1)..=pointer.version,
            open_full_state(turn, pointer).await?,
        ),
    };
    if versions.end().saturating_sub(*versions.start()) > CHAIN_MAX {
        let why = format!("it is more than {CHAIN_MAX} versions behind");
        return Err(ViewFailure::Refused(why));
    }
    let mut changes = pin!(read_changes(turn, pointer, versions));
    while let Some(object) = changes.try_next().await? {
        view.follow(turn.cluster, &object)?;
    }
    view.is(pointer)?;
    let pods = view.pods();
    views.cache(turn.cluster, view);
    Ok(pods)
}

async fn open_full_state(turn: &Turn<'_>, pointer: &ViewPointer) -> Result<View, ViewFailure> {
    let full = read_object(turn, pointer, pointer.full, FULL_BYTES_MAX).await?;
    Ok(View::open(
        turn.cluster,
        &pointer.epoch,
        pointer.full,
        &full,
    )?)
}

/// Changes of these versions, in their order.
fn read_changes<'a>(
    turn: &'a Turn<'_>,
    pointer: &'a ViewPointer,
    versions: std::ops::RangeInclusive<u64>,
) -> impl Stream<Item = Result<Vec<u8>, ViewFailure>> + 'a {
    let each = versions.map(move |version| read_object(turn, pointer, version, CHANGES_BYTES_MAX));
    let each: Vec<_> = each.collect();
    stream::iter(each).buffered(CONCURRENT_READS)
}

/// Reads one version from the bucket. The relay writes it, so it is not read beyond the largest size of a view.
async fn read_object(
    turn: &Turn<'_>,
    pointer: &ViewPointer,
    version: u64,
    most: usize,
) -> Result<Vec<u8>, ViewFailure> {
    let name = object_name(turn.cluster, &pointer.epoch, version);
    match turn.world.archive.get_at_most(&name, most).await {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(ViewError::Missing { version }.into()),
        Err(error) if error.is_too_large() => Err(ViewFailure::Refused(error.to_string())),
        Err(error) => Err(ViewFailure::NotRead(error.to_string())),
    }
}
