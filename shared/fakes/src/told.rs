use std::collections::BTreeMap;

use model::{Lane, status::CONFIG_MAP};
use ports::{ClusterError, cluster::StatusDocument};

use crate::api_server::conflict;

/// The ConfigMap with what functions tell the relay.
#[derive(Clone, Debug, Default)]
pub struct ToldStatus {
    pub documents: BTreeMap<Lane, String>,
    version: u64,
}

impl ToldStatus {
    pub(crate) fn document(&self, lane: Lane) -> StatusDocument {
        StatusDocument {
            text: self.documents.get(&lane).cloned().unwrap_or_default(),
            resource_version: self.version.to_string(),
        }
    }

    pub(crate) fn store(
        &mut self,
        lane: Lane,
        document: &StatusDocument,
    ) -> Result<(), ClusterError> {
        if document.resource_version != self.version.to_string() {
            return Err(conflict("ConfigMap", CONFIG_MAP));
        }
        self.version += 1;
        self.documents.insert(lane, document.text.clone());
        Ok(())
    }
}
