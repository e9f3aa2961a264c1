use std::{collections::BTreeSet, io};

use model::{ClusterName, PodKey, pod::Pod};

use crate::{
    Pods,
    document::{self, Base, FORMAT, Header, LineRef, digest},
};

/// Upper bound on versions after a full state: a function without a cached view reads them all.
pub const CHAIN_MAX: u64 = 100;
/// Number of changed pods up to which a chain continues even in a smaller cluster; beyond, it ends once more pods have changed
/// than exist.
const CHANGES_MIN: usize = 1_000;

/// The relay's side of a view: takes in watch events, and returns the objects to be stored in the bucket.
///
/// A version is made by [`Publisher::issue`], stored in the bucket by the caller, and published once the caller confirms it by
/// [`Publisher::stored`]; until then no pointer names it, and its changes stay due.
#[derive(Debug)]
pub struct Publisher {
    cluster: ClusterName,
    epoch: String,
    pods: Pods,
    /// Number of shapes in stored versions; `None` while no stored full state has these numbers.
    shapes_stored: Option<usize>,
    /// Pods that the list under way has not shown yet; an abandoned list leaves nothing behind.
    unseen: Option<BTreeSet<PodKey>>,
    is_listed: bool,
    changed: BTreeSet<PodKey>,
    /// The newest stored version.
    last: Option<Base>,
    full: u64,
    /// Number of pods in the versions since the full state.
    changes_in_chain: usize,
    unconfirmed: Option<UnconfirmedVersion>,
}

/// A version to be stored in the bucket.
#[derive(Debug)]
pub struct ViewVersion {
    pub version: u64,
    /// Name of the object, by [`model::view::object_name`].
    pub name: String,
    pub object: Vec<u8>,
}

#[derive(Debug)]
struct UnconfirmedVersion {
    base: Base,
    is_full: bool,
    changed: BTreeSet<PodKey>,
    shapes: usize,
}

impl Publisher {
    pub fn new(cluster: ClusterName, epoch: String) -> Self {
        Self {
            cluster,
            epoch,
            pods: Pods::default(),
            shapes_stored: None,
            unseen: None,
            is_listed: false,
            changed: BTreeSet::new(),
            last: None,
            full: 0,
            changes_in_chain: 0,
            unconfirmed: None,
        }
    }

    /// Begins a list: pods that it does not show by its end are gone.
    pub fn begin_list(&mut self) {
        self.unseen = Some(self.pods.keys().cloned().collect());
    }

    /// Adds or updates a pod.
    pub fn upsert(&mut self, pod: Pod) {
        let key = pod.key.clone();
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(&key);
        }
        if self.pods.upsert(pod) {
            self.changed.insert(key);
        }
    }

    /// Removes a deleted pod.
    pub fn remove(&mut self, key: &PodKey) {
        if self.pods.remove(key) {
            self.changed.insert(key.clone());
        }
    }

    /// Completes the list that [`Publisher::begin_list`] began.
    pub fn end_list(&mut self) {
        self.is_listed = true;
        for key in self.unseen.take().unwrap_or_default() {
            self.remove(&key);
        }
    }

    /// Whether there is something to publish: never before all pods were listed.
    pub fn is_due(&self) -> bool {
        self.is_listed && (self.shapes_stored.is_none() || !self.changed.is_empty())
    }

    /// Makes the next version a full state, also if nothing changes: old objects expire in the bucket.
    pub fn renew(&mut self) {
        self.shapes_stored = None;
    }

    /// The newest stored version, and the full state that it is based on.
    pub fn latest(&self) -> Option<(&Base, u64)> {
        self.last.as_ref().map(|last| (last, self.full))
    }

    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Makes the next version. A version that is still unconfirmed is given up.
    pub fn issue(&mut self) -> io::Result<ViewVersion> {
        self.give_up();
        let version = self.last.as_ref().map_or(1, |last| last.version + 1);
        let changes = self.changes_in_chain + self.changed.len();
        let is_full = self.shapes_stored.is_none()
            || version - self.full >= CHAIN_MAX
            || changes > self.pods.len().max(CHANGES_MIN);
        let object = match is_full {
            true => self.full_state(version)?,
            false => self.changes(version)?,
        };
        let base = Base {
            version,
            digest: digest(&object),
        };
        self.unconfirmed = Some(UnconfirmedVersion {
            base,
            is_full,
            changed: std::mem::take(&mut self.changed),
            shapes: self.pods.shapes().len(),
        });
        Ok(ViewVersion {
            version,
            name: model::view::object_name(&self.cluster, &self.epoch, version),
            object,
        })
    }

    /// Confirms that the version made last is in the bucket.
    pub fn stored(&mut self) {
        let Some(unconfirmed) = self.unconfirmed.take() else {
            return;
        };
        self.changes_in_chain += unconfirmed.changed.len();
        if unconfirmed.is_full {
            self.full = unconfirmed.base.version;
            self.changes_in_chain = 0;
        }
        self.shapes_stored = Some(unconfirmed.shapes);
        self.last = Some(unconfirmed.base);
    }

    /// Gives up the version made last, which may not be in the bucket.
    pub fn give_up(&mut self) {
        if let Some(unconfirmed) = self.unconfirmed.take() {
            self.changed.extend(unconfirmed.changed);
        }
    }

    fn full_state(&mut self, version: u64) -> io::Result<Vec<u8>> {
        self.pods.compact();
        let shapes = self.pods.shapes();
        let header = self.header(version, None, shapes.len() + self.pods.len());
        let pods = self.pods.rows();
        let pods = pods.map(|(key, shape, own)| LineRef::Pod(key, shape, own));
        document::write(&header, shapes.iter().map(LineRef::Shape).chain(pods))
    }

    fn changes(&self, version: u64) -> io::Result<Vec<u8>> {
        let stored = self.shapes_stored.unwrap_or_default();
        let new = self.pods.shapes().get(stored..).unwrap_or_default();
        let header = self.header(version, self.last.clone(), new.len() + self.changed.len());
        let changed = self.changed.iter().map(|key| match self.pods.row(key) {
            Some((shape, own)) => LineRef::Pod(key, shape, own),
            None => LineRef::Gone(key),
        });
        document::write(&header, new.iter().map(LineRef::Shape).chain(changed))
    }

    fn header(&self, version: u64, base: Option<Base>, lines: usize) -> Header {
        Header {
            format: FORMAT,
            cluster: self.cluster.clone(),
            epoch: self.epoch.clone(),
            version,
            base,
            pods: self.pods.len(),
            lines,
        }
    }
}
