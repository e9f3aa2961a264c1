//! Fake of the launch builder: CreateFleet requests, and the interpretation of their answers.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    EC2NodeClass,
    names::{annotation, label},
};
use async_trait::async_trait;
use model::{
    CapacityType, ClusterName, FreeAddresses, InstanceType,
    ids::LaunchToken,
    labels,
    launch::{
        AllocationStrategy, FleetOutcome, FleetOverride, FleetRequest, FleetResponse,
        LaunchRefusal, LaunchTemplate, Launched, LaunchedClaim, OfferingFailure, TemplateOverrides,
    },
    ledger::OfferingKey,
    plan::Launch,
    requirement::Requirements,
};
use ports::{CloudError, LaunchBuilder, Launches, StaticHash};

use crate::{
    account::NO_ADDRESSES,
    provider::{static_hash, subnets},
    sim::Sim,
};

#[async_trait]
impl Launches for Sim {
    async fn prepare(
        &self,
        cluster: &ClusterName,
        _: &serde_json::Value,
    ) -> Result<Box<dyn LaunchBuilder>, CloudError> {
        let builder = Builder {
            cluster: cluster.clone(),
        };
        self.neutral_call("prepare", |_| {
            Ok(Box::new(builder) as Box<dyn LaunchBuilder>)
        })
        .await
    }

    async fn free_addresses(
        &self,
        subnets: &BTreeSet<String>,
    ) -> Result<FreeAddresses, CloudError> {
        self.neutral_call("free_addresses", |world| {
            Ok(world.account.addresses(subnets))
        })
        .await
    }
}

struct Builder {
    cluster: ClusterName,
}

