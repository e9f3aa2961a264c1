//! Launch templates, created if missing. A template's name is a digest of its content, so an existing one is right.

use std::collections::BTreeSet;

use aws_rules::errors::TEMPLATE_EXISTS;
use aws_sdk_ec2::{
    Client,
    operation::create_launch_template::builders::CreateLaunchTemplateFluentBuilder,
    types::{
        CapacityReservationPreference, CapacityReservationTarget,
        ConnectionTrackingSpecificationRequest, LaunchTemplateBlockDeviceMappingRequest,
        LaunchTemplateCapacityReservationSpecificationRequest, LaunchTemplateCpuOptionsRequest,
        LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateEnclaveOptionsRequest,
        LaunchTemplateIamInstanceProfileSpecificationRequest,
        LaunchTemplateInstanceMarketOptionsRequest, LaunchTemplateInstanceMetadataEndpointState,
        LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
        LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, LaunchTemplatePlacementRequest,
        LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest, MarketType,
        NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType,
        TagSpecification, Tenancy, VolumeType,
    },
};
use base64::{Engine, prelude::BASE64_STANDARD};
use model::{
    CapacityType,
    launch::{
        BlockDevice, FleetRequest, LaunchTemplate, NetworkInterface, ReservationKind,
        ReservationUse,
    },
};
use ports::CloudError;

use crate::{
    errors::{code, refused},
    filters::{filter, tags},
};

/// EC2's largest page size of launch templates, and the maximum number of values of a filter.
const PAGE: usize = 200;

pub(super) async fn ensure(ec2: &Client, request: &FleetRequest) -> Result<(), CloudError> {
    let templates = request.templates.iter().map(|config| &config.template);
    let templates: Vec<&LaunchTemplate> = templates.collect();
    let present = present(ec2, &templates).await?;
    for template in templates {
        if !present.contains(&template.name) {
            create(ec2, template, request.capacity_type).await?;
        }
    }
    Ok(())
}

async fn present(
    ec2: &Client,
    templates: &[&LaunchTemplate],
) -> Result<BTreeSet<String>, CloudError> {
    let mut present = BTreeSet::new();
    for templates in templates.chunks(PAGE) {
        let names = templates.iter().map(|template| template.name.as_str());
        let call = ec2
            .describe_launch_templates()
            .filters(filter("launch-template-name", names));
        let mut pages = call.into_paginator().items().send();
        while let Some(found) = pages.next().await {
            let found = found.map_err(refused("ec2:DescribeLaunchTemplates"))?;
            present.extend(found.launch_template_name);
        }
    }
    Ok(present)
}

async fn create(
    ec2: &Client,
    template: &LaunchTemplate,
    capacity_type: CapacityType,
) -> Result<(), CloudError> {
    match create_call(ec2, template, capacity_type).send().await {
        Ok(_) => Ok(()),
        Err(error) if code(&error) == Some(TEMPLATE_EXISTS) => Ok(()),
        Err(error) => Err(refused("ec2:CreateLaunchTemplate")(error)),
    }
}

pub(crate) fn create_call(
    ec2: &Client,
    template: &LaunchTemplate,
    capacity_type: CapacityType,
) -> CreateLaunchTemplateFluentBuilder {
    let own_tags = TagSpecification::builder()
        .resource_type(ResourceType::LaunchTemplate)
        .set_tags(Some(tags(&template.tags)))
        .build();
    ec2.create_launch_template()
        .launch_template_name(&template.name)
        .tag_specifications(own_tags)
        .launch_template_data(data(template, capacity_type))
}

fn data(template: &LaunchTemplate, capacity_type: CapacityType) -> RequestLaunchTemplateData {
    let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder()
        .name(&template.instance_profile)
        .build();
    let monitoring = LaunchTemplatesMonitoringRequest::builder()
        .enabled(template.detailed_monitoring)
        .build();
    let enclaves = LaunchTemplateEnclaveOptionsRequest::builder()
        .enabled(template.enclaves)
        .build();
    let devices: Vec<_> = template.block_devices.iter().map(block_device).collect();
    let interfaces = template.network_interfaces.iter();
    let interfaces = interfaces.map(|interface| network_interface(interface, template));
    let (reservation, market) = reservation(&template.reservation);
    let nested = template.nested_virtualization.map(|enabled| {
        let nested = match enabled {
            true => NestedVirtualizationSpecification::Enabled,
            false => NestedVirtualizationSpecification::Disabled,
        };
        LaunchTemplateCpuOptionsRequest::builder()
            .nested_virtualization(nested)
            .build()
    });
    RequestLaunchTemplateData::builder()
        .image_id(&template.image)
        .user_data(BASE64_STANDARD.encode(&template.user_data))
        .iam_instance_profile(profile)
        .monitoring(monitoring)
        .set_block_device_mappings((!devices.is_empty()).then_some(devices))
        .set_network_interfaces(Some(interfaces.collect()))
        .metadata_options(metadata(template))
        .placement(placement(template))
        .enclave_options(enclaves)
        .set_cpu_options(nested)
        .set_capacity_reservation_specification(reservation)
        .set_instance_market_options(market)
        .set_tag_specifications(Some(tagged(template, capacity_type)))
        .build()
}

