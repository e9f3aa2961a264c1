//! Requests to EC2 in the format that the AWS CLI accepts.

use std::collections::BTreeMap;

use aws_rules::launch::Trial;
use model::{
    CapacityType,
    launch::{
        AllocationStrategy, BlockDevice, FleetOverride, FleetRequest, LaunchTemplate,
        NetworkInterface, ReservationKind, ReservationUse, TemplateOverrides,
    },
};
use serde_json::{Value, json};

use super::instance_types::dollars;

pub(super) fn create_launch_template(
    template: &LaunchTemplate,
    capacity_type: CapacityType,
) -> Value {
    let tagged = |kind: &str| json!({"ResourceType": kind, "Tags": tags(&template.tags)});
    let mut specifications = vec![tagged("network-interface")];
    if capacity_type == CapacityType::Spot {
        specifications.push(tagged("spot-instances-request"));
    }
    let interfaces = template.network_interfaces.iter();
    let interfaces = interfaces.map(|interface| network_interface(interface, template));
    let devices = template.block_devices.iter().map(block_device);
    let (reservation, market) = reservation(&template.reservation);
    let placement = template.placement_group.as_ref();
    let metadata = &template.metadata;
    let nested = template
        .nested_virtualization
        .map(|on| json!({"NestedVirtualization": if on { "enabled" } else { "disabled" }}));
    json!({
        "LaunchTemplateName": template.name,
        "TagSpecifications": [tagged("launch-template")],
        "LaunchTemplateData": {
            "ImageId": template.image,
            "UserData": template.user_data,
            "IamInstanceProfile": {"Name": template.instance_profile},
            "Monitoring": {"Enabled": template.detailed_monitoring},
            "NetworkInterfaces": interfaces.collect::<Vec<_>>(),
            "BlockDeviceMappings": devices.collect::<Vec<_>>(),
            "MetadataOptions": {
                "HttpEndpoint": metadata.http_endpoint,
                "HttpProtocolIpv6": metadata.http_protocol_ipv6,
                "HttpPutResponseHopLimit": metadata.http_put_response_hop_limit,
                "HttpTokens": metadata.http_tokens,
                "InstanceMetadataTags": "disabled",
            },
            "CpuOptions": nested,
            "Placement": {
                "Tenancy": template.tenancy,
                "GroupId": placement.map(|group| &group.id),
                "PartitionNumber": placement.and_then(|group| group.partition),
            },
            "EnclaveOptions": {"Enabled": template.enclaves},
            "CapacityReservationSpecification": reservation,
            "InstanceMarketOptions": market,
            "TagSpecifications": specifications,
        },
    })
}

fn network_interface(interface: &NetworkInterface, template: &LaunchTemplate) -> Value {
    let ipv6 = interface.ipv6.as_ref();
    let tracking = interface.connection_tracking.as_ref();
    json!({
        "DeviceIndex": interface.device_index,
        "NetworkCardIndex": interface.network_card_index,
        "InterfaceType": interface.interface_type,
        "Groups": template.security_groups,
        "AssociatePublicIpAddress": interface.associate_public_ip,
        "Ipv4PrefixCount": interface.ipv4_prefixes,
        "Ipv6PrefixCount": ipv6.and_then(|ipv6| ipv6.prefixes),
        "Ipv6AddressCount": ipv6.map(|ipv6| ipv6.addresses),
        "PrimaryIpv6": ipv6.map(|ipv6| ipv6.primary),
        "ConnectionTrackingSpecification": tracking.map(|tracking| json!({
            "TcpEstablishedTimeout": tracking.tcp_established,
            "UdpStreamTimeout": tracking.udp_stream,
            "UdpTimeout": tracking.udp,
        })),
    })
}

fn block_device(device: &BlockDevice) -> Value {
    json!({
        "DeviceName": device.device_name,
        "Ebs": {
            "DeleteOnTermination": device.delete_on_termination,
            "Encrypted": device.encrypted,
            "Iops": device.iops,
            "KmsKeyId": device.kms_key,
            "SnapshotId": device.snapshot,
            "Throughput": device.throughput,
            "VolumeInitializationRate": device.volume_initialization_rate,
            "VolumeSize": device.volume_gib,
            "VolumeType": device.volume_type,
        },
    })
}

/// CapacityReservationSpecification and InstanceMarketOptions of a request.
fn reservation(reservation: &ReservationUse) -> (Value, Value) {
    match reservation {
        ReservationUse::Unspecified => (Value::Null, Value::Null),
        ReservationUse::None => (
            json!({"CapacityReservationPreference": "none"}),
            Value::Null,
        ),
        ReservationUse::Only { id, kind } => {
            let only = json!({
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": id},
            });
            let market = match kind {
                ReservationKind::Default => Value::Null,
                ReservationKind::CapacityBlock => json!({"MarketType": "capacity-block"}),
                ReservationKind::Interruptible => {
                    json!({"MarketType": "interruptible-capacity-reservation"})
                }
            };
            (only, market)
        }
    }
}