impl LaunchBuilder for Builder {
    /// Requests all available offerings that the launch allows, of one capacity type: reserved before spot before on-demand.
    /// Fails if the NodeClass excludes a requested resource.
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
        free_addresses: &FreeAddresses,
    ) -> Result<FleetRequest, LaunchRefusal> {
        let refused = node_class.spec.refused_resources().into_iter();
        if let Some(resource) = refused
            .filter(|name| launch.spec.requests.get(name) > 0)
            .min()
        {
            return Err(LaunchRefusal::Create {
                reason: "NitroEnclavesDisabled",
                message: format!("pods ask for {resource}"),
            });
        }
        let wanted = Requirements::from_selector(&launch.spec.requirements);
        let admits = |key: &str, value: &str| {
            wanted
                .0
                .get(key)
                .is_none_or(|requirement| requirement.has(value))
        };
        let status = node_class.status.as_ref();
        let images = status.and_then(|status| status.amis.as_ref());
        let image = images.and_then(|images| images.first());
        let image = image.map_or("ami-1", |image| &image.id);
        let overrides = |capacity_type: CapacityType| -> Vec<FleetOverride> {
            instance_types
                .iter()
                .filter(|instance_type| {
                    launch
                        .instance_types
                        .iter()
                        .any(|name| name.as_str() == instance_type.name)
                })
                .flat_map(|instance_type| {
                    instance_type
                        .offerings
                        .iter()
                        .map(move |offering| (instance_type, offering))
                })
                .filter(|(_, offering)| {
                    offering.available
                        && offering.capacity_type == capacity_type
                        && admits(labels::ZONE, &offering.zone)
                        && admits(labels::CAPACITY_TYPE, capacity_type.as_str())
                })
                .map(|(instance_type, offering)| FleetOverride {
                    instance_type: instance_type.name.clone(),
                    zone: offering.zone.clone(),
                    subnet: subnets(&offering.zone)
                        .into_iter()
                        .rev()
                        .max_by_key(|subnet| free_addresses.of(subnet)),
                    image: image.into(),
                    priority: offering.price.0,
                })
                .collect()
        };
        let choice = [
            CapacityType::Reserved,
            CapacityType::Spot,
            CapacityType::OnDemand,
        ];
        let choice = choice
            .into_iter()
            .map(|capacity_type| (capacity_type, overrides(capacity_type)))
            .find(|(_, overrides)| !overrides.is_empty());
        let (capacity_type, overrides) = choice.ok_or(LaunchRefusal::InsufficientCapacity {
            message: "no offering is left".into(),
        })?;
        let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        Ok(FleetRequest {
            cluster: self.cluster.clone(),
            token: LaunchToken::default(),
            node_class: node_class.metadata.name.as_str().into(),
            capacity_type,
            target_capacity: 1,
            allocation: Some(AllocationStrategy::LowestPrice),
            context: None,
            templates: vec![TemplateOverrides {
                template: LaunchTemplate {
                    name: "template".into(),
                    ..LaunchTemplate::default()
                },
                overrides,
            }],
            tags: BTreeMap::from([
                tag(api::names::tag::EKS_CLUSTER, self.cluster.as_str()),
                tag(api::names::tag::NODE_POOL, launch.node_pool.as_str()),
            ]),
            claim_annotations: {
                let StaticHash { hash, version } = static_hash(node_class);
                BTreeMap::from([
                    (annotation::EC2_NODE_CLASS_HASH.to_owned(), hash),
                    (
                        annotation::EC2_NODE_CLASS_HASH_VERSION.to_owned(),
                        version.to_owned(),
                    ),
                ])
            },
        })
    }

    /// Launches of the fake account fail only for lack of capacity or addresses.
    fn read(
        &self,
        request: &FleetRequest,
        answer: &FleetResponse,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> FleetOutcome {
        let key = |failure: &OfferingFailure| {
            Some(OfferingKey {
                capacity_type: request.capacity_type,
                instance_type: failure.instance_type.clone(),
                zone_id: (*zone_ids.get(failure.zone.as_str())?).to_owned(),
                scope: None,
            })
        };
        let failures = answer.failures.iter();
        let messages: BTreeSet<String> = failures
            .clone()
            .map(|failure| format!("{}: {}", failure.code, failure.message))
            .collect();
        FleetOutcome {
            full_subnets: failures
                .clone()
                .filter(|failure| failure.code == NO_ADDRESSES)
                .filter_map(|failure| failure.subnet.clone())
                .collect(),
            unavailable: failures
                .filter(|failure| failure.code != NO_ADDRESSES)
                .filter_map(key)
                .collect(),
            refusal: LaunchRefusal::InsufficientCapacity {
                message: messages.into_iter().collect::<Vec<_>>().join("; "),
            },
            warning: None,
        }
    }

    fn launched(
        &self,
        _: &Launch,
        _: &EC2NodeClass,
        instance_type: &InstanceType,
        launched: &Launched,
        reservation: Option<&str>,
    ) -> LaunchedClaim {
        let offerings = instance_type.offerings.iter();
        let mut own = offerings.filter(|offering| {
            offering.zone == launched.zone && offering.capacity_type == launched.capacity_type
        });
        let offering = own.next();
        let requirements = instance_type.requirements.0.iter();
        let single = requirements.filter(|(_, own)| !own.complement && own.values.len() == 1);
        let mut labels: BTreeMap<String, String> = single
            .filter_map(|(key, own)| Some((key.clone(), own.values.first()?.clone())))
            .collect();
        if let Some(offering) = offering {
            if !offering.zone_id.is_empty() {
                labels.insert(labels::ZONE_ID.to_owned(), offering.zone_id.clone());
            }
            let of_offering = offering.reservation.as_ref().map(|own| own.id.as_str());
            if let Some(id) = reservation.or(of_offering) {
                labels.insert(label::CAPACITY_RESERVATION_ID.to_owned(), id.to_owned());
            }
        }
        LaunchedClaim {
            labels,
            capacity: instance_type.capacity.clone(),
            allocatable: instance_type.allocatable(),
            ..LaunchedClaim::default()
        }
    }

    fn refused(&self, error: &str) -> LaunchRefusal {
        let denied = error.contains(" was denied");
        LaunchRefusal::Create {
            reason: if denied {
                "Unauthorized"
            } else {
                "LaunchFailed"
            },
            message: error.to_owned(),
        }
    }
}