/// Tags of resources that an instance creates besides itself. Instances, volumes and fleets are tagged by the fleet request, which knows
/// the launch.
fn tagged(
    template: &LaunchTemplate,
    capacity_type: CapacityType,
) -> Vec<LaunchTemplateTagSpecificationRequest> {
    let spot = (capacity_type == CapacityType::Spot).then_some(ResourceType::SpotInstancesRequest);
    [ResourceType::NetworkInterface]
        .into_iter()
        .chain(spot)
        .map(|resource| {
            LaunchTemplateTagSpecificationRequest::builder()
                .resource_type(resource)
                .set_tags(Some(tags(&template.tags)))
                .build()
        })
        .collect()
}

fn block_device(device: &BlockDevice) -> LaunchTemplateBlockDeviceMappingRequest {
    let number = |value: Option<i64>| value.and_then(|value| i32::try_from(value).ok());
    let volume = LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_volume_size(number(device.volume_gib))
        .set_volume_type(device.volume_type.as_deref().map(VolumeType::from))
        .set_iops(number(device.iops))
        .set_throughput(number(device.throughput))
        .set_encrypted(device.encrypted)
        .set_kms_key_id(device.kms_key.clone())
        .set_snapshot_id(device.snapshot.clone())
        .set_delete_on_termination(device.delete_on_termination)
        .set_volume_initialization_rate(number(device.volume_initialization_rate))
        .build();
    LaunchTemplateBlockDeviceMappingRequest::builder()
        .device_name(&device.device_name)
        .ebs(volume)
        .build()
}

fn network_interface(
    interface: &NetworkInterface,
    template: &LaunchTemplate,
) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = interface.connection_tracking.as_ref().map(|tracking| {
        ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(tracking.tcp_established)
            .set_udp_stream_timeout(tracking.udp_stream)
            .set_udp_timeout(tracking.udp)
            .build()
    });
    let ipv6 = interface.ipv6.as_ref();
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .device_index(interface.device_index)
        .set_network_card_index(interface.network_card_index)
        .set_interface_type(interface.interface_type.clone())
        .set_groups(Some(template.security_groups.clone()))
        .set_associate_public_ip_address(interface.associate_public_ip)
        .set_ipv4_prefix_count(interface.ipv4_prefixes)
        .set_ipv6_address_count(ipv6.map(|ipv6| ipv6.addresses))
        .set_ipv6_prefix_count(ipv6.and_then(|ipv6| ipv6.prefixes))
        .set_primary_ipv6(ipv6.map(|ipv6| ipv6.primary))
        .set_connection_tracking_specification(tracking)
        .build()
}

/// Metadata options. Instance tags are not exposed in the metadata service: pods that can reach it need not know them.
fn metadata(template: &LaunchTemplate) -> LaunchTemplateInstanceMetadataOptionsRequest {
    use aws_sdk_ec2::types::{
        LaunchTemplateHttpTokensState as Tokens, LaunchTemplateInstanceMetadataTagsState as Tags,
    };
    let options = &template.metadata;
    let endpoint = options.http_endpoint.as_deref();
    let ipv6 = options.http_protocol_ipv6.as_deref();
    let hops = options.http_put_response_hop_limit;
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(endpoint.map(LaunchTemplateInstanceMetadataEndpointState::from))
        .set_http_protocol_ipv6(ipv6.map(LaunchTemplateInstanceMetadataProtocolIpv6::from))
        .set_http_put_response_hop_limit(hops.and_then(|hops| i32::try_from(hops).ok()))
        .set_http_tokens(options.http_tokens.as_deref().map(Tokens::from))
        .instance_metadata_tags(Tags::Disabled)
        .build()
}

fn placement(template: &LaunchTemplate) -> LaunchTemplatePlacementRequest {
    let group = template.placement_group.as_ref();
    LaunchTemplatePlacementRequest::builder()
        .tenancy(Tenancy::from(template.tenancy.as_str()))
        .set_group_id(group.map(|group| group.id.clone()))
        .set_partition_number(group.and_then(|group| group.partition))
        .build()
}

fn reservation(
    reservation: &ReservationUse,
) -> (
    Option<LaunchTemplateCapacityReservationSpecificationRequest>,
    Option<LaunchTemplateInstanceMarketOptionsRequest>,
) {
    let preferring = |preference| {
        LaunchTemplateCapacityReservationSpecificationRequest::builder()
            .capacity_reservation_preference(preference)
    };
    match reservation {
        ReservationUse::Unspecified => (None, None),
        ReservationUse::None => {
            let none = preferring(CapacityReservationPreference::None).build();
            (Some(none), None)
        }
        ReservationUse::Only { id, kind } => {
            let target = CapacityReservationTarget::builder()
                .capacity_reservation_id(id)
                .build();
            let only = preferring(CapacityReservationPreference::CapacityReservationsOnly)
                .capacity_reservation_target(target)
                .build();
            let market = match kind {
                ReservationKind::Default => None,
                ReservationKind::CapacityBlock => Some(MarketType::CapacityBlock),
                ReservationKind::Interruptible => {
                    Some(MarketType::InterruptibleCapacityReservation)
                }
            };
            let market = market.map(|market| {
                LaunchTemplateInstanceMarketOptionsRequest::builder()
                    .market_type(market)
                    .build()
            });
            (Some(only), market)
        }
    }
}