pub(super) fn create_fleet(request: &FleetRequest) -> Value {
    let kind = request
        .templates
        .first()
        .map(|config| &config.template.reservation);
    let kind = match kind {
        Some(ReservationUse::Only { kind, .. }) => *kind,
        Some(ReservationUse::None | ReservationUse::Unspecified) | None => ReservationKind::Default,
    };
    let target = match (request.capacity_type, kind) {
        (CapacityType::Spot, _) => "spot",
        (CapacityType::Reserved, ReservationKind::CapacityBlock) => "capacity-block",
        (CapacityType::Reserved, ReservationKind::Interruptible) => "reserved-capacity",
        (CapacityType::OnDemand, _) | (CapacityType::Reserved, ReservationKind::Default) => {
            "on-demand"
        }
    };
    let strategy = request.allocation.map(|strategy| {
        json!({"AllocationStrategy": match strategy {
            AllocationStrategy::LowestPrice => "lowest-price",
            AllocationStrategy::Prioritized => "prioritized",
            AllocationStrategy::PriceCapacityOptimized => "price-capacity-optimized",
            AllocationStrategy::CapacityOptimizedPrioritized => "capacity-optimized-prioritized",
        }})
    });
    let is_spot = request.capacity_type == CapacityType::Spot;
    let interruptible = json!({"ReservationTypes": ["interruptible-capacity-reservation"]});
    json!({
        "Type": "instant",
        "Context": request.context,
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": target,
            "TotalTargetCapacity": request.target_capacity,
        },
        "SpotOptions": strategy.clone().filter(|_| is_spot),
        "OnDemandOptions": strategy.filter(|_| !is_spot),
        "ReservedCapacityOptions": Some(interruptible).filter(|_| target == "reserved-capacity"),
        "TagSpecifications": tagged(&["instance", "volume", "fleet"], &request.tags),
        "LaunchTemplateConfigs": request.templates.iter().map(config).collect::<Vec<_>>(),
    })
}

/// The CreateFleet call of a trial.
pub(super) fn try_fleet(trial: &Trial) -> Value {
    let overrides = trial
        .subnets
        .iter()
        .map(|subnet| json!({"InstanceType": trial.instance_type, "SubnetId": subnet}));
    json!({
        "DryRun": true,
        "Type": "instant",
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": "on-demand",
            "TotalTargetCapacity": 1,
        },
        "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "TagSpecifications": tagged(&["instance", "volume", "fleet"], &trial.tags),
        "LaunchTemplateConfigs": [{
            "LaunchTemplateSpecification": latest(&trial.template),
            "Overrides": overrides.collect::<Vec<_>>(),
        }],
    })
}

/// The RunInstances call of a trial.
pub(super) fn try_instance(trial: &Trial, subnet: &str) -> Value {
    let interfaces = trial.template.network_interfaces.iter();
    let interfaces = interfaces.map(|interface| {
        json!({
            "DeviceIndex": interface.device_index,
            "NetworkCardIndex": interface.network_card_index,
            "InterfaceType": interface.interface_type,
            "SubnetId": subnet,
        })
    });
    json!({
        "DryRun": true,
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": trial.instance_type,
        "LaunchTemplate": latest(&trial.template),
        "NetworkInterfaces": interfaces.collect::<Vec<_>>(),
        "TagSpecifications": tagged(&["instance", "volume", "network-interface"], &trial.tags),
    })
}

fn latest(template: &LaunchTemplate) -> Value {
    json!({"LaunchTemplateName": template.name, "Version": "$Latest"})
}

fn tagged(kinds: &[&str], with: &BTreeMap<String, String>) -> Value {
    let kinds = kinds.iter();
    let tagged = kinds.map(|kind| json!({"ResourceType": kind, "Tags": tags(with)}));
    tagged.collect()
}

fn config(config: &TemplateOverrides) -> Value {
    let choice = |choice: &FleetOverride| {
        json!({
            "AvailabilityZone": choice.zone,
            "ImageId": choice.image,
            "InstanceType": choice.instance_type,
            "Priority": dollars(choice.priority),
            "SubnetId": choice.subnet,
        })
    };
    json!({
        "LaunchTemplateSpecification": latest(&config.template),
        "Overrides": config.overrides.iter().map(choice).collect::<Vec<_>>(),
    })
}

fn tags(tags: &BTreeMap<String, String>) -> Value {
    let tags = tags
        .iter()
        .map(|(key, value)| json!({"Key": key, "Value": value}));
    tags.collect()
}
