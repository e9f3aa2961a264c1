use std::collections::BTreeMap;

use jiff::Timestamp;
use model::CapacityType;

/// Upper bounds on running vCPUs; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas {
    pub on_demand_vcpus: Option<i64>,
    pub spot_vcpus: Option<i64>,
}

impl Quotas {
    pub(super) fn of(&self, capacity_type: CapacityType) -> Option<i64> {
        match capacity_type {
            CapacityType::Spot => self.spot_vcpus,
            CapacityType::OnDemand | CapacityType::Reserved => self.on_demand_vcpus,
        }
    }
}

/// API calls that share a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    CreateFleet,
    TerminateInstances,
    CreateTags,
    /// RebootInstances and other calls that change single resources.
    Mutating,
    Describe,
}

/// Size and refill rate of a token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub burst: i64,
    pub per_second: i64,
}

impl Api {
    /// EC2's documented rates per account and Region.
    pub fn rate(self) -> Rate {
        let (burst, per_second) = match self {
            Self::CreateFleet => (5, 2),
            Self::TerminateInstances => (100, 5),
            Self::CreateTags => (100, 10),
            Self::Mutating => (50, 5),
            Self::Describe => (100, 20),
        };
        Rate { burst, per_second }
    }
}

/// Tokens left in each bucket, in thousandths.
#[derive(Debug)]
pub(super) struct Buckets {
    left: BTreeMap<Api, (i64, Timestamp)>,
    start: Timestamp,
}

const WHOLE: i64 = 1000;

impl Buckets {
    pub(super) fn full(now: Timestamp) -> Self {
        Self {
            left: BTreeMap::new(),
            start: now,
        }
    }

    /// Takes a token. Returns whether one was left.
    pub(super) fn take(&mut self, api: Api, now: Timestamp) -> bool {
        let Rate { burst, per_second } = api.rate();
        let (left, since) = self.left.entry(api).or_insert((burst * WHOLE, self.start));
        let millis = now.as_millisecond() - since.as_millisecond();
        *left = (*left + millis.max(0) * per_second).min(burst * WHOLE);
        *since = now;
        let has_token = *left >= WHOLE;
        if has_token {
            *left -= WHOLE;
        }
        has_token
    }
}
