//! How many addresses subnets have left for launches (docs/spec/aws.md#subnets).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{catalog::InstanceType, launch::FleetRequest, resources::PODS};

/// Subnet → addresses believed to be free, those of launches under way taken off. It only steers which subnet a zone's
/// launches go to: EC2 has the last word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeAddresses(pub BTreeMap<String, i64>);

impl FreeAddresses {
    /// Subnets that nobody counted have none.
    pub fn of(&self, subnet: &str) -> i64 {
        self.0.get(subnet).copied().unwrap_or(0)
    }

    /// What a call will probably take from each subnet it may use: as many addresses as the smallest of its types has pods,
    /// for each claim.
    pub fn needed(request: &FleetRequest, types: &[InstanceType]) -> Self {
        let pods: BTreeMap<&str, i64> = types
            .iter()
            .map(|kind| (kind.name.as_str(), kind.capacity.get(PODS)))
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

    /// Counts what a call needs as taken, so that the next one looks elsewhere. Subnets nobody counted stay so.
    pub fn take(&mut self, needed: &Self) {
        for (subnet, addresses) in &needed.0 {
            if let Some(left) = self.0.get_mut(subnet) {
                *left -= addresses;
            }
        }
    }

    /// Undoes [`take`](Self::take) for the subnets that the call did not use after all.
    pub fn give_back(&mut self, needed: &Self, used: &[&str]) {
        let unused = needed.0.iter();
        for (subnet, addresses) in unused.filter(|(subnet, _)| !used.contains(&subnet.as_str())) {
            if let Some(left) = self.0.get_mut(subnet) {
                *left += addresses;
            }
        }
    }

    /// EC2 found none in it.
    pub fn exhaust(&mut self, subnet: &str) {
        self.0.insert(subnet.to_owned(), 0);
    }
}
