//! Conversion of PersistentVolumeClaims, volumes, StorageClasses, attach limits and attachments.

use std::collections::BTreeMap;

use model::volume::{Attachment, Storage, StorageClass, Volume, VolumeClaim};

use super::selector::node_selector_term;
use crate::kubernetes;
use crate::names::annotation;

const IN_TREE_EBS: &str = "kubernetes.io/aws-ebs";

/// All storage objects of a cluster.
#[derive(Debug, Default)]
pub struct StorageObjects {
    pub claims: Vec<kubernetes::PersistentVolumeClaim>,
    pub volumes: Vec<kubernetes::PersistentVolume>,
    pub classes: Vec<kubernetes::StorageClass>,
    pub csi_nodes: Vec<kubernetes::CSINode>,
    pub attachments: Vec<kubernetes::VolumeAttachment>,
}

impl From<StorageObjects> for Storage {
    fn from(objects: StorageObjects) -> Self {
        Self {
            claims: objects.claims.into_iter().map(Into::into).collect(),
            volumes: objects.volumes.into_iter().map(Into::into).collect(),
            classes: objects.classes.into_iter().map(Into::into).collect(),
            attach_limits: objects
                .csi_nodes
                .into_iter()
                .map(|node| (node.metadata.name.into(), attach_limits(node.spec)))
                .collect(),
            attachments: objects.attachments.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<kubernetes::PersistentVolumeClaim> for VolumeClaim {
    fn from(claim: kubernetes::PersistentVolumeClaim) -> Self {
        let kubernetes::PersistentVolumeClaim {
            metadata,
            spec,
            status,
        } = claim;
        Self {
            bind_completed: metadata
                .annotations
                .contains_key(annotation::BIND_COMPLETED),
            deleting: metadata.is_deleting(),
            namespace: metadata
                .namespace
                .unwrap_or_else(|| super::DEFAULT_NAMESPACE.to_owned()),
            name: metadata.name,
            one_pod: spec
                .access_modes
                .iter()
                .any(|mode| mode == "ReadWriteOncePod"),
            storage_class: spec.storage_class_name,
            volume: spec.volume_name.filter(|name| !name.is_empty()),
            lost: status.phase == Some(kubernetes::ClaimPhase::Lost),
        }
    }
}

impl From<kubernetes::PersistentVolume> for Volume {
    fn from(volume: kubernetes::PersistentVolume) -> Self {
        let kubernetes::PersistentVolume { metadata, spec } = volume;
        let local = spec.is_node_disk();
        let terms = spec.node_affinity.and_then(|affinity| affinity.required);
        Self {
            local,
            deleting: metadata.is_deleting(),
            name: metadata.name,
            driver: spec.csi.map(|source| source.driver),
            in_tree: spec.aws_elastic_block_store.map(|_| IN_TREE_EBS.to_owned()),
            storage_class: spec.storage_class_name,
            node_affinity: terms
                .into_iter()
                .flat_map(|terms| terms.node_selector_terms)
                .filter_map(|term| node_selector_term(term, "", &mut |_| {}))
                .collect(),
        }
    }
}

impl From<kubernetes::StorageClass> for StorageClass {
    fn from(class: kubernetes::StorageClass) -> Self {
        let default = class
            .metadata
            .annotations
            .get(annotation::IS_DEFAULT_STORAGE_CLASS);
        Self {
            is_default: default.is_some_and(|value| value == "true"),
            name: class.metadata.name,
            provisioner: class.provisioner,
            wait_for_first_consumer: class.volume_binding_mode
                == Some(kubernetes::VolumeBindingMode::WaitForFirstConsumer),
            allowed_topologies: class.allowed_topologies.into_iter().map(topology).collect(),
        }
    }
}

fn topology(term: kubernetes::TopologySelectorTerm) -> BTreeMap<String, Vec<String>> {
    term.match_label_expressions
        .into_iter()
        .map(|expression| (expression.key, expression.values))
        .collect()
}

/// A driver without a count has no limit; a negative count allows no attachments.
fn attach_limits(spec: kubernetes::CSINodeSpec) -> BTreeMap<String, u32> {
    spec.drivers
        .into_iter()
        .filter_map(|driver| {
            let count = driver.allocatable?.count?;
            Some((driver.name, u32::try_from(count).unwrap_or(0)))
        })
        .collect()
}

impl From<kubernetes::VolumeAttachment> for Attachment {
    fn from(attachment: kubernetes::VolumeAttachment) -> Self {
        Self {
            name: attachment.metadata.name,
            node: attachment.spec.node_name.into(),
            volume: attachment.spec.source.persistent_volume_name,
            attached: attachment.status.attached,
        }
    }
}
