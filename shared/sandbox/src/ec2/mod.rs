//! Simulated AWS account: EC2 with capacity pools, quotas, throttling and spot interruptions, and the resources that
//! EC2NodeClasses select. Its instances boot as nodes of the simulated cluster.
//!
//! [`Account`] is pure: time is an argument, and [`Account::step`] advances it. [`handle::Ec2`] is the handle that implements
//! `ports`.

mod boot;
mod events;
mod fleet;
pub mod handle;
mod limits;
mod network;
mod node_classes;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, InstanceId, InstanceType, NanosPerHour,
    ids::LaunchToken,
    launch::{FleetRequest, FleetResponse, Instance, InstanceState},
};
use serde_json::Value;

pub use events::ACCOUNT;
pub use limits::{Api, Quotas, Rate};
pub use network::{Image, SecurityGroup, Subnet};

use crate::controllers::Machines;
use limits::Buckets;

/// Capacity pool: capacity type, instance type and zone.
pub type Pool = (CapacityType, String, String);

/// Configuration of an account.
#[derive(Clone, Debug)]
pub struct AccountOptions {
    pub region: String,
    /// Zone name → zone id.
    pub zones: BTreeMap<String, String>,
    /// Instance types that EC2 offers, as every EC2NodeClass sees them; prices are those of the offerings.
    pub catalog: Arc<Vec<InstanceType>>,
    pub subnets: Vec<Subnet>,
    pub security_groups: Vec<SecurityGroup>,
    /// Images besides those that aliases name, which all exist.
    pub images: Vec<Image>,
    /// `major.minor` version that the cluster's control plane reports.
    pub kubernetes_version: String,
    /// Time from launch to the node's registration.
    pub boot: SignedDuration,
    /// Time for which new instances are missing from DescribeInstances (eventual consistency).
    pub describe_lag: SignedDuration,
    pub quotas: Quotas,
    /// Whether calls above EC2's rates are throttled.
    pub throttling: bool,
    /// Whether a repeated ClientToken returns the first response again.
    pub honors_client_tokens: bool,
}

/// Simulated EC2 account: instances, capacity, requests and events.
#[derive(Debug)]
pub struct Account {
    pub options: AccountOptions,
    instances: BTreeMap<InstanceId, InstanceRecord>,
    /// Instances whose attribute disableApiTermination is set.
    pub protected: BTreeSet<InstanceId>,
    /// Instances left in a pool; a pool that is not listed is unlimited.
    capacity: BTreeMap<Pool, u32>,
    responses_by_token: BTreeMap<LaunchToken, (FleetRequest, FleetResponse)>,
    /// Every CreateFleet request that reached EC2, with the time of its arrival.
    requests: Vec<(Timestamp, FleetRequest)>,
    templates: BTreeSet<String>,
    buckets: Buckets,
    /// EventBridge events since the last [`Account::take_events`].
    events: Vec<Value>,
    next_number: u32,
}

/// Instance with attributes that EC2 does not describe.
#[derive(Clone, Debug)]
struct InstanceRecord {
    instance: Instance,
    /// Name of the instance's node.
    node: String,
    vcpus: i64,
    price: NanosPerHour,
    state_since: Timestamp,
    /// Time at which EC2 reclaims the spot instance.
    reclaimed_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

/// Time from launch to running, and from shutting-down to terminated.
const STATE_CHANGE: SignedDuration = SignedDuration::from_secs(2);
/// From the interruption notice to the end of a spot instance.
const SPOT_NOTICE: SignedDuration = SignedDuration::from_secs(120);

impl Account {
    pub fn new(options: AccountOptions, now: Timestamp) -> Self {
        Self {
            buckets: Buckets::full(now),
            options,
            instances: BTreeMap::new(),
            protected: BTreeSet::new(),
            capacity: BTreeMap::new(),
            responses_by_token: BTreeMap::new(),
            requests: Vec::new(),
            templates: BTreeSet::new(),
            events: Vec::new(),
            next_number: 0,
        }
    }

    /// Limits a pool: at 0 a launch fails with insufficient capacity.
    pub fn set_capacity(&mut self, pool: Pool, instances: u32) {
        self.capacity.insert(pool, instances);
    }

    /// Removes a pool's limit.
    pub fn clear_capacity(&mut self, pool: &Pool) {
        self.capacity.remove(pool);
    }

