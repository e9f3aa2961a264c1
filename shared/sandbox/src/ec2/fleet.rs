use jiff::Timestamp;
use model::{
    CapacityType, InstanceId, NanosPerHour,
    launch::{
        AllocationStrategy, FleetOverride, FleetRequest, FleetResponse, Instance, InstanceState,
        LaunchTemplate, Launched, OfferingFailure,
    },
};

use super::{Account, Record, boot};
use crate::controllers::{Machines, digest};

/// Why CreateFleet refuses a whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// One override with the template that it is of.
#[derive(Clone, Copy)]
struct Choice<'a> {
    template: &'a LaunchTemplate,
    offering: &'a FleetOverride,
}

impl Account {
    /// CreateFleet of type `instant`: as many as the pools and quotas have, and a failure for every override that had none.
    pub(super) fn create_fleet(
        &mut self,
        request: &FleetRequest,
        machines: &mut Machines,
        now: Timestamp,
    ) -> Result<FleetResponse, Refusal> {
        self.requests.push((now, request.clone()));
        if self.options.honors_client_tokens
            && let Some((first, answer)) = self.answered.get(&request.token)
        {
            return if first == request {
                Ok(answer.clone())
            } else {
                Err(Refusal {
                    code: "IdempotentParameterMismatch",
                    message: "The client token was used with other parameters".to_owned(),
                })
            };
        }
        for template in &request.templates {
            self.templates.insert(template.template.name.clone());
        }
        let mut answer = FleetResponse::default();
        let mut failures: Vec<OfferingFailure> = Vec::new();
        for _ in 0..request.target_capacity {
            match self.choose(request, &mut failures) {
                Some(choice) => {
                    let launched = self.start(request, choice, machines, now);
                    answer.instances.push(launched);
                }
                None => break,
            }
        }
        answer.failures = failures;
        self.answered
            .insert(request.token.clone(), (request.clone(), answer.clone()));
        Ok(answer)
    }

