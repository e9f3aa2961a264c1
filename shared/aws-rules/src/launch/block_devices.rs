//! Volumes of instances.

use api::karpenter::{BlockDeviceMapping, EC2NodeClassSpec};
use model::{launch::BlockDevice, quantity::Quantity};

use super::{LaunchRefusal, not_ready};
use crate::families::Family;

/// The volumes of an instance: those of its NodeClass, else the defaults of its family.
pub(crate) fn block_devices(
    spec: &EC2NodeClassSpec,
    family: Family,
) -> Result<Vec<BlockDevice>, LaunchRefusal> {
    match spec.block_device_mappings.as_deref() {
        None | Some([]) => Ok(family.default_block_devices()),
        Some(mappings) => mappings.iter().map(block_device).collect(),
    }
}

fn block_device(mapping: &BlockDeviceMapping) -> Result<BlockDevice, LaunchRefusal> {
    let device_name = mapping.device_name.clone().unwrap_or_default();
    let Some(ebs) = &mapping.ebs else {
        return Err(not_ready(format!(
            "spec.blockDeviceMappings \"{device_name}\" has no ebs: every mapping describes a volume"
        )));
    };
    let volume_gib = match &ebs.volume_size {
        Some(size) => Some(gib(size.as_str()).ok_or_else(|| {
            not_ready(format!(
                "spec.blockDeviceMappings \"{device_name}\": ebs.volumeSize \"{size}\" is not a size"
            ))
        })?),
        None => None,
    };
    Ok(BlockDevice {
        device_name,
        volume_gib,
        volume_type: ebs.volume_type.as_ref().map(ToString::to_string),
        iops: ebs.iops.filter(|iops| *iops != 0),
        throughput: ebs.throughput.filter(|throughput| *throughput != 0),
        encrypted: ebs.encrypted,
        kms_key: ebs.kms_key_id.clone(),
        snapshot: ebs.snapshot_id.clone(),
        delete_on_termination: ebs.delete_on_termination,
        volume_initialization_rate: ebs.volume_initialization_rate.map(i64::from),
    })
}

/// A size in whole GiB, as EC2 counts volumes. Rounded up, so that a volume is never smaller than asked for.
fn gib(size: &str) -> Option<i64> {
    const GIB: i64 = 1 << 30;
    let bytes = size.parse::<Quantity>().ok()?.ceil();
    Some(bytes / GIB + i64::from(bytes % GIB != 0))
}
