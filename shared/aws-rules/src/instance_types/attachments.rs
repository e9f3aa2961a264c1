//! Number of volumes of pods that a node can attach, as the EBS CSI driver will report it once it runs there
//! (docs/spec/v1.15.md#ebs-limits).

use super::facts::InstanceTypeInfo;

/// Network interfaces of every node: its own, and one that the VPC CNI keeps ready for pods.
const INTERFACES: usize = 2;

/// EBS volumes that an instance can attach besides `own`, the volumes it starts with; at least one. `interfaces` is the number of network
/// interfaces that its launch asks for. `None` if EC2 does not publish the limit.
pub(super) fn limit(info: &InstanceTypeInfo, own: usize, interfaces: usize) -> Option<u32> {
    let most = info.ebs_info.maximum_ebs_attachments?;
    let others = match info.ebs_info.attachment_limit_type.as_deref() {
        Some("dedicated") => 0,
        _ => interfaces
            .max(INTERFACES)
            .saturating_add(disks(info))
            .saturating_add(accelerators(info)),
    };
    let taken = u32::try_from(own.max(1).saturating_add(others)).unwrap_or(u32::MAX);
    Some(most.saturating_sub(taken).max(1))
}

/// Number of local disks. An instance with disks whose number EC2 does not publish counts as having one.
fn disks(info: &InstanceTypeInfo) -> usize {
    info.instance_storage_info.as_ref().map_or(0, |storage| {
        let disks: usize = storage.disks.iter().map(|disks| disks.count).sum();
        disks.max(usize::from(storage.total_size_in_gb > 0))
    })
}

fn accelerators(info: &InstanceTypeInfo) -> usize {
    let gpus = info.gpu_info.iter().flat_map(|info| &info.gpus);
    let gpus = gpus.map(|gpu| gpu.count);
    let neurons = info
        .neuron_info
        .iter()
        .flat_map(|info| &info.neuron_devices);
    let neurons = neurons.map(|device| device.count);
    let others = info.inference_accelerator_info.iter();
    let others = others.flat_map(|info| &info.accelerators);
    // EC2 lists Neuron devices as inference accelerators and as Neuron devices.
    let others: i64 = others.map(|accelerator| accelerator.count).sum();
    let total = gpus.sum::<i64>().saturating_add(others.max(neurons.sum()));
    usize::try_from(total).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(kind: &str, more: &str, own: usize, interfaces: usize) -> Option<u32> {
        let ebs = format!(r#""MaximumEbsAttachments": 28, "AttachmentLimitType": "{kind}""#);
        let info = format!(r#"{{"EbsInfo": {{{ebs}}} {more}}}"#);
        limit(&serde_json::from_str(&info).unwrap(), own, interfaces)
    }

    #[test]
    fn shared_attachment_limit_covers_interfaces_disks_and_accelerators() {
        assert_eq!(limit_of("shared", "", 1, 0), Some(25));
        assert_eq!(limit_of("shared", "", 2, 1), Some(24));
        assert_eq!(limit_of("shared", "", 1, 4), Some(23));
        for (storage, limit) in [
            (r#"{"TotalSizeInGB": 3600, "Disks": [{"Count": 4}]}"#, 21),
            (r#"{"TotalSizeInGB": 3600}"#, 24),
        ] {
            let more = format!(r#", "InstanceStorageInfo": {storage}"#);
            assert_eq!(limit_of("shared", &more, 1, 1), Some(limit), "{storage}");
        }
        let gpus = r#", "GpuInfo": {"Gpus": [{"Count": 8}]}"#;
        assert_eq!(limit_of("shared", gpus, 1, 1), Some(17));
    }

    #[test]
    fn dedicated_attachment_limit_covers_volumes_alone() {
        let disks = r#", "InstanceStorageInfo": {"TotalSizeInGB": 3600}"#;
        assert_eq!(limit_of("dedicated", disks, 2, 4), Some(26));
    }

    #[test]
    fn attachment_limit_is_unknown_without_ec2s_figure_and_at_least_one() {
        assert_eq!(limit(&InstanceTypeInfo::default(), 1, 1), None);
        assert_eq!(limit_of("shared", "", 40, 1), Some(1));
    }
}
