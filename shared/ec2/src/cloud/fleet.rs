//! One frozen CreateFleet call.

use std::time::Duration;

use aws_rules::errors;
use aws_sdk_ec2::{
    Client,
    operation::create_fleet::{CreateFleetOutput, builders::CreateFleetFluentBuilder},
    types::{
        DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest,
        FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
        FleetOnDemandAllocationStrategy, FleetReservationType, FleetType, InstanceType,
        LaunchTemplateAndOverridesResponse, OnDemandOptionsRequest, ReservedCapacityOptionsRequest,
        ResourceType, SpotAllocationStrategy, SpotOptionsRequest, TagSpecification,
        TargetCapacitySpecificationRequest,
    },
};
use aws_smithy_types::timeout::TimeoutConfig;
use jiff::Timestamp;
use model::{
    CapacityType, InstanceId,
    launch::{
        AllocationStrategy, FleetOverride, FleetRequest, FleetResponse, Launched, OfferingFailure,
        ReservationKind, ReservationUse, TemplateOverrides,
    },
};
use ports::CloudError;

use super::templates;
use crate::{Account, errors::code, errors::refused, filters::tags};

pub(super) const ACTION: &str = "ec2:CreateFleet";

pub(super) async fn launch(
    account: &Account,
    request: &FleetRequest,
    not_after: Timestamp,
) -> Result<FleetResponse, CloudError> {
    let ec2 = account.ec2_of(&request.cluster).await;
    let mut answer = send(&ec2, request, time_left(account, not_after)?).await;
    if let Err(error) = &answer
        && code(error) == Some(errors::TEMPLATE_NOT_FOUND)
    {
        // A template may have been collected or deleted since the launch was prepared.
        templates::ensure(&ec2, request).await?;
        answer = send(&ec2, request, time_left(account, not_after)?).await;
    }
    let output = answer.map_err(refused(ACTION))?;
    Ok(read(request, output))
}

type SendError =
    aws_sdk_ec2::error::SdkError<aws_sdk_ec2::operation::create_fleet::CreateFleetError>;

fn time_left(account: &Account, not_after: Timestamp) -> Result<Duration, CloudError> {
    let left = not_after.duration_since(account.clock.now());
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Ok(left),
        Ok(_) | Err(_) => Err(CloudError::NotSent {
            action: ACTION.to_owned(),
            not_after,
        }),
    }
}

/// Sends the request. The SDK's own retries end with the operation's timeout, so no request starts after it. One attempt may take all of
/// that time: with many overrides and little capacity EC2 answers slowly, and repeating a request that EC2 still works on gains nothing.
async fn send(
    ec2: &Client,
    request: &FleetRequest,
    left: Duration,
) -> Result<CreateFleetOutput, SendError> {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(left)
        .operation_attempt_timeout(left)
        .build();
    let config = aws_sdk_ec2::config::Builder::new().timeout_config(timeouts);
    let call = call(ec2, request).customize().config_override(config);
    call.send().await
}

fn call(ec2: &Client, request: &FleetRequest) -> CreateFleetFluentBuilder {
    let kind = request
        .templates
        .first()
        .map(|config| &config.template.reservation);
    let kind = match kind {
        Some(ReservationUse::Only { kind, .. }) => *kind,
        Some(ReservationUse::None | ReservationUse::Unspecified) | None => ReservationKind::Default,
    };
    let capacity = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(request.target_capacity).unwrap_or(i32::MAX))
        .default_target_capacity_type(target(request.capacity_type, kind))
        .build();
    let tagged = [
        ResourceType::Instance,
        ResourceType::Volume,
        ResourceType::Fleet,
    ];
    let specifications = tagged.into_iter().map(|resource| {
        TagSpecification::builder()
            .resource_type(resource)
            .set_tags(Some(tags(&request.tags)))
            .build()
    });
    let configs = request.templates.iter().map(template_config).collect();
    let call = ec2
        .create_fleet()
        .r#type(FleetType::Instant)
        .client_token(request.token.as_str())
        .target_capacity_specification(capacity)
        .set_context(request.context.clone())
        .set_tag_specifications(Some(specifications.collect()))
        .set_launch_template_configs(Some(configs));
    match (request.allocation, kind) {
        (Some(strategy), _) => allocation(call, strategy),
        (None, ReservationKind::Interruptible) => {
            let types = FleetReservationType::InterruptibleCapacityReservation;
            let options = ReservedCapacityOptionsRequest::builder().reservation_types(types);
            call.reserved_capacity_options(options.build())
        }
        (None, ReservationKind::Default | ReservationKind::CapacityBlock) => call,
    }
}

fn target(capacity_type: CapacityType, kind: ReservationKind) -> DefaultTargetCapacityType {
    match (capacity_type, kind) {
        (CapacityType::Spot, _) => DefaultTargetCapacityType::Spot,
        (CapacityType::Reserved, ReservationKind::CapacityBlock) => {
            DefaultTargetCapacityType::CapacityBlock
        }
        (CapacityType::Reserved, ReservationKind::Interruptible) => {
            DefaultTargetCapacityType::ReservedCapacity
        }
        (CapacityType::OnDemand, _) | (CapacityType::Reserved, ReservationKind::Default) => {
            DefaultTargetCapacityType::OnDemand
        }
    }
}

