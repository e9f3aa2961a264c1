use model::{ClusterName, pod::Pod, view::ViewPointer};
use thiserror::Error;

use crate::{
    Pods,
    document::{self, Base, DocumentError, Line, digest},
};

/// A function's side of a view: the pods of one version, updated by the versions after it.
#[derive(Clone, Debug)]
pub struct View {
    epoch: String,
    last: Base,
    pods: Pods,
}

/// Reason why a view cannot be relied on; the caller lists the pods instead.
#[derive(Debug, Error)]
pub enum ViewError {
    #[error("version {version}: {source}")]
    Unreadable {
        version: u64,
        #[source]
        source: DocumentError,
    },
    #[error("version {version} is missing")]
    Missing { version: u64 },
    #[error("version {version} has the contents of another: {what}")]
    Other { version: u64, what: String },
    #[error("version {version} does not follow from the previous one")]
    Gap { version: u64 },
    #[error("version {version} does not have the announced digest")]
    Digest { version: u64 },
    #[error("version {version} has {found} pods: expected {promised}")]
    Count {
        version: u64,
        found: usize,
        promised: usize,
    },
    #[error("version {version} refers to a pod shape that it does not contain")]
    Shape { version: u64 },
}

impl View {
    /// Reads a full state.
    pub fn open(
        cluster: &ClusterName,
        epoch: &str,
        version: u64,
        object: &[u8],
    ) -> Result<Self, ViewError> {
        let mut view = Self {
            epoch: epoch.to_owned(),
            last: Base {
                version: 0,
                digest: String::new(),
            },
            pods: Pods::default(),
        };
        view.read(cluster, version, None, object)?;
        Ok(view)
    }

    /// Applies the next version.
    pub fn follow(&mut self, cluster: &ClusterName, object: &[u8]) -> Result<(), ViewError> {
        self.read(
            cluster,
            self.last.version + 1,
            Some(self.last.clone()),
            object,
        )
    }

    /// Versions between this view and the pointer's; `None` if none lead there.
    pub fn until(&self, pointer: &ViewPointer) -> Option<std::ops::RangeInclusive<u64>> {
        let leads = self.epoch == pointer.epoch
            && self.last.version >= pointer.full
            && self.last.version <= pointer.version;
        leads.then(|| self.last.version + 1..=pointer.version)
    }

    /// Checks that this is the pointer's version.
    pub fn is(&self, pointer: &ViewPointer) -> Result<(), ViewError> {
        let version = pointer.version;
        match self.last.version == version && self.last.digest == pointer.digest {
            true => Ok(()),
            false => Err(ViewError::Digest { version }),
        }
    }

    /// Number of pods.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Pods ordered by name.
    pub fn pods(&self) -> Vec<Pod> {
        self.pods.iter().collect()
    }

    /// Applies one version. After an error the view must not be used any more.
    fn read(
        &mut self,
        cluster: &ClusterName,
        version: u64,
        base: Option<Base>,
        object: &[u8],
    ) -> Result<(), ViewError> {
        let (header, lines) =
            document::read(object).map_err(|source| ViewError::Unreadable { version, source })?;
        if header.cluster != *cluster || header.epoch != self.epoch || header.version != version {
            let what = format!(
                "it is version {} of {} of cluster {}",
                header.version, header.epoch, header.cluster
            );
            return Err(ViewError::Other { version, what });
        }
        if header.base != base {
            return Err(ViewError::Gap { version });
        }
        for line in lines {
            match line {
                Line::Shape(shape) => self.pods.add_shape(shape),
                Line::Pod(key, shape, own) => {
                    if !self.pods.put(key, shape, own) {
                        return Err(ViewError::Shape { version });
                    }
                }
                Line::Gone(key) => drop(self.pods.remove(&key)),
            }
        }
        if self.pods.len() != header.pods {
            return Err(ViewError::Count {
                version,
                found: self.pods.len(),
                promised: header.pods,
            });
        }
        self.last = Base {
            version,
            digest: digest(object),
        };
        Ok(())
    }
}