    /// Upgrades the control plane: from now on image aliases resolve to the images of this version.
    pub fn upgrade_kubernetes(&mut self, version: &str) {
        version.clone_into(&mut self.options.kubernetes_version);
    }

    /// Removes a tag from every instance.
    pub fn remove_tag(&mut self, key: &str) {
        for record in self.instances.values_mut() {
            record.instance.tags.remove(key);
        }
    }

    /// Every instance that was ever launched, in any state.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values().map(|record| &record.instance)
    }

    /// Instances that are neither terminated nor shutting down, which cost money.
    pub fn alive(&self) -> impl Iterator<Item = &Instance> {
        self.instances()
            .filter(|instance| instance.state.is_alive())
    }

    pub fn requests(&self) -> &[(Timestamp, FleetRequest)] {
        &self.requests
    }

    /// Hourly price of an instance in any state.
    pub fn price(&self, id: &InstanceId) -> Option<NanosPerHour> {
        self.instances.get(id).map(|record| record.price)
    }

    /// Hourly price of all live instances together.
    pub fn hourly_cost(&self) -> NanosPerHour {
        let alive = self
            .instances
            .values()
            .filter(|record| record.instance.state.is_alive());
        NanosPerHour(alive.map(|record| record.price.0).sum())
    }

    /// Cost until `now` in nano-dollars, billed by the second.
    pub fn spent_nanos(&self, now: Timestamp) -> i64 {
        const SECONDS_PER_HOUR: i128 = 3600;
        let spent = self.instances.values().map(|record| {
            let start = record.instance.launched_at.unwrap_or(now);
            let end = record.ended_at.unwrap_or(now);
            let seconds = i128::from(end.duration_since(start).as_secs().max(0));
            seconds * i128::from(record.price.0) / SECONDS_PER_HOUR
        });
        i64::try_from(spent.sum::<i128>()).unwrap_or(i64::MAX)
    }

    /// Requests the termination of an instance, as TerminateInstances does. Returns whether it was alive.
    pub fn terminate(&mut self, id: &InstanceId, machines: &mut Machines, now: Timestamp) -> bool {
        let reason = "Client.UserInitiatedShutdown: User initiated shutdown";
        self.shut_down(id, reason, machines, now)
    }

    /// Reboots a running instance, which keeps its disks and addresses.
    pub fn reboot(&mut self, id: &InstanceId, machines: &mut Machines, now: Timestamp) {
        if let Some(record) = self.instances.get(id) {
            let joins_at = now.checked_add(self.options.boot).unwrap_or(now);
            machines.reboot(&record.node, joins_at);
        }
    }

    /// Zones in which one of these instances has its attribute disableApiTermination set, and EC2's error message for
    /// the first such instance.
    fn protected_zones(&self, ids: &[InstanceId]) -> (BTreeSet<Option<String>>, Option<String>) {
        let lives = |id: &&InstanceId| {
            let record = self.instances.get(*id);
            record.is_some_and(|record| record.instance.state != InstanceState::Terminated)
        };
        let protected = ids.iter().filter(|id| self.protected.contains(*id));
        let protected: Vec<&InstanceId> = protected.filter(lives).collect();
        let message = protected.first().map(|id| {
            format!(
                "The instance '{id}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
            )
        });
        (protected.iter().map(|id| self.zone(id)).collect(), message)
    }

    fn zone(&self, id: &InstanceId) -> Option<String> {
        let record = self.instances.get(id);
        record.map(|record| record.instance.zone.clone())
    }

    /// Announces the interruption of a spot instance, and reclaims it two minutes later.
    pub fn interrupt_spot(&mut self, id: &InstanceId, now: Timestamp) -> bool {
        let Some(record) = self.spot_record(id) else {
            return false;
        };
        record.reclaimed_at = now.checked_add(SPOT_NOTICE).ok();
        self.events
            .push(events::spot_interruption(&self.options.region, id, now));
        true
    }

    /// Emits a rebalance recommendation for a spot instance.
    pub fn recommend_rebalance(&mut self, id: &InstanceId, now: Timestamp) -> bool {
        if self.spot_record(id).is_none() {
            return false;
        }
        self.events
            .push(events::rebalance(&self.options.region, id, now));
        true
    }

