//! Cache of a large kind in a warm function: a short watch brings it up to date, which is cheaper than a list.
//!
//! The cache is never staler than a list. A quorum read returns the cluster's current resource version, and cached objects are
//! used only once a watch has passed that version (docs/protocol.md#o1). Otherwise the kind is listed again: if a version is not
//! a number, if the server has compacted the version (410) or not reached it (a restored store, a cluster recreated under the
//! same name), if an event cannot be decoded, if watches end too early or take too long, and if no quorum read has confirmed the
//! cache for minutes.

use std::{
    fmt::Display,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use api::Resource;
use ports::ClusterError;
use serde::Deserialize;
use thiserror::Error;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    lists::PAGE,
    object_map::{Key, ObjectMap},
    transport::Transport,
};

/// Upper bound on catching up: a list of 50,000 pods takes little more.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);
/// Upper bound on resumed watches per read. Servers end watches of slow clients early.
const RESUMED_MAX: usize = 3;
/// Number of consecutive slow catch-ups after which a server is only listed: each attempt costs [`CATCH_UP_MAX`] of the turn.
const TOO_SLOW_MAX: usize = 3;

/// Cache of the objects of one kind in a `K`.
pub(crate) struct WatchCache<K> {
    cached: Mutex<Option<CachedObjects<K>>>,
    /// Number of objects that are listed as fast as they are watched, so that they are not cached.
    uncached_max: usize,
    /// Consecutive catch-ups that did not reach the current version in time.
    too_slow: AtomicUsize,
}

struct CachedObjects<K> {
    version: u64,
    objects: K,
    /// Time of the last quorum read that confirmed the version.
    confirmed: SystemTime,
}

impl<K> Default for WatchCache<K> {
    /// Objects that fit into one page are not cached.
    fn default() -> Self {
        Self::above(PAGE)
    }
}

impl<K> WatchCache<K> {
    /// A cache of kinds with more than this number of objects.
    pub(crate) fn above(uncached_max: usize) -> Self {
        Self {
            cached: Mutex::default(),
            uncached_max,
            too_slow: AtomicUsize::new(0),
        }
    }
}

/// A cache that was not confirmed within this time is dropped: a store that was restored in between may have passed the cached
/// version. Lanes read at least every five minutes, and a store is not restored while it is being read.
const CONFIRMATION_MAX_AGE: Duration = Duration::from_mins(10);

/// Reason why the cache is dropped and the kind listed again.
#[derive(Debug, Error)]
enum RelistReason {
    /// The server has compacted the events since, or an event cannot be decoded.
    #[error("events since the last list are lost: {0}")]
    Lost(String),
    /// The current version was not reached within [`CATCH_UP_MAX`] or [`RESUMED_MAX`] watches.
    #[error("watches did not reach the current version in time")]
    TooSlow,
}

