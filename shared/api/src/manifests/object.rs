//! The kinds that can be parsed, and their types.

use serde::Deserialize;
use serde_json::Value;

use super::{Document, DocumentError};
use crate::karpenter::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use crate::kubernetes::{
    CSINode, CronJob, DaemonSet, Deployment, DeviceClass, Job, LimitRange, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, PodTemplate, PriorityClass,
    ReplicaSet, ReplicationController, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
    Rollout, RuntimeClass, Service, StatefulSet, StorageClass, VolumeAttachment,
};
use crate::meta::{ObjectMeta, Resource};

/// `apiVersion` and `kind`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TypeMeta {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
}

impl TypeMeta {
    /// Whether this is a list of any kind: `kubectl get -o yaml` writes `List`, the API server `PodList`.
    pub(super) fn is_list(&self) -> bool {
        self.kind
            .as_deref()
            .is_some_and(|kind| kind.ends_with("List"))
    }

    /// Both values, or a message about the missing one.
    pub(super) fn named(self) -> Result<(String, String), String> {
        match (self.api_version, self.kind) {
            (Some(api_version), Some(kind)) => Ok((api_version, kind)),
            (None, Some(kind)) => Err(format!("a {kind} without apiVersion")),
            (Some(_), None) => Err("an object without kind".to_owned()),
            (None, None) => Err("no Kubernetes object: apiVersion and kind are missing".to_owned()),
        }
    }
}

/// The object of a document, or the reason why planning ignores the document.
pub(super) enum Decoded {
    Object(Object),
    /// A supported kind in an unsupported version.
    OtherVersion {
        known: &'static str,
    },
    UnknownKind,
}

macro_rules! objects {
    ($($kind:ident),+ $(,)?) => {
        /// An object of a kind that planning uses.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $($kind(Box<$kind>),)+
        }

        impl Object {
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $kind::KIND,)+
                }
            }

            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => object.metadata(),)+
                }
            }

            pub(super) fn metadata_mut(&mut self) -> &mut ObjectMeta {
                match self {
                    $(Self::$kind(object) => object.metadata_mut(),)+
                }
            }

            /// The object as it is sent to the API server or written to a file.
            pub fn to_manifest(&self) -> serde_json::Result<Value> {
                match self {
                    $(Self::$kind(object) => object.to_manifest(),)+
                }
            }

            pub(super) fn decode(api_version: &str, kind: &str, document: &Document<'_>) -> Result<Decoded, DocumentError> {
                match kind {
                    $($kind::KIND => {
                        if api_version != $kind::API_VERSION {
                            let same_group = group(api_version) == group($kind::API_VERSION);
                            return Ok(if same_group {
                                Decoded::OtherVersion { known: $kind::API_VERSION }
                            } else {
                                Decoded::UnknownKind
                            });
                        }
                        Ok(Decoded::Object(Self::$kind(Box::new(document.read()?))))
                    })+
                    _ => Ok(Decoded::UnknownKind),
                }
            }
        }

        $(impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$kind(Box::new(object))
            }
        })+
    };
}

objects! {
    NodePool, NodeClaim, EC2NodeClass, NodeOverlay, CapacityBuffer,
    Pod, PodTemplate, Node, Namespace, PriorityClass, LimitRange, RuntimeClass,
    DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet, Job, CronJob, Rollout,
    PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, VolumeAttachment,
    PodDisruptionBudget, Service,
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
