//! VolumeAttachments: the instance of a drained node is kept until its volumes are detached
//! (docs/spec/lifecycle.md#volume-detachment).

use serde::Deserialize;

use super::meta::Meta;
use super::{Digest, Key, WatchedObject};
use crate::change::ChangeKind;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    metadata: Meta,
    spec: AttachmentSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSpec {
    node_name: String,
}

/// Digest of a VolumeAttachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentDigest {
    pub node: Key,
}

impl WatchedObject for VolumeAttachment {
    const KIND: Kind = Kind::VolumeAttachment;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::VolumeAttachment(AttachmentDigest {
            node: Key::node(&self.spec.node_name),
        })
    }
}

pub fn differences(
    old: Option<&AttachmentDigest>,
    new: Option<&AttachmentDigest>,
) -> Vec<ChangeKind> {
    match (old, new) {
        (Some(_), None) => vec![ChangeKind::VolumeDetached],
        (Some(_) | None, Some(_)) | (None, None) => Vec::new(),
    }
}
