//! Instance types and their offerings, the scheduler's view of the cloud provider
//! (docs/spec/scheduling.md#provider-model).

use std::{fmt, iter::Sum};

use serde::{Deserialize, Serialize};

use crate::{
    devices::Device,
    requirement::Requirements,
    resources::{MEMORY, Resources},
};

/// A price in billionths of a dollar per hour. An integer, so that sums and comparisons do not depend on the order of
/// additions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NanosPerHour(pub i64);

impl NanosPerHour {
    /// The saturating sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl Sum for NanosPerHour {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::default(), Self::plus)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceType {
    pub name: String,
    /// One entry for every well-known label; `DoesNotExist` if the type has none.
    pub requirements: Requirements,
    pub capacity: Resources,
    pub overhead: Overhead,
    pub offerings: Vec<Offering>,
    /// Number of pod volumes that the EBS CSI driver attaches to a node; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs_attach_limit: Option<u32>,
    /// Devices that DRA drivers publish on a node of this type, if known and enabled
    /// (docs/spec/v1.15.md#dra-devices).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

/// Resources that a node of a type reserves for the system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overhead {
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    pub eviction_threshold: Resources,
}

/// One way to buy an instance type: zone × capacity type × reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offering {
    pub capacity_type: CapacityType,
    pub zone: String,
    /// The account-independent zone name, such as `use1-az1`; empty if the provider has none.
    pub zone_id: String,
    pub price: NanosPerHour,
    pub available: bool,
    /// Whether only a missing price makes the offering unavailable, as with instance types that AWS lists before they
    /// are for sale. A NodeOverlay may set the price.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpriced: bool,
    pub reservation: Option<Reservation>,
    /// Requirements beyond zone, capacity type and reservation.
    #[serde(default)]
    pub requirements: Requirements,
    /// Overrides of the instance type's capacity, merged entry by entry (NodeOverlay;
    /// docs/spec/scheduling.md#offering).
    #[serde(default)]
    pub capacity_override: Option<Resources>,
    #[serde(default)]
    pub overhead_override: Option<Resources>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reservation {
    pub id: String,
    /// Instances still available in the reservation.
    pub capacity: u32,
    /// Whether the offering is unavailable only because all instances of the reservation are in use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    Reserved,
    Spot,
    OnDemand,
}

impl CapacityType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

impl std::str::FromStr for CapacityType {
    type Err = UnknownCapacityType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Reserved, Self::Spot, Self::OnDemand]
            .into_iter()
            .find(|capacity_type| capacity_type.as_str() == text)
            .ok_or_else(|| UnknownCapacityType(text.to_owned()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a capacity type: expected reserved, spot or on-demand")]
pub struct UnknownCapacityType(String);

impl InstanceType {
    /// Capacity minus overhead, for the resources the type has. Huge pages are subtracted from memory
    /// (docs/spec/scheduling.md#instance-type).
    pub fn allocatable(&self) -> Resources {
        self.allocatable_with(None, None)
    }

    /// Allocatable resources with an offering's overrides, each merged entry by entry over the type's own
    /// (docs/spec/scheduling.md#offering).
    pub fn allocatable_with(
        &self,
        capacity: Option<&Resources>,
        overhead: Option<&Resources>,
    ) -> Resources {
        let mut allocatable = self.capacity.clone();
        allocatable
            .0
            .extend(capacity.into_iter().flat_map(|r| r.0.clone()));
        let huge_pages: i64 = allocatable
            .iter()
            .filter(|(name, _)| name.starts_with("hugepages-"))
            .map(|(_, amount)| amount)
            .sum();
        let mut kept = self.overhead.total();
        kept.0
            .extend(overhead.into_iter().flat_map(|r| r.0.clone()));
        allocatable.subtract(&kept);
        if huge_pages > 0 {
            let memory = allocatable.get(MEMORY).saturating_sub(huge_pages);
            allocatable.set(MEMORY, memory.max(0));
        }
        allocatable
    }
}

impl Overhead {
    pub fn total(&self) -> Resources {
        let mut total = self.kube_reserved.clone();
        total.add(&self.system_reserved);
        total.add(&self.eviction_threshold);
        total
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Formats dollars with four decimals, as AWS quotes prices.
impl fmt::Display for NanosPerHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths_of_mills = (self.0.unsigned_abs() + 50_000) / 100_000;
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(
            f,
            "{sign}{}.{:04}",
            tenths_of_mills / 10_000,
            tenths_of_mills % 10_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_subtracted_from_memory() {
        let instance_type = |huge_pages| InstanceType {
            name: "m5.large".to_owned(),
            requirements: Requirements::default(),
            capacity: Resources::from([(MEMORY, 8_000), ("hugepages-2Mi", huge_pages)]),
            overhead: Overhead {
                kube_reserved: Resources::from([(MEMORY, 1_000)]),
                ..Overhead::default()
            },
            offerings: Vec::new(),
            ebs_attach_limit: None,
            devices: Vec::new(),
        };
        let memory = |huge_pages| instance_type(huge_pages).allocatable().get(MEMORY);
        assert_eq!([0, 2_000, 9_000].map(memory), [7_000, 5_000, 0]);
        let added = Resources::from([("hugepages-1Gi", 500)]);
        let allocatable = instance_type(2_000).allocatable_with(Some(&added), None);
        assert_eq!(allocatable.get(MEMORY), 4_500);
    }
}
