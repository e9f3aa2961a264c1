//! Observations of EC2 that the clusters of an account share, and by which they correct their catalogs
//! (docs/design.md#shared-experience).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ledger::UnavailableOffering;

/// Shared observations that have not lapsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Experience {
    /// Offerings with a recent insufficient-capacity error.
    pub unavailable: Vec<UnavailableOffering>,
    /// Subnets that recently had no free address.
    pub full_subnets: Vec<FullSubnet>,
    pub memory: Vec<MeasuredMemory>,
    /// Ids of zones that a zonal shift moves this cluster's traffic away from.
    pub shifted_zones: BTreeSet<String>,
}

impl Experience {
    /// The earliest time at which an unavailable offering or full subnet may be tried again.
    pub fn next_lapse(&self) -> Option<Timestamp> {
        let offerings = self.unavailable.iter().map(|entry| entry.until);
        let subnets = self.full_subnets.iter().map(|entry| entry.until);
        offerings.chain(subnets).min()
    }
}

/// Row `…#SUBNET` / id: a subnet without a free address for a launch. Implies nothing about capacity in its zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FullSubnet {
    pub subnet: String,
    pub until: Timestamp,
}

impl FullSubnet {
    /// Time to live, equal to Karpenter's (docs/spec/aws.md#unavailable-offerings).
    const TTL: SignedDuration = SignedDuration::from_mins(3);

    pub fn at(subnet: &str, now: Timestamp) -> Self {
        Self {
            subnet: subnet.to_owned(),
            until: now.saturating_add(Self::TTL).unwrap_or(now),
        }
    }
}

/// Row `…#LEARNED` / type#image: the least memory that nodes of this instance type with this AMI have registered
/// (docs/spec/aws.md#measured-memory). Another AMI has another kernel, and so another row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MeasuredMemory {
    pub instance_type: String,
    pub image: String,
    pub bytes: i64,
    pub until: Timestamp,
}

impl MeasuredMemory {
    const TTL: SignedDuration = SignedDuration::from_hours(60 * 24);
    /// An unchanged measurement is renewed only after this time, so that many nodes cause one write.
    const RENEWAL_INTERVAL: SignedDuration = SignedDuration::from_hours(24);

    /// The row to write once a node has registered `bytes`; `None` if nothing changes. The smallest value wins, and a
    /// confirmed one is extended.
    pub fn after(
        before: Option<&Self>,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Option<Self> {
        let until = now.saturating_add(Self::TTL).unwrap_or(now);
        let stands = before.filter(|before| before.until > now);
        let is_news = stands.is_none_or(|before| {
            let is_stale = until.duration_since(before.until) >= Self::RENEWAL_INTERVAL;
            bytes < before.bytes || (bytes == before.bytes && is_stale)
        });
        is_news.then(|| Self {
            instance_type: instance_type.to_owned(),
            image: image.to_owned(),
            bytes,
            until,
        })
    }
}

/// Row `CLUSTER#c` / `SHIFT`: an ARC zonal shift away from a zone (docs/spec/aws.md#zonal-shift).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ZonalShift {
    pub zone_id: String,
    pub until: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    fn after(before: Option<&MeasuredMemory>, bytes: i64, hours: i64) -> Option<MeasuredMemory> {
        MeasuredMemory::after(before, "m5.large", "ami-1", bytes, at(hours))
    }

    #[test]
    fn least_measured_memory_wins() {
        let first = after(None, 7_900, 0).unwrap();
        assert_eq!(
            after(Some(&first), 8_000, 1),
            None,
            "more than some nodes have"
        );
        let less = after(Some(&first), 7_800, 1).unwrap();
        assert_eq!(less.bytes, 7_800);
    }

    #[test]
    fn confirmed_measurement_is_extended_once_a_day() {
        let first = after(None, 7_900, 0).unwrap();
        assert_eq!(first.until, at(60 * 24));
        assert_eq!(after(Some(&first), 7_900, 23), None);
        let again = after(Some(&first), 7_900, 24).unwrap();
        assert_eq!(again.until, at(61 * 24));
    }

    #[test]
    fn measurement_lapses_after_two_months() {
        let first = after(None, 7_900, 0).unwrap();
        let later = after(Some(&first), 8_000, 60 * 24).unwrap();
        assert_eq!(later.bytes, 8_000);
    }
}
