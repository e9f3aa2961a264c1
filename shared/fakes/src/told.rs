use std::collections::BTreeMap;

use model::{Lane, status::CONFIG_MAP};
use ports::{ClusterError, cluster::StatusDocument, limits::kubernetes::CONFIG_MAP_BYTES};

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

    fn store(told: &mut ToldStatus, lane: Lane, bytes: usize) -> Result<(), ClusterError> {
        let document = StatusDocument {
            text: "x".repeat(bytes),
            ..told.document(lane)
        };
        told.store(lane, &document)
    }

    #[test]
    fn config_map_takes_the_longest_documents_of_all_lanes_and_not_more_than_a_mebibyte() {
        let mut told = ToldStatus::default();
        let others = [Lane::Interruption, Lane::Housekeeper];
        for lane in Lane::WOKEN.into_iter().chain(others) {
            store(&mut told, lane, Status::BYTES_MAX).unwrap();
        }
        let refused = store(&mut told, Lane::Provisioner, 2 * Status::BYTES_MAX);
        assert!(
            matches!(refused, Err(ClusterError::Invalid { .. })),
            "{refused:?}"
        );
    }
}