fn lost(why: impl Display) -> RelistReason {
    RelistReason::Lost(why.to_string())
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures elapsed time, also while the process is frozen, which monotonic clocks may not count"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

impl<K: ObjectMap> WatchCache<K> {
    /// Returns all objects of the kind, as fresh as a quorum read.
    pub(crate) async fn read<T>(
        &self,
        transport: &Transport,
    ) -> Result<Vec<K::Object>, ClusterError>
    where
        T: Resource + Send + 'static,
        K::Object: From<T>,
    {
        let mut cached = self.cached.lock().await;
        let current = cached.take();
        if let Some(mut current) = current.filter(|cached| cached.is_current(now())) {
            match self.catch_up::<T>(&mut current, transport).await {
                Ok(()) => {
                    self.too_slow.store(0, Ordering::Relaxed);
                    transport.count_read(false);
                    current.confirmed = now();
                    let objects = current.objects.all();
                    *cached = Some(current);
                    return Ok(objects);
                }
                Err(relist_reason) => {
                    tracing::info!(kind = T::PLURAL, %relist_reason, "watch cache dropped; listing objects again");
                    if matches!(relist_reason, RelistReason::TooSlow) {
                        self.too_slow.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        let (listed, version) = transport.versioned(Collected::<K>::take::<T>).await?;
        let is_large = listed.objects.len() > self.uncached_max;
        if is_large {
            transport.count_read(true);
        }
        let objects = listed.objects.all();
        if let Ok(version) = version.parse()
            && is_large
            && self.too_slow.load(Ordering::Relaxed) < TOO_SLOW_MAX
        {
            *cached = Some(CachedObjects {
                version,
                objects: listed.objects,
                confirmed: now(),
            });
        }
        Ok(objects)
    }

    /// Returns whether objects are cached, so that a read costs little.
    pub(crate) async fn is_warm(&self) -> bool {
        self.cached.lock().await.is_some()
    }

    pub(crate) async fn len(&self) -> usize {
        let cached = self.cached.lock().await;
        cached.as_ref().map_or(0, |cached| cached.objects.len())
    }

    pub(crate) async fn forget(&self) {
        *self.cached.lock().await = None;
    }

    async fn catch_up<T>(
        &self,
        cached: &mut CachedObjects<K>,
        transport: &Transport,
    ) -> Result<(), RelistReason>
    where
        T: Resource,
        K::Object: From<T>,
    {
        let following = async {
            let newest = transport.version::<T>().await.map_err(lost)?;
            let newest: u64 = newest.parse().map_err(lost)?;
            // A quorum read is never behind an earlier one: this is another store, or an earlier state of it.
            if newest < cached.version {
                return Err(lost(format!(
                    "the server is at version {newest}, before {}",
                    cached.version
                )));
            }
            for _ in 0..=RESUMED_MAX {
                if cached.version >= newest {
                    return Ok(());
                }
                let from = cached.version.to_string();
                let mut watch = transport.watch::<T>(&from).await.map_err(lost)?;
                while cached.version < newest {
                    match watch.next().await.map_err(lost)? {
                        Some(line) => cached.apply_event::<T>(&line)?,
                        None => break,
                    }
                }
            }
            match cached.version >= newest {
                true => Ok(()),
                false => Err(RelistReason::TooSlow),
            }
        };
        timeout(CATCH_UP_MAX, following)
            .await
            .unwrap_or(Err(RelistReason::TooSlow))
    }
}

/// Objects of a list in progress.
pub(crate) struct Collected<K> {
    objects: K,
}

impl<K: ObjectMap> Default for Collected<K> {
    fn default() -> Self {
        Self {
            objects: K::default(),
        }
    }
}

impl<K: ObjectMap> Collected<K> {
    fn take<T>(&mut self, object: T)
    where
        T: Resource,
        K::Object: From<T>,
    {
        let key = key(&object);
        self.objects.upsert(key, object.into());
    }
}

impl<K> CachedObjects<K> {
    /// Returns whether the version was confirmed recently; `false` if the clock was set back since.
    fn is_current(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.confirmed);
        age.is_ok_and(|age| age < CONFIRMATION_MAX_AGE)
    }
}

impl<K: ObjectMap> CachedObjects<K> {
    /// Applies one event of a watch.
    fn apply_event<T>(&mut self, line: &str) -> Result<(), RelistReason>
    where
        T: Resource,
        K::Object: From<T>,
    {
        let event: WatchEvent<'_> = serde_json::from_str(line).map_err(lost)?;
        let object = || serde_json::from_str::<T>(event.object.get()).map_err(lost);
        let version = match event.event_type.as_ref() {
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(event.object.get()).map_err(lost)?;
                bookmark.metadata.resource_version
            }
            "ADDED" | "MODIFIED" => {
                let object = object()?;
                let version = version(&object);
                self.objects.upsert(key(&object), object.into());
                version
            }
            "DELETED" => {
                let object = object()?;
                self.objects.delete(&key(&object));
                version(&object)
            }
            // An error, or an unknown type of event.
            other => return Err(lost(format!("an event of type {other}"))),
        };
        self.version = version.parse().map_err(lost)?;
        Ok(())
    }
}

#[derive(Deserialize)]
struct WatchEvent<'a> {
    #[serde(rename = "type", borrow)]
    event_type: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a serde_json::value::RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
}

fn key<T: Resource>(object: &T) -> Key {
    let metadata = object.metadata();
    let namespace = metadata.namespace.clone().unwrap_or_default();
    (namespace, metadata.name.clone())
}

fn version<T: Resource>(object: &T) -> String {
    let version = object.metadata().resource_version.clone();
    version.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_that_was_not_confirmed_for_ten_minutes_is_dropped() {
        let confirmed = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
        let cached = CachedObjects {
            version: 7,
            objects: (),
            confirmed,
        };
        assert!(cached.is_current(confirmed + Duration::from_mins(9)));
        assert!(!cached.is_current(confirmed + Duration::from_mins(10)));
        assert!(!cached.is_current(confirmed - Duration::from_secs(1)));
    }
}
