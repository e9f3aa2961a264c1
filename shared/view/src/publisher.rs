use std::{collections::BTreeSet, io};

use model::{ClusterName, PodKey, pod::Pod};

use crate::{
    Pods,
    document::{self, Base, FORMAT, Header, Written, digest},
};

/// Upper bound on versions after a full state: a function without a cached view reads them all.
pub const CHAIN_MAX: u64 = 100;
/// Number of changed pods up to which a chain goes on even in a smaller cluster; beyond, it ends once more pods have changed
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
    shapes_told: Option<usize>,
    /// Pods that the list under way has not shown yet; an abandoned list leaves nothing behind.
    unseen: Option<BTreeSet<PodKey>>,
    is_listed: bool,
    changed: BTreeSet<PodKey>,
    /// The newest stored version.
    last: Option<Base>,
    full: u64,
    /// Number of pods in the versions since the full state.
    told: usize,
    drafted: Option<Drafted>,
}

/// A version to be stored in the bucket.
#[derive(Debug)]
pub struct Issue {
    pub version: u64,
    /// Name of the object, by [`model::view::object_name`].
    pub name: String,
    pub object: Vec<u8>,
}

#[derive(Debug)]
struct Drafted {
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
            shapes_told: None,
            unseen: None,
            is_listed: false,
            changed: BTreeSet::new(),
            last: None,
            full: 0,
            told: 0,
            drafted: None,
        }
    }

    /// Begins a list: pods that it does not show by its end are gone.
    pub fn begin_list(&mut self) {
        self.unseen = Some(self.pods.keys().cloned().collect());
    }

    /// Adds or updates a pod.
    pub fn see(&mut self, pod: Pod) {
        let key = pod.key.clone();
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(&key);
        }
        if self.pods.see(pod) {
            self.changed.insert(key);
        }
    }

    /// Removes a deleted pod.
    pub fn lose(&mut self, key: &PodKey) {
        if self.pods.lose(key) {
            self.changed.insert(key.clone());
        }
    }

    /// Completes the list that [`Publisher::begin_list`] began.
    pub fn end_list(&mut self) {
        self.is_listed = true;
        for key in self.unseen.take().unwrap_or_default() {
            self.lose(&key);
        }
    }

    /// Whether there is something to publish: never before all pods were listed.
    pub fn is_due(&self) -> bool {
        self.is_listed && (self.shapes_told.is_none() || !self.changed.is_empty())
    }

    /// Makes the next version a full state, also if nothing changes: old objects expire in the bucket.
    pub fn renew(&mut self) {
        self.shapes_told = None;
    }

    /// The newest stored version, and the full state that it goes back to.
    pub fn standing(&self) -> Option<(&Base, u64)> {
        self.last.as_ref().map(|last| (last, self.full))
    }

    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Makes the next version. A version that is still unconfirmed is given up.
    pub fn issue(&mut self) -> io::Result<Issue> {
        self.give_up();
        let version = self.last.as_ref().map_or(1, |last| last.version + 1);
        let told = self.told + self.changed.len();
        let is_full = self.shapes_told.is_none()
            || version - self.full >= CHAIN_MAX
            || told > self.pods.len().max(CHANGES_MIN);
        let object = match is_full {
            true => self.full_state(version)?,
            false => self.changes(version)?,
        };
        let base = Base {
            version,
            digest: digest(&object),
        };
        self.drafted = Some(Drafted {
            base,
            is_full,
            changed: std::mem::take(&mut self.changed),
            shapes: self.pods.shapes().len(),
        });
        Ok(Issue {
            version,
            name: model::view::object_name(&self.cluster, &self.epoch, version),
            object,
        })
    }

    /// Confirms that the version made last is in the bucket.
    pub fn stored(&mut self) {
        let Some(drafted) = self.drafted.take() else {
            return;
        };
        self.told += drafted.changed.len();
        if drafted.is_full {
            self.full = drafted.base.version;
            self.told = 0;
        }
        self.shapes_told = Some(drafted.shapes);
        self.last = Some(drafted.base);
    }

    /// Gives up the version made last, which may not be in the bucket.
    pub fn give_up(&mut self) {
        if let Some(drafted) = self.drafted.take() {
            self.changed.extend(drafted.changed);
        }
    }

    fn full_state(&mut self, version: u64) -> io::Result<Vec<u8>> {
        self.pods.compact();
        let shapes = self.pods.shapes();
        let header = self.header(version, None, shapes.len() + self.pods.len());
        let pods = self.pods.rows();
        let pods = pods.map(|(key, shape, own)| Written::Pod(key, shape, own));
        document::write(&header, shapes.iter().map(Written::Shape).chain(pods))
    }

    fn changes(&self, version: u64) -> io::Result<Vec<u8>> {
        let told = self.shapes_told.unwrap_or_default();
        let new = self.pods.shapes().get(told..).unwrap_or_default();
        let header = self.header(version, self.last.clone(), new.len() + self.changed.len());
        let changed = self.changed.iter().map(|key| match self.pods.row(key) {
            Some((shape, own)) => Written::Pod(key, shape, own),
            None => Written::Gone(key),
        });
        document::write(&header, new.iter().map(Written::Shape).chain(changed))
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
