use std::collections::BTreeMap;

use model::{Lane, status::CONFIG_MAP};
use ports::{ClusterError, cluster::StatusDocument, limits::kubernetes::CONFIG_MAP_BYTES};

use crate::api_server::conflict;

/// The ConfigMap through which functions publish a cluster's status for its relay.
#[derive(Clone, Debug, Default)]
pub struct PublishedStatus {
    pub documents: BTreeMap<Lane, String>,
    version: u64,
}

impl PublishedStatus {
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
        let others = self.documents.iter().filter(|(other, _)| **other != lane);
        let others: usize = others.map(|(_, text)| text.len()).sum();
        if others + document.text.len() > CONFIG_MAP_BYTES {
            return Err(ClusterError::Invalid {
                what: format!("ConfigMap {CONFIG_MAP}"),
                message: format!("[]: Too long: may not be more than {CONFIG_MAP_BYTES} bytes"),
            });
        }
        self.version += 1;
        self.documents.insert(lane, document.text.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::status::Status;

    use super::*;

    fn store(status: &mut PublishedStatus, lane: Lane, bytes: usize) -> Result<(), ClusterError> {
        let document = StatusDocument {
            text: "x".repeat(bytes),
            ..status.document(lane)
        };
        status.store(lane, &document)
    }

    #[test]
    fn config_map_holds_longest_documents_of_all_lanes_within_one_mebibyte() {
        let mut status = PublishedStatus::default();
        let others = [Lane::Interruption, Lane::Housekeeper];
        for lane in Lane::WOKEN.into_iter().chain(others) {
            store(&mut status, lane, Status::BYTES_MAX).unwrap();
        }
        let refused = store(&mut status, Lane::Provisioner, 2 * Status::BYTES_MAX);
        assert!(
            matches!(refused, Err(ClusterError::Invalid { .. })),
            "{refused:?}"
        );
    }
}
