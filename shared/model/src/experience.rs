//! Experience of an account's clusters with EC2: their catalogs are corrected by it (docs/design.md#shared-experience).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ledger::UnavailableOffering;

/// Everything that has not lapsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Experience {
    /// Offerings that lately had no capacity.
    pub unavailable: Vec<UnavailableOffering>,
    /// Subnets that lately had no free address.
    pub full_subnets: Vec<FullSubnet>,
    pub memory: Vec<MeasuredMemory>,
    /// Ids of zones that this cluster's traffic has been shifted away from.
    pub shifted_zones: BTreeSet<String>,
}

impl Experience {
    /// When the next thing that cannot be had may be tried again.
    pub fn next_lapse(&self) -> Option<Timestamp> {
        let offerings = self.unavailable.iter().map(|entry| entry.until);
        let subnets = self.full_subnets.iter().map(|entry| entry.until);
        offerings.chain(subnets).min()
    }
}

/// `…#SUBNET` / id: a subnet that had no free address for a launch. It says nothing about its zone's capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FullSubnet {
    pub subnet: String,
    pub until: Timestamp,
}

impl FullSubnet {
    /// As upstream (docs/spec/aws.md#unavailable-offerings).
    const AVOIDED: SignedDuration = SignedDuration::from_mins(3);

    pub fn at(subnet: &str, now: Timestamp) -> Self {
        Self {
            subnet: subnet.to_owned(),
            until: now.saturating_add(Self::AVOIDED).unwrap_or(now),
        }
    }
}

/// `…#LEARNED` / type#image: the memory that nodes of this type with this image have registered, the least of them
/// (docs/spec/aws.md#measured-memory). Another image has other kernels and so another row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MeasuredMemory {
    pub instance_type: String,
    pub image: String,
    pub bytes: i64,
    pub until: Timestamp,
}

impl MeasuredMemory {
    const KEPT: SignedDuration = SignedDuration::from_hours(60 * 24);
    /// A confirmed measurement is written again only after this: one write for many nodes.
    const FRESH: SignedDuration = SignedDuration::from_hours(24);

    /// What is known once a node has shown `bytes`, or `None` if that changes nothing: the least counts, and what is seen
    /// again lasts longer.
    pub fn after(
        before: Option<&Self>,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Option<Self> {
        let until = now.saturating_add(Self::KEPT).unwrap_or(now);
        let stands = before.filter(|before| before.until > now);
        let is_news = stands.is_none_or(|before| {
            let is_stale = until.duration_since(before.until) >= Self::FRESH;
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

/// `CLUSTER#c` / `SHIFT`: traffic that ARC has shifted away from a zone (docs/spec/aws.md#zonal-shift).
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
    fn the_least_memory_that_was_seen_counts() {
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
    fn what_is_seen_again_lasts_longer_and_is_written_once_a_day() {
        let first = after(None, 7_900, 0).unwrap();
        assert_eq!(first.until, at(60 * 24));
        assert_eq!(after(Some(&first), 7_900, 23), None);
        let again = after(Some(&first), 7_900, 24).unwrap();
        assert_eq!(again.until, at(61 * 24));
    }

    #[test]
    fn what_was_not_seen_for_two_months_is_forgotten() {
        let first = after(None, 7_900, 0).unwrap();
        let later = after(Some(&first), 8_000, 60 * 24).unwrap();
        assert_eq!(later.bytes, 8_000);
    }
}
