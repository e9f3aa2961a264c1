//! What a warm function remembers of a large kind: brought up to date by a short watch, it need not be listed anew.
//!
//! Nothing here is staler than a list. How far the cluster has come is asked first, by a quorum read; what is remembered counts
//! only once a watch has led past that (docs/protocol.md#o1). Any doubt ends in a list: a version that is no number, one that the
//! server has forgotten (410) or not reached (a store that was restored, a cluster made anew under its name), an event that
//! cannot be read, watches that end too early or take too long, and a memory that nothing has confirmed for minutes.

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
    keep::{Keep, Key},
    lists::PAGE,
    transport::Transport,
};

/// Catching up that takes longer is given up: a list of 50,000 pods takes little more.
const PATIENCE: Duration = Duration::from_secs(3);
/// Watches that end before they led far enough, as servers end those of slow clients, are resumed this often.
const RESUMED_MAX: usize = 3;
/// A server whose watches do not lead far enough in time so often is only listed: trying costs that time in each turn.
const TOO_SLOW_MAX: usize = 3;

/// The objects of one kind, as its watch on the wire tells of them, in a `K`.
pub(crate) struct Memory<K> {
    known: Mutex<Option<Known<K>>>,
    /// How often in a row watches did not lead far enough in time.
    too_slow: AtomicUsize,
}

struct Known<K> {
    version: u64,
    objects: K,
    /// When a quorum read last confirmed the version.
    confirmed: SystemTime,
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            too_slow: AtomicUsize::new(0),
        }
    }
}

/// A memory that was not confirmed for longer gives way to a list: a store that was restored meanwhile may have come past the version that is
/// known. Lanes look at least every five minutes, and nobody restores a store while it is being read.
const CONFIRMED_WITHIN: Duration = Duration::from_mins(10);

/// Why what is remembered cannot be relied on.
#[derive(Debug, Error)]
enum Doubt {
    /// The server has forgotten what came since, or tells what cannot be read.
    #[error("what came since is lost: {0}")]
    Lost(String),
    /// Not within [`PATIENCE`], or not within [`RESUMED_MAX`] watches.
    #[error("watches do not lead far enough in time")]
    TooSlow,
}

fn lost(why: impl Display) -> Doubt {
    Doubt::Lost(why.to_string())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a lapse of time is measured, also while the process is frozen, which no monotonic clock is sure to count"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

impl<K: Keep> Memory<K> {
    /// Every object of the kind, as fresh as a quorum read.
    pub(crate) async fn read<T>(
        &self,
        transport: &Transport,
    ) -> Result<Vec<K::Object>, ClusterError>
    where
        T: Resource + Send + 'static,
        K::Object: From<T>,
    {
        let mut known = self.known.lock().await;
        let remembered = known.take();
        if let Some(mut remembered) = remembered.filter(|known| known.is_current(now())) {
            match self.catch_up::<T>(&mut remembered, transport).await {
                Ok(()) => {
                    self.too_slow.store(0, Ordering::Relaxed);
                    transport.note(false);
                    remembered.confirmed = now();
                    let objects = remembered.objects.all();
                    *known = Some(remembered);
                    return Ok(objects);
                }
                Err(doubt) => {
                    tracing::info!(kind = T::PLURAL, %doubt, "listed anew");
                    if matches!(doubt, Doubt::TooSlow) {
                        self.too_slow.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        let (listed, version) = transport.versioned(Collected::<K>::take::<T>).await?;
        // What fits into a page is listed as soon as it is watched.
        let is_large = listed.objects.len() > PAGE;
        if is_large {
            transport.note(true);
        }
        let objects = listed.objects.all();
        if let Ok(version) = version.parse()
            && is_large
            && self.too_slow.load(Ordering::Relaxed) < TOO_SLOW_MAX
        {
            *known = Some(Known {
                version,
                objects: listed.objects,
                confirmed: now(),
            });
        }
        Ok(objects)
    }

    /// Whether anything is remembered, so that reading costs little.
    pub(crate) async fn is_warm(&self) -> bool {
        self.known.lock().await.is_some()
    }

    pub(crate) async fn len(&self) -> usize {
        let known = self.known.lock().await;
        known.as_ref().map_or(0, |known| known.objects.len())
    }

    pub(crate) async fn forget(&self) {
        *self.known.lock().await = None;
    }

    async fn catch_up<T>(&self, known: &mut Known<K>, transport: &Transport) -> Result<(), Doubt>
    where
        T: Resource,
        K::Object: From<T>,
    {
        let following = async {
            let newest = transport.version::<T>().await.map_err(lost)?;
            let newest: u64 = newest.parse().map_err(lost)?;
            // A quorum read is never behind what was seen: this is another store, or an earlier state of it.
            if newest < known.version {
                return Err(lost(format!(
                    "the server is at version {newest}, before {}",
                    known.version
                )));
            }
            for _ in 0..=RESUMED_MAX {
                if known.version >= newest {
                    return Ok(());
                }
                let from = known.version.to_string();
                let mut watch = transport.watch::<T>(&from).await.map_err(lost)?;
                while known.version < newest {
                    match watch.next().await.map_err(lost)? {
                        Some(line) => known.learn::<T>(&line)?,
                        None => break,
                    }
                }
            }
            match known.version >= newest {
                true => Ok(()),
                false => Err(Doubt::TooSlow),
            }
        };
        timeout(PATIENCE, following)
            .await
            .unwrap_or(Err(Doubt::TooSlow))
    }
}

/// What a list has shown so far.
pub(crate) struct Collected<K> {
    objects: K,
}

impl<K: Keep> Default for Collected<K> {
    fn default() -> Self {
        Self {
            objects: K::default(),
        }
    }
}

impl<K: Keep> Collected<K> {
    fn take<T>(&mut self, object: T)
    where
        T: Resource,
        K::Object: From<T>,
    {
        let key = key(&object);
        self.objects.keep(key, object.into());
    }
}

impl<K> Known<K> {
    /// Whether it was confirmed lately; a clock that was set back says nothing.
    fn is_current(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.confirmed);
        age.is_ok_and(|age| age < CONFIRMED_WITHIN)
    }
}

impl<K: Keep> Known<K> {
    /// Takes in one line of a watch.
    fn learn<T>(&mut self, line: &str) -> Result<(), Doubt>
    where
        T: Resource,
        K::Object: From<T>,
    {
        let told: Told<'_> = serde_json::from_str(line).map_err(lost)?;
        let object = || serde_json::from_str::<T>(told.object.get()).map_err(lost);
        let version = match told.kind.as_ref() {
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(told.object.get()).map_err(lost)?;
                bookmark.metadata.resource_version
            }
            "ADDED" | "MODIFIED" => {
                let object = object()?;
                let version = version(&object);
                self.objects.keep(key(&object), object.into());
                version
            }
            "DELETED" => {
                let object = object()?;
                self.objects.drop(&key(&object));
                version(&object)
            }
            // An error, or a kind of event that nobody knows yet.
            other => return Err(lost(format!("an event of type {other}"))),
        };
        self.version = version.parse().map_err(lost)?;
        Ok(())
    }
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
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
    fn memory_that_was_not_confirmed_for_minutes_is_not_relied_on() {
        let confirmed = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
        let known = Known {
            version: 7,
            objects: (),
            confirmed,
        };
        assert!(known.is_current(confirmed + Duration::from_mins(9)));
        assert!(!known.is_current(confirmed + Duration::from_mins(10)));
        assert!(!known.is_current(confirmed - Duration::from_secs(1)));
    }
}
