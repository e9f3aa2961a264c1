use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, FreeAddresses, InstanceId, InterruptionKind, Warning,
    experience::ZonalShift,
    ids::LaunchToken,
    launch::{
        FleetOverride, FleetRequest, FleetResponse, Instance, InstanceState, Launched,
        OfferingFailure,
    },
};
use ports::{CloudError, limits::ec2::TAGS};

use crate::{provider::SECURITY_GROUP, refusal::Protection, reservations::ReservedInstances};

/// EC2 of one AWS account, as far as launches need it.
#[derive(Default)]
pub struct Account {
    pub instances: BTreeMap<InstanceId, Instance>,
    /// Number of instances ever launched; the next instance's ID is derived from it.
    pub started: usize,
    pub tokens: Tokens,
    /// Offerings without capacity, by capacity type, instance type and zone.
    pub no_capacity: BTreeSet<(CapacityType, String, String)>,
    /// Remaining instances of an offering; unlisted offerings are unbounded.
    pub capacity: BTreeMap<(CapacityType, String, String), u32>,
    /// Capacity reservations by ID. Offerings of a reservation that is missing here have the capacity that they state.
    pub reservations: BTreeMap<String, ReservedInstances>,
    /// Free addresses of a subnet; unlisted subnets have [`Account::ADDRESSES`].
    pub free_addresses: BTreeMap<String, i64>,
    /// ARC zonal shifts.
    pub shifts: Vec<ZonalShift>,
    /// Warnings that resolving an EC2NodeClass returns.
    pub warnings: Vec<Warning>,
    /// Warnings about prices.
    pub price_warnings: Vec<String>,
    /// Instances that fail their status checks or have scheduled events.
    pub troubles: BTreeMap<InstanceId, InterruptionKind>,
    /// Lists and descriptions return no instances at all.
    pub blind: bool,
    /// Instances missing from lists, as in a truncated list; descriptions by ID return them.
    pub unlisted: BTreeSet<InstanceId>,
    /// Time for which a new instance is missing from descriptions.
    pub describe_lag: SignedDuration,
    /// Instances that EC2 refuses to terminate until they are removed from this map.
    pub protected: BTreeMap<InstanceId, Protection>,
    /// Times of each instance's reboots.
    pub reboots: BTreeMap<InstanceId, Vec<Timestamp>>,
    /// Instances whose Auto Scaling group no longer has the lifecycle hook.
    pub without_hook: BTreeSet<InstanceId>,
    /// Launch templates by name, with their NodeClass.
    pub templates: BTreeMap<String, String>,
    /// All CreateFleet requests that reached EC2.
    pub requests: Vec<FleetRequest>,
    answered: BTreeMap<LaunchToken, (FleetRequest, FleetResponse)>,
    state_since: BTreeMap<InstanceId, Timestamp>,
}

/// Handling of a repeated ClientToken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokens {
    /// Repeats the first answer to a client token; an error if any parameter differs.
    #[default]
    Honoured,
    Ignored,
}

/// Time from launch to `running`, and from `shutting-down` to `terminated`.
const STATE_CHANGE: SignedDuration = SignedDuration::from_secs(10);

impl Account {
    pub const ADDRESSES: i64 = 250;

    pub(crate) fn launch(
        &mut self,
        request: &FleetRequest,
        now: Timestamp,
    ) -> Result<FleetResponse, CloudError> {
        self.requests.push(request.clone());
        if request.tags.len() > TAGS {
            return Err(CloudError::Invalid {
                action: "CreateFleet".into(),
                code: "TagLimitExceeded".into(),
                message: format!(
                    "a resource has at most {TAGS} tags, not {}",
                    request.tags.len()
                ),
            });
        }
        if self.tokens == Tokens::Honoured
            && let Some((first, answer)) = self.answered.get(&request.token)
        {
            return if first == request {
                Ok(answer.clone())
            } else {
                Err(CloudError::Invalid {
                    action: "CreateFleet".into(),
                    code: "IdempotentParameterMismatch".into(),
                    message: "the ClientToken was used with other parameters".into(),
                })
            };
        }
        let mut answer = FleetResponse::default();
        for _ in 0..request.target_capacity {
            match self.cheapest(request) {
                Some((choice, image)) => answer
                    .instances
                    .push(self.start(request, &choice, image, now)),
                None => break,
            }
        }
        if answer.instances.len() < request.target_capacity as usize {
            let failed = overrides(request).map(|choice| {
                if self.is_spent(request.capacity_type, &choice) {
                    OfferingFailure {
                        code: "ReservationCapacityExceeded".into(),
                        ..no_capacity(&choice)
                    }
                } else if self.is_full(&choice) {
                    no_addresses(&choice)
                } else {
                    no_capacity(&choice)
                }
            });
            answer.failures = failed.collect();
        }
        self.answered
            .insert(request.token.clone(), (request.clone(), answer.clone()));
        Ok(answer)
    }

