//! Dry runs: EC2's answers to the calls of a launch that launches nothing.

use api::EC2NodeClass;
use aws_rules::{
    ClusterFacts, LaunchInput, ProviderSettings,
    instance_types::{RegionCatalog, ResolveInput, instance_types},
    launch::{Trial, trial},
    node_class::{DryRunAct, DryRuns, Refusal, ValidationMemory, Verdict},
    placement::PlacementGroupFact,
};
use aws_sdk_ec2::{
    Client,
    config::retry::RetryConfig,
    operation::{
        create_fleet::builders::CreateFleetFluentBuilder,
        run_instances::builders::RunInstancesFluentBuilder,
    },
    types::{
        DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest,
        FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
        FleetOnDemandAllocationStrategy, FleetType, InstanceNetworkInterfaceSpecification,
        InstanceType, LaunchTemplateSpecification, OnDemandOptionsRequest, ResourceType,
        TagSpecification, TargetCapacitySpecificationRequest,
    },
};
use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use jiff::Timestamp;
use model::{CapacityType, ClusterName, FreeAddresses, node_pool::NodePool};
use ports::CloudError;
use tokio::sync::Mutex;

use crate::{Account, cloud::templates, errors::refusal, filters::tags};

/// Recent verdicts of dry runs.
#[derive(Default)]
pub(crate) struct ValidationCache(Mutex<ValidationMemory>);

/// Inputs of a NodeClass's dry runs.
pub(super) struct DryRunInput<'a> {
    pub(super) cluster: &'a ClusterFacts,
    pub(super) settings: &'a ProviderSettings,
    pub(super) catalog: &'a RegionCatalog,
    pub(super) placement_group: Option<&'a PlacementGroupFact>,
    pub(super) node_pools: &'a [NodePool],
}

impl Account {
    /// EC2's verdict on a NodeClass with its new status, cached while it is valid.
    pub(super) async fn verdict(
        &self,
        class: &EC2NodeClass,
        trying: DryRunInput<'_>,
        now: Timestamp,
    ) -> Result<Verdict, CloudError> {
        if !trying.settings.dry_runs {
            return Ok(Verdict::Passed);
        }
        if let Some(known) = self.validations.0.lock().await.recall(class, now) {
            return Ok(known);
        }
        let verdict = match prepared(class, &trying) {
            Ok(trial) => self.dry_runs(&trying.cluster.name, class, &trial).await?,
            Err(verdict) => verdict,
        };
        self.validations.0.lock().await.keep(class, &verdict, now);
        Ok(verdict)
    }

    async fn dry_runs(
        &self,
        cluster: &ClusterName,
        class: &EC2NodeClass,
        trial: &Trial,
    ) -> Result<Verdict, CloudError> {
        let ec2 = self.ec2_of(cluster).await;
        let once = || aws_sdk_ec2::config::Builder::new().retry_config(RetryConfig::disabled());
        let mut runs = DryRuns::new(class, trial);
        let mut answer = Ok(());
        loop {
            answer = match runs.next(answer) {
                DryRunAct::Done(verdict) => return Ok(verdict),
                DryRunAct::CreateLaunchTemplate => {
                    let call =
                        templates::create_call(&ec2, &trial.template, CapacityType::OnDemand);
                    answered("ec2:CreateLaunchTemplate", call.send().await)?
                }
                DryRunAct::CreateFleet => {
                    let call = fleet(&ec2, trial).customize().config_override(once());
                    answered("ec2:CreateFleet", call.send().await)?
                }
                DryRunAct::RunInstances { subnet } => {
                    let call = instance(&ec2, trial, &subnet);
                    let call = call.customize().config_override(once());
                    answered("ec2:RunInstances", call.send().await)?
                }
            };
        }
    }
}

/// EC2's answer to a call; an error if the call was not sent.
fn answered<T, E>(
    action: &str,
    answer: Result<T, SdkError<E, HttpResponse>>,
) -> Result<Result<(), Refusal>, CloudError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match answer {
        Ok(_) => Ok(Ok(())),
        Err(error) => refusal(action, error).map(Err),
    }
}

fn prepared(class: &EC2NodeClass, trying: &DryRunInput<'_>) -> Result<Trial, Verdict> {
    let through = ResolveInput {
        node_class: class,
        settings: trying.settings,
        measured_memory: &[],
        placement_group: trying.placement_group,
    };
    let types = instance_types(trying.catalog, through).map_err(|error| Verdict::Failed {
        message: error.to_string(),
    })?;
    let input = LaunchInput {
        cluster: trying.cluster,
        settings: trying.settings,
        node_class: class,
        instance_types: &types,
        free_addresses: &FreeAddresses::default(),
    };
    Ok(trial(&input, trying.node_pools)?)
}

fn fleet(ec2: &Client, trial: &Trial) -> CreateFleetFluentBuilder {
    let template = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&trial.template.name)
        .version("$Latest")
        .build();
    let overrides = trial.subnets.iter().map(|subnet| {
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::from(trial.instance_type.as_str()))
            .subnet_id(subnet)
            .build()
    });
    let config = FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(overrides.collect()))
        .build();
    let capacity = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(1)
        .default_target_capacity_type(DefaultTargetCapacityType::OnDemand)
        .build();
    let options = OnDemandOptionsRequest::builder()
        .allocation_strategy(FleetOnDemandAllocationStrategy::LowestPrice)
        .build();
    let tagged = [
        ResourceType::Instance,
        ResourceType::Volume,
        ResourceType::Fleet,
    ];
    ec2.create_fleet()
        .dry_run(true)
        .r#type(FleetType::Instant)
        .target_capacity_specification(capacity)
        .on_demand_options(options)
        .set_tag_specifications(Some(specifications(tagged, trial)))
        .launch_template_configs(config)
}

fn instance(ec2: &Client, trial: &Trial, subnet: &str) -> RunInstancesFluentBuilder {
    let template = LaunchTemplateSpecification::builder()
        .launch_template_name(&trial.template.name)
        .version("$Latest")
        .build();
    let interfaces = trial.template.network_interfaces.iter();
    let interfaces = interfaces.map(|interface| {
        InstanceNetworkInterfaceSpecification::builder()
            .device_index(interface.device_index)
            .set_network_card_index(interface.network_card_index)
            .set_interface_type(interface.interface_type.clone())
            .subnet_id(subnet)
            .build()
    });
    let tagged = [
        ResourceType::Instance,
        ResourceType::Volume,
        ResourceType::NetworkInterface,
    ];
    ec2.run_instances()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .instance_type(InstanceType::from(trial.instance_type.as_str()))
        .launch_template(template)
        .set_network_interfaces(Some(interfaces.collect()))
        .set_tag_specifications(Some(specifications(tagged, trial)))
}

fn specifications(
    resources: impl IntoIterator<Item = ResourceType>,
    trial: &Trial,
) -> Vec<TagSpecification> {
    let resources = resources.into_iter();
    let tagged = resources.map(|resource| {
        TagSpecification::builder()
            .resource_type(resource)
            .set_tags(Some(tags(&trial.tags)))
            .build()
    });
    tagged.collect()
}
