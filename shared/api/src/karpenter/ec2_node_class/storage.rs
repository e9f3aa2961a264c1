//! Volumes of instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::schema::rules;
use crate::wire::string_enum;

/// A volume and the device name under which it is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Device name under which the volume is attached, such as `/dev/xvda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether the kubelet stores its files on this volume, so that its size is the node's ephemeral storage. At most one volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[
    ("snapshotID or volumeSize must be defined", "has(self.snapshotID) || has(self.volumeSize)"),
    (
        "snapshotID must be set when volumeInitializationRate is set",
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
    ),
])))]
pub struct BlockDevice {
    /// Whether the volume is deleted with the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted. Not allowed with a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations per second, for gp3, io1 and io2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// Id, alias or ARN of the KMS key for encryption.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Id of the snapshot that the volume is created from.
    #[serde(
        default,
        rename = "snapshotID",
        skip_serializing_if = "Option::is_none"
    )]
    pub snapshot_id: Option<String>,
    /// Throughput in MiB per second, for gp3: 125 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Rate in MiB per second at which the snapshot is downloaded. Requires a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size in Gi, G, Ti or T. Required without a snapshot. Sizes by volume type: gp2 and gp3 1 to 16384 Gi, io1 and io2
    /// 4 to 16384, st1 and sc1 125 to 16384, standard 1 to 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Option<String>",
        regex(
            pattern = r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$"
        )
    )]
    pub volume_size: Option<Quantity>,
    /// Type of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

string_enum! {
    /// A kind of EBS volume.
    VolumeType {
        Standard = "standard",
        Io1 = "io1",
        Io2 = "io2",
        Gp2 = "gp2",
        Sc1 = "sc1",
        St1 = "st1",
        Gp3 = "gp3",
    }
}

string_enum! {
    /// Use of the disks of the instance.
    InstanceStorePolicy { Raid0 = "RAID0" }
}