    /// Returns the free addresses of these subnets.
    pub(crate) fn addresses(&self, subnets: &BTreeSet<String>) -> FreeAddresses {
        let left = |subnet: &String| self.free_addresses.get(subnet).copied();
        let counted = subnets
            .iter()
            .map(|subnet| (subnet.clone(), left(subnet).unwrap_or(Self::ADDRESSES)));
        FreeAddresses(counted.collect())
    }

    fn is_full(&self, choice: &FleetOverride) -> bool {
        let subnet = choice.subnet.as_ref();
        subnet.is_some_and(|subnet| self.free_addresses.get(subnet) == Some(&0))
    }

    fn cheapest(&self, request: &FleetRequest) -> Option<(FleetOverride, String)> {
        let has_room = |choice: &FleetOverride| {
            let offering = (
                request.capacity_type,
                choice.instance_type.clone(),
                choice.zone.clone(),
            );
            !self.no_capacity.contains(&offering)
                && self.capacity.get(&offering) != Some(&0)
                && !self.is_full(choice)
                && !self.is_spent(request.capacity_type, choice)
        };
        overrides(request)
            .filter(has_room)
            .min_by(|a, b| {
                (a.priority, &a.instance_type, &a.zone).cmp(&(
                    b.priority,
                    &b.instance_type,
                    &b.zone,
                ))
            })
            .map(|choice| (choice.clone(), choice.image))
    }

    fn start(
        &mut self,
        request: &FleetRequest,
        choice: &FleetOverride,
        image: String,
        now: Timestamp,
    ) -> Launched {
        if let Some(left) = self.capacity.get_mut(&(
            request.capacity_type,
            choice.instance_type.clone(),
            choice.zone.clone(),
        )) {
            *left = left.saturating_sub(1);
        }
        self.started = self.started.max(self.instances.len()) + 1;
        let number = self.started;
        let id = InstanceId(format!("i-{number:017x}"));
        let tags = request.tags.clone();
        let reservation = self.reservation_for(request.capacity_type, choice);
        let reservation = reservation.map(ToOwned::to_owned);
        self.instances.insert(
            id.clone(),
            Instance {
                id: id.clone(),
                state: InstanceState::Pending,
                instance_type: choice.instance_type.clone(),
                zone: choice.zone.clone(),
                zone_id: zone_id(&choice.zone),
                capacity_type: request.capacity_type,
                image: image.clone(),
                subnet: choice.subnet.clone(),
                security_groups: BTreeSet::from([SECURITY_GROUP.to_owned()]),
                reservation,
                private_dns: Some(format!(
                    "ip-10-0-{}-{}.ec2.internal",
                    number / 250,
                    number % 250
                )),
                launched_at: Some(now),
                tags,
                state_reason: None,
            },
        );
        self.state_since.insert(id.clone(), now);
        Launched {
            instance: id,
            instance_type: choice.instance_type.clone(),
            zone: choice.zone.clone(),
            capacity_type: request.capacity_type,
            image,
            subnet: choice.subnet.clone(),
        }
    }

    pub fn terminate(&mut self, id: &InstanceId, now: Timestamp) {
        if let Some(instance) = self.instances.get_mut(id)
            && !matches!(
                instance.state,
                InstanceState::ShuttingDown | InstanceState::Terminated
            )
        {
            instance.state = InstanceState::ShuttingDown;
            self.state_since.insert(id.clone(), now);
        }
    }

    /// Drops state that EC2 drops after a while: terminated instances, and ClientTokens of calls all of whose instances are
    /// terminated.
    pub fn forget_ended(&mut self) {
        self.instances
            .retain(|_, instance| instance.state != InstanceState::Terminated);
        let Self {
            instances,
            state_since,
            answered,
            ..
        } = self;
        state_since.retain(|id, _| instances.contains_key(id));
        let is_there = |launched: &Launched| instances.contains_key(&launched.instance);
        answered.retain(|_, (_, answer)| answer.instances.iter().any(is_there));
    }

    /// Instances that descriptions return: new ones only after the lag.
    pub(crate) fn described(&self, now: Timestamp) -> impl Iterator<Item = &Instance> {
        let lag = self.describe_lag;
        let blind = self.blind;
        self.instances.values().filter(move |instance| {
            let old_enough = |at| now.duration_since(at) >= lag;
            !blind && instance.launched_at.is_none_or(old_enough)
        })
    }

    /// Instances that cost money.
    pub fn alive(&self) -> impl Iterator<Item = &Instance> {
        self.instances
            .values()
            .filter(|instance| instance.state.is_alive())
    }