fn allocation(
    call: CreateFleetFluentBuilder,
    strategy: AllocationStrategy,
) -> CreateFleetFluentBuilder {
    let spot = |strategy| {
        SpotOptionsRequest::builder()
            .allocation_strategy(strategy)
            .build()
    };
    let on_demand = |strategy| {
        OnDemandOptionsRequest::builder()
            .allocation_strategy(strategy)
            .build()
    };
    match strategy {
        AllocationStrategy::PriceCapacityOptimized => {
            call.spot_options(spot(SpotAllocationStrategy::PriceCapacityOptimized))
        }
        AllocationStrategy::CapacityOptimizedPrioritized => {
            call.spot_options(spot(SpotAllocationStrategy::CapacityOptimizedPrioritized))
        }
        AllocationStrategy::LowestPrice => {
            call.on_demand_options(on_demand(FleetOnDemandAllocationStrategy::LowestPrice))
        }
        AllocationStrategy::Prioritized => {
            call.on_demand_options(on_demand(FleetOnDemandAllocationStrategy::Prioritized))
        }
    }
}

fn template_config(config: &TemplateOverrides) -> FleetLaunchTemplateConfigRequest {
    let template = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&config.template.name)
        .version("$Latest")
        .build();
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(config.overrides.iter().map(override_of).collect()))
        .build()
}

fn override_of(choice: &FleetOverride) -> FleetLaunchTemplateOverridesRequest {
    FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(InstanceType::from(choice.instance_type.as_str()))
        .availability_zone(&choice.zone)
        .set_subnet_id(choice.subnet.clone())
        .image_id(&choice.image)
        .priority(dollars(choice.priority))
        .build()
}

/// EC2 takes priorities as floating-point numbers; only their order counts.
#[expect(
    clippy::cast_precision_loss,
    reason = "prices are far below 2^53 nano-dollars"
)]
fn dollars(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// The override that an answer names, as far as EC2 names it.
#[derive(Default)]
struct OverrideKey {
    instance_type: Option<String>,
    zone: Option<String>,
    subnet: Option<String>,
    image: Option<String>,
}

impl OverrideKey {
    fn of(answered: Option<LaunchTemplateAndOverridesResponse>) -> Self {
        let chosen = answered.and_then(|answered| answered.overrides);
        chosen.map_or_else(Self::default, |chosen| Self {
            instance_type: chosen.instance_type.map(|t| t.as_str().to_owned()),
            zone: chosen.availability_zone,
            subnet: chosen.subnet_id,
            image: chosen.image_id,
        })
    }
}

/// Reads an answer. Fields that EC2 leaves out are taken from the request's override of that subnet and type.
fn read(request: &FleetRequest, output: CreateFleetOutput) -> FleetResponse {
    let mut answer = FleetResponse::default();
    for group in output.instances.unwrap_or_default() {
        let chosen = OverrideKey::of(group.launch_template_and_overrides);
        let instance_type = group.instance_type.map(|t| t.as_str().to_owned());
        let instance_type = instance_type.or(chosen.instance_type);
        let choice = choice(
            request,
            instance_type.as_deref(),
            chosen.zone.as_deref(),
            chosen.subnet.as_deref(),
        );
        let of_choice =
            |field: fn(&FleetOverride) -> &String| choice.map(field).cloned().unwrap_or_default();
        let instance_type = instance_type.unwrap_or_else(|| of_choice(|c| &c.instance_type));
        let zone = chosen.zone.unwrap_or_else(|| of_choice(|c| &c.zone));
        let image = chosen.image.unwrap_or_else(|| of_choice(|c| &c.image));
        let subnet = chosen
            .subnet
            .or_else(|| choice.and_then(|choice| choice.subnet.clone()));
        for id in group.instance_ids.unwrap_or_default() {
            answer.instances.push(Launched {
                instance: InstanceId::from(id),
                instance_type: instance_type.clone(),
                zone: zone.clone(),
                capacity_type: request.capacity_type,
                image: image.clone(),
                subnet: subnet.clone(),
            });
        }
    }
    for error in output.errors.unwrap_or_default() {
        let chosen = OverrideKey::of(error.launch_template_and_overrides);
        answer.failures.push(OfferingFailure {
            instance_type: chosen.instance_type.unwrap_or_default(),
            zone: chosen.zone.unwrap_or_default(),
            subnet: chosen.subnet,
            code: error.error_code.unwrap_or_default(),
            message: error.error_message.unwrap_or_default(),
        });
    }
    answer
}

/// The override that matches the names in the answer.
fn choice<'a>(
    request: &'a FleetRequest,
    instance_type: Option<&str>,
    zone: Option<&str>,
    subnet: Option<&str>,
) -> Option<&'a FleetOverride> {
    let mut overrides = request
        .templates
        .iter()
        .flat_map(|config| &config.overrides);
    overrides.find(|choice| {
        instance_type.is_none_or(|name| choice.instance_type == name)
            && zone.is_none_or(|zone| choice.zone == zone)
            && subnet.is_none_or(|subnet| choice.subnet.as_deref() == Some(subnet))
    })
}