    /// The best override that can be had; why others cannot is noted, each once.
    fn choose<'r>(
        &self,
        request: &'r FleetRequest,
        failures: &mut Vec<OfferingFailure>,
    ) -> Option<Choice<'r>> {
        let choices = request.templates.iter().flat_map(|template| {
            template.overrides.iter().map(|offering| Choice {
                template: &template.template,
                offering,
            })
        });
        let by_priority = matches!(
            request.allocation,
            Some(
                AllocationStrategy::Prioritized | AllocationStrategy::CapacityOptimizedPrioritized
            )
        );
        let mut available: Vec<(i64, Choice<'r>)> = Vec::new();
        for choice in choices {
            let price = self.offered_price(request.capacity_type, choice.offering);
            match (self.problem(request.capacity_type, choice.offering), price) {
                (None, Some(price)) => {
                    let rank = if by_priority {
                        choice.offering.priority
                    } else {
                        price.0
                    };
                    available.push((rank, choice));
                }
                (Some((code, message)), _) => note(failures, choice.offering, code, message),
                (None, None) => note(
                    failures,
                    choice.offering,
                    "Unsupported",
                    format!(
                        "Your requested instance type ({}) is not supported in your requested Availability Zone ({}).",
                        choice.offering.instance_type, choice.offering.zone
                    ),
                ),
            }
        }
        available
            .into_iter()
            .min_by_key(|(rank, choice)| {
                let offering = choice.offering;
                (*rank, offering.instance_type.clone(), offering.zone.clone())
            })
            .map(|(_, choice)| choice)
    }

    fn offered_price(
        &self,
        capacity_type: CapacityType,
        offering: &FleetOverride,
    ) -> Option<NanosPerHour> {
        let kind = self.instance_type(&offering.instance_type)?;
        let offered = kind.offerings.iter().find(|candidate| {
            candidate.capacity_type == capacity_type && candidate.zone == offering.zone
        })?;
        Some(offered.price)
    }

    /// Why nothing can be launched in a pool now.
    fn problem(
        &self,
        capacity_type: CapacityType,
        offering: &FleetOverride,
    ) -> Option<(&'static str, String)> {
        let FleetOverride {
            instance_type,
            zone,
            ..
        } = offering;
        let pool = (capacity_type, instance_type.clone(), zone.clone());
        if self.capacity.get(&pool) == Some(&0) {
            let message = format!(
                "We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone})."
            );
            return Some(("InsufficientInstanceCapacity", message));
        }
        if let Some(subnet) = &offering.subnet {
            match self.options.subnets.iter().find(|own| own.id == *subnet) {
                None => {
                    let message = format!("The subnet ID '{subnet}' does not exist");
                    return Some(("InvalidSubnetID.NotFound", message));
                }
                Some(own) if own.free_addresses <= 0 => {
                    let message =
                        format!("There are not enough free addresses in subnet '{subnet}'.");
                    return Some(("InsufficientFreeAddressesInSubnet", message));
                }
                Some(_) => {}
            }
        }
        let limit = self.options.quotas.of(capacity_type)?;
        if self.running_vcpus(capacity_type) + self.vcpus(instance_type) <= limit {
            return None;
        }
        Some(match capacity_type {
            CapacityType::Spot => (
                "MaxSpotInstanceCountExceeded",
                "Max spot instance count exceeded".to_owned(),
            ),
            CapacityType::OnDemand | CapacityType::Reserved => (
                "VcpuLimitExceeded",
                format!(
                    "You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket that the specified instance type belongs to."
                ),
            ),
        })
    }

    fn vcpus(&self, instance_type: &str) -> i64 {
        let cpu = |kind: &model::InstanceType| kind.capacity.get(model::resources::CPU) / 1000;
        self.instance_type(instance_type).map_or(0, cpu)
    }

    fn running_vcpus(&self, capacity_type: CapacityType) -> i64 {
        self.instances
            .values()
            .filter(|record| record.instance.state.is_alive())
            .filter(|record| record.instance.capacity_type == capacity_type)
            .map(|record| record.vcpus)
            .sum()
    }

    fn start(
        &mut self,
        request: &FleetRequest,
        choice: Choice<'_>,
        machines: &mut Machines,
        now: Timestamp,
    ) -> Launched {
        let offering = choice.offering;
        let pool = (
            request.capacity_type,
            offering.instance_type.clone(),
            offering.zone.clone(),
        );
        if let Some(left) = self.capacity.get_mut(&pool) {
            *left = left.saturating_sub(1);
        }
        let subnets = &mut self.options.subnets;
        if let Some(subnet) = subnets
            .iter_mut()
            .find(|own| Some(&own.id) == offering.subnet.as_ref())
        {
            subnet.free_addresses -= 1;
        }
        self.next_number += 1;
        let number = self.next_number;
        let id = InstanceId(format!(
            "i-{:017x}",
            digest(&[request.token.as_str(), &number.to_string()])
        ));
        let [.., high, low] = number.to_be_bytes();
        let address = format!("10.0.{high}.{low}");
        let node = boot::node_name(&self.options.region, &address);
        let instance = Instance {
            id: id.clone(),
            state: InstanceState::Pending,
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
            zone_id: self
                .options
                .zones
                .get(&offering.zone)
                .cloned()
                .unwrap_or_default(),
            capacity_type: request.capacity_type,
            image: offering.image.clone(),
            subnet: offering.subnet.clone(),
            security_groups: choice.template.security_groups.iter().cloned().collect(),
            reservation: None,
            private_dns: Some(node.clone()),
            launched_at: Some(now),
            tags: request.tags.clone(),
            state_reason: None,
        };
        if let Some(kind) = self.instance_type(&offering.instance_type) {
            let join = boot::node(kind, &instance, &address, &choice.template.user_data);
            let joins_at = now.checked_add(self.options.boot).unwrap_or(now);
            machines.start(join, joins_at);
        }
        let price = self.offered_price(request.capacity_type, offering);
        let record = Record {
            node,
            vcpus: self.vcpus(&offering.instance_type),
            price: price.unwrap_or_default(),
            state_since: now,
            reclaimed_at: None,
            ended_at: None,
            instance,
        };
        self.instances.insert(id.clone(), record);
        Launched {
            instance: id,
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
            capacity_type: request.capacity_type,
            image: offering.image.clone(),
            subnet: offering.subnet.clone(),
        }
    }
}

fn note(
    failures: &mut Vec<OfferingFailure>,
    offering: &FleetOverride,
    code: &str,
    message: String,
) {
    let failure = OfferingFailure {
        instance_type: offering.instance_type.clone(),
        zone: offering.zone.clone(),
        subnet: offering.subnet.clone(),
        code: code.to_owned(),
        message,
    };
    if !failures.contains(&failure) {
        failures.push(failure);
    }
}
