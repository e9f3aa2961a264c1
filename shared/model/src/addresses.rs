//! Free IP addresses of subnets, as launches count on them (docs/spec/aws.md#subnets).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{catalog::InstanceType, launch::FleetRequest, resources::PODS};

/// Subnet → IP addresses believed to be free, less those that launches under way will take. An estimate that only
/// steers the choice of a subnet within a zone: EC2 decides whether an address is available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeAddresses(pub BTreeMap<String, i64>);

impl FreeAddresses {
    /// Free addresses of `subnet`; zero for a subnet without an entry.
    pub fn of(&self, subnet: &str) -> i64 {
        self.0.get(subnet).copied().unwrap_or(0)
    }

    /// Estimates the addresses that a CreateFleet call takes from each subnet it may use: for each NodeClaim, as many
    /// as the pod capacity of the smallest instance type in that subnet.
    pub fn needed(request: &FleetRequest, types: &[InstanceType]) -> Self {
        let pods: BTreeMap<&str, i64> = types
            .iter()
            .map(|instance_type| {
                (
                    instance_type.name.as_str(),
                    instance_type.capacity.get(PODS),
                )
            })
            .collect();
        let mut needed = Self::default();
        let overrides = request
            .templates
            .iter()
            .flat_map(|config| &config.overrides);
        for choice in overrides {
            let Some(subnet) = &choice.subnet else {
                continue;
            };
            let pods = pods
                .get(choice.instance_type.as_str())
                .copied()
                .unwrap_or(0);
            let addresses = pods * i64::from(request.target_capacity);
            let entry = needed.0.entry(subnet.clone()).or_insert(addresses);
            *entry = (*entry).min(addresses);
        }
        needed
    }

    /// Subtracts the addresses that a call needs, so that the next call prefers another subnet. Subnets without an
    /// entry stay without one.
    pub fn take(&mut self, needed: &Self) {
        for (subnet, addresses) in &needed.0 {
            if let Some(left) = self.0.get_mut(subnet) {
                *left -= addresses;
            }
        }
    }

    /// Undoes [`take`](Self::take) for the subnets that the call did not use.
    pub fn give_back(&mut self, needed: &Self, used: &[&str]) {
        let unused = needed.0.iter();
        for (subnet, addresses) in unused.filter(|(subnet, _)| !used.contains(&subnet.as_str())) {
            if let Some(left) = self.0.get_mut(subnet) {
                *left += addresses;
            }
        }
    }

    /// Records that EC2 found no free address in `subnet`.
    pub fn exhaust(&mut self, subnet: &str) {
        self.0.insert(subnet.to_owned(), 0);
    }
}