    /// Advances instance states; returns whether any changed.
    pub(crate) fn step(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        for (id, instance) in &mut self.instances {
            let next = match instance.state {
                InstanceState::Pending => InstanceState::Running,
                InstanceState::ShuttingDown => InstanceState::Terminated,
                InstanceState::Running
                | InstanceState::Stopping
                | InstanceState::Stopped
                | InstanceState::Terminated => continue,
            };
            if let Some(since) = self.state_since.get_mut(id)
                && now.duration_since(*since) >= STATE_CHANGE
            {
                instance.state = next;
                *since = now;
                changed = true;
            }
        }
        changed
    }

    /// Times of the next state changes. Some may turn out to be none.
    pub(crate) fn due(&self) -> impl Iterator<Item = Timestamp> {
        self.state_since.values().map(|since| *since + STATE_CHANGE)
    }
}

fn overrides(request: &FleetRequest) -> impl Iterator<Item = FleetOverride> {
    request
        .templates
        .iter()
        .flat_map(|template| template.overrides.iter().cloned())
}

pub(crate) const NO_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";

fn no_addresses(choice: &FleetOverride) -> OfferingFailure {
    OfferingFailure {
        code: NO_ADDRESSES.into(),
        message: "There are not enough free addresses in the subnet.".into(),
        ..no_capacity(choice)
    }
}

fn no_capacity(choice: &FleetOverride) -> OfferingFailure {
    OfferingFailure {
        instance_type: choice.instance_type.clone(),
        zone: choice.zone.clone(),
        subnet: choice.subnet.clone(),
        code: "InsufficientInstanceCapacity".into(),
        message: "there is no Spot or On-Demand capacity for this pool".into(),
    }
}

/// Zone ID of a zone, `use1-az1` for `us-east-1a`.
pub(crate) fn zone_id(zone: &str) -> String {
    let number = zone
        .bytes()
        .last()
        .map_or(0, |letter| u32::from(letter.saturating_sub(b'a')) + 1);
    format!("use1-az{number}")
}

#[cfg(test)]
mod tests {
    use api::names::tag;
    use model::{ClusterName, launch::FleetRequest};

    use super::*;

    fn request(tags: usize) -> FleetRequest {
        FleetRequest {
            cluster: "demo".into(),
            token: LaunchToken(format!("token-{tags}")),
            node_class: "default".into(),
            capacity_type: CapacityType::OnDemand,
            target_capacity: 1,
            allocation: None,
            context: None,
            templates: Vec::new(),
            tags: (0..tags)
                .map(|tag| (tag.to_string(), String::new()))
                .collect(),
            claim_annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn calls_beyond_ec2_limits_are_rejected_completely() {
        let mut account = Account::default();
        let now = Timestamp::UNIX_EPOCH;
        assert!(account.launch(&request(TAGS), now).is_ok());
        let refused = account.launch(&request(TAGS + 1), now);
        assert!(
            matches!(refused, Err(CloudError::Invalid { .. })),
            "{refused:?}"
        );
        let ids = vec![InstanceId::from("i-1"); 1_001];
        let refused = account.terminate_instances(&"demo".into(), &ids, now);
        let error = refused
            .err()
            .map(|refusal| refusal.into_error("TerminateInstances"));
        assert!(
            matches!(error, Some(CloudError::Invalid { .. })),
            "{error:?}"
        );
    }

    #[test]
    fn tags_are_refused_as_by_ec2() {
        let (now, cluster) = (Timestamp::UNIX_EPOCH, ClusterName::from("demo"));
        let mut request = request(TAGS - 1);
        let own = (tag::EKS_CLUSTER.to_owned(), cluster.0.clone());
        request.tags.extend([own]);
        let choice = FleetOverride {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            subnet: None,
            image: "ami-1".into(),
            priority: 0,
        };
        let mut account = Account::default();
        let id = account
            .start(&request, &choice, "ami-1".into(), now)
            .instance;
        let tag_with = |account: &mut Account, cluster: &str, id: &InstanceId, key: &str| {
            let tags = BTreeMap::from([(key.to_owned(), "value".to_owned())]);
            let tagged = account.tag_instance(&cluster.into(), id, &tags);
            tagged.map_err(|refusal| refusal.into_error("CreateTags"))
        };
        assert!(
            tag_with(&mut account, "demo", &id, "0").is_ok(),
            "the key exists"
        );
        let refused = tag_with(&mut account, "demo", &id, "more");
        assert!(
            matches!(refused, Err(CloudError::Invalid { code, .. }) if code == "TagLimitExceeded")
        );
        let refused = tag_with(&mut account, "other", &id, "0");
        assert!(matches!(refused, Err(CloudError::Denied { .. })));
        let refused = tag_with(&mut account, "demo", &"i-0".into(), "0");
        assert!(matches!(refused, Err(CloudError::NotFound { .. })));
        account
            .protected
            .insert(id.clone(), Protection::Unauthorized);
        let refused = tag_with(&mut account, "demo", &id, "0");
        assert!(matches!(refused, Err(CloudError::Denied { .. })));
    }
}