    /// Takes the EventBridge events since the last call.
    pub fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Advances the states of instances; returns the time of the next change.
    pub(crate) fn step(&mut self, machines: &mut Machines, now: Timestamp) -> Option<Timestamp> {
        let reclaimed: Vec<InstanceId> = self
            .instances
            .iter()
            .filter(|(_, record)| record.reclaimed_at.is_some_and(|at| at <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in reclaimed {
            let reason = "Server.SpotInstanceTermination: Spot instance termination";
            self.shut_down(&id, reason, machines, now);
        }
        let mut due = None;
        let ids: Vec<InstanceId> = self.instances.keys().cloned().collect();
        for id in ids {
            let next = self.move_along(&id, now);
            due = [due, next].into_iter().flatten().min();
        }
        due
    }

    fn move_along(&mut self, id: &InstanceId, now: Timestamp) -> Option<Timestamp> {
        let record = self.instances.get_mut(id)?;
        let next = match record.instance.state {
            InstanceState::Pending => InstanceState::Running,
            InstanceState::ShuttingDown => InstanceState::Terminated,
            InstanceState::Running => return record.reclaimed_at,
            InstanceState::Stopping | InstanceState::Stopped | InstanceState::Terminated => {
                return None;
            }
        };
        let change = record.state_since.checked_add(STATE_CHANGE).unwrap_or(now);
        if now < change {
            return Some(change);
        }
        record.instance.state = next;
        record.state_since = now;
        let reclaimed_at = record.reclaimed_at;
        let event = events::state_change(&self.options.region, id, next, now);
        self.events.push(event);
        reclaimed_at
    }

    fn shut_down(
        &mut self,
        id: &InstanceId,
        reason: &str,
        machines: &mut Machines,
        now: Timestamp,
    ) -> bool {
        let Some(record) = self.instances.get_mut(id) else {
            return false;
        };
        if !record.instance.state.is_alive() {
            return false;
        }
        record.instance.state = InstanceState::ShuttingDown;
        record.instance.state_reason = Some(reason.to_owned());
        record.state_since = now;
        record.reclaimed_at = None;
        record.ended_at = Some(now);
        machines.stop(&record.node);
        let state = InstanceState::ShuttingDown;
        let event = events::state_change(&self.options.region, id, state, now);
        self.events.push(event);
        true
    }

    fn spot_record(&mut self, id: &InstanceId) -> Option<&mut InstanceRecord> {
        self.instances.get_mut(id).filter(|record| {
            record.instance.state.is_alive() && record.instance.capacity_type == CapacityType::Spot
        })
    }

    /// Instances that DescribeInstances returns: new ones only after the lag.
    fn described(&self, now: Timestamp) -> impl Iterator<Item = &Instance> {
        let lag = self.options.describe_lag;
        self.instances().filter(move |instance| {
            instance
                .launched_at
                .is_none_or(|launched| now.duration_since(launched) >= lag)
        })
    }

    fn instance_type(&self, name: &str) -> Option<&InstanceType> {
        self.options
            .catalog
            .iter()
            .find(|candidate| candidate.name == name)
    }
}

impl AccountOptions {
    /// Account in us-east-1 with a subnet in each zone of its catalog, selectable by `karpenter.sh/discovery:
    /// <cluster>`.
    pub fn us_east_1(catalog: Arc<Vec<InstanceType>>, cluster: &str) -> Self {
        let offerings = || {
            catalog
                .iter()
                .flat_map(|instance_type| &instance_type.offerings)
        };
        let zones: BTreeMap<String, String> = offerings()
            .map(|offering| (offering.zone.clone(), offering.zone_id.clone()))
            .collect();
        let tags = BTreeMap::from([("karpenter.sh/discovery".to_owned(), cluster.to_owned())]);
        Self {
            region: "us-east-1".to_owned(),
            subnets: zones
                .iter()
                .enumerate()
                .map(|(index, (zone, zone_id))| Subnet::numbered(index, zone, zone_id, &tags))
                .collect(),
            security_groups: vec![SecurityGroup {
                id: "sg-0123456789abcdef0".to_owned(),
                name: format!("{cluster}-node"),
                tags,
            }],
            images: Vec::new(),
            kubernetes_version: "1.37".to_owned(),
            zones,
            catalog,
            boot: SignedDuration::from_secs(30),
            describe_lag: SignedDuration::ZERO,
            quotas: Quotas::default(),
            throttling: true,
            honors_client_tokens: true,
        }
    }
}
