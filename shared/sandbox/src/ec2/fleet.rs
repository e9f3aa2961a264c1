use jiff::Timestamp;
use model::{
    CapacityType, InstanceId, NanosPerHour,
    launch::{
        AllocationStrategy, FleetOverride, FleetRequest, FleetResponse, Instance, InstanceState,
        LaunchTemplate, Launched, OfferingFailure,
    },
};

use super::{Account, InstanceRecord, boot};
use crate::{controllers::Machines, digest::digest};

/// Error of a whole CreateFleet request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestError {
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// Override with the launch template that it belongs to.
#[derive(Clone, Copy)]
struct FleetCandidate<'a> {
    template: &'a LaunchTemplate,
    offering: &'a FleetOverride,
}

impl Account {
    /// Performs CreateFleet of type `instant`: launches as many instances as pools and quotas allow, and returns an
    /// error for each override that had no capacity.
    pub(super) fn create_fleet(
        &mut self,
        request: &FleetRequest,
        machines: &mut Machines,
        now: Timestamp,
    ) -> Result<FleetResponse, RequestError> {
        self.requests.push((now, request.clone()));
        if self.options.honors_client_tokens
            && let Some((first, answer)) = self.responses_by_token.get(&request.token)
        {
            return if first == request {
                Ok(answer.clone())
            } else {
                Err(RequestError {
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
                Some(candidate) => {
                    let launched = self.start(request, candidate, machines, now);
                    answer.instances.push(launched);
                }
                None => break,
            }
        }
        answer.failures = failures;
        self.responses_by_token
            .insert(request.token.clone(), (request.clone(), answer.clone()));
        Ok(answer)
    }

    /// Returns the best available override; records the error of each unavailable one once.
    fn choose<'r>(
        &self,
        request: &'r FleetRequest,
        failures: &mut Vec<OfferingFailure>,
    ) -> Option<FleetCandidate<'r>> {
        let candidates = request.templates.iter().flat_map(|template| {
            template.overrides.iter().map(|offering| FleetCandidate {
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
        let mut available: Vec<(i64, FleetCandidate<'r>)> = Vec::new();
        for candidate in candidates {
            let price = self.offered_price(request.capacity_type, candidate.offering);
            match (
                self.launch_error(request.capacity_type, candidate.offering),
                price,
            ) {
                (None, Some(price)) => {
                    let rank = if by_priority {
                        candidate.offering.priority
                    } else {
                        price.0
                    };
                    available.push((rank, candidate));
                }
                (Some((code, message)), _) => note(failures, candidate.offering, code, message),
                (None, None) => note(
                    failures,
                    candidate.offering,
                    "Unsupported",
                    format!(
                        "Your requested instance type ({}) is not supported in your requested Availability Zone ({}).",
                        candidate.offering.instance_type, candidate.offering.zone
                    ),
                ),
            }
        }
        available
            .into_iter()
            .min_by_key(|(rank, candidate)| {
                let offering = candidate.offering;
                (*rank, offering.instance_type.clone(), offering.zone.clone())
            })
            .map(|(_, candidate)| candidate)
    }

    fn offered_price(
        &self,
        capacity_type: CapacityType,
        offering: &FleetOverride,
    ) -> Option<NanosPerHour> {
        let instance_type = self.instance_type(&offering.instance_type)?;
        let offered = instance_type.offerings.iter().find(|offering_of_type| {
            offering_of_type.capacity_type == capacity_type
                && offering_of_type.zone == offering.zone
        })?;
        Some(offered.price)
    }

    /// Error code and message with which a launch in a pool fails at present; `None` if a launch would succeed.
    fn launch_error(
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
        let cpu = |instance_type: &model::InstanceType| {
            instance_type.capacity.get(model::resources::CPU) / 1000
        };
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
        candidate: FleetCandidate<'_>,
        machines: &mut Machines,
        now: Timestamp,
    ) -> Launched {
        let offering = candidate.offering;
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
            security_groups: candidate.template.security_groups.iter().cloned().collect(),
            reservation: None,
            private_dns: Some(node.clone()),
            launched_at: Some(now),
            tags: request.tags.clone(),
            state_reason: None,
        };
        if let Some(instance_type) = self.instance_type(&offering.instance_type) {
            let join = boot::node(
                instance_type,
                &instance,
                &address,
                &candidate.template.user_data,
            );
            let joins_at = now.checked_add(self.options.boot).unwrap_or(now);
            machines.start(join, joins_at);
        }
        let price = self.offered_price(request.capacity_type, offering);
        let record = InstanceRecord {
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
