//! Token buckets for EC2 API calls. EC2 limits calls by account and Region, so all clusters draw from the same buckets
//! (docs/design.md#call-budget, docs/design.md#aws-limits).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Lane;

/// A group of EC2 API actions that share one request limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    Describe,
    CreateFleet,
    TerminateInstances,
    CreateTags,
    /// Launch templates and dry runs of launches.
    Mutating,
}

/// Priority of a caller, lowest first. Each priority leaves part of a bucket to the higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Priority {
    Housekeeping,
    Disruption,
    Provisioning,
    Interruption,
}

/// Row `…#BUCKET#api`: the persisted token bucket of one [`Api`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Tokens at the time `at`, in thousandths of a call.
    millitokens: i64,
    at: Timestamp,
    /// Number of times that the refill rate has been halved, because callers outside Whittle use the account's limit too.
    shrunk: u32,
    shrunk_at: Option<Timestamp>,
}

/// Calls that a draw from a [`TokenBucket`] permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// Number of calls that may be made now.
    pub granted: u32,
    /// Earliest time at which one more call may be granted; `None` if all were granted.
    pub again: Option<Timestamp>,
}

const MILLI: i64 = 1000;
/// Upper bound on halvings of the refill rate: an eighth of the full rate. One halving is undone after each
/// [`RECOVERY_INTERVAL`] without a throttled call.
const HALVINGS_MAX: u32 = 3;
const RECOVERY_INTERVAL: SignedDuration = SignedDuration::from_mins(2);

impl Api {
    pub const ALL: [Self; 5] = [
        Self::Describe,
        Self::CreateFleet,
        Self::TerminateInstances,
        Self::CreateTags,
        Self::Mutating,
    ];

    /// The group of an action such as `DescribeInstances`.
    pub fn of(action: &str) -> Self {
        match action {
            "CreateFleet" => Self::CreateFleet,
            "TerminateInstances" => Self::TerminateInstances,
            "CreateTags" | "DeleteTags" => Self::CreateTags,
            read if read.starts_with("Describe") || read.starts_with("Get") => Self::Describe,
            _ => Self::Mutating,
        }
    }

    /// Number of calls that a process draws at once. Larger draws save writes to the ledger, but calls that the process
    /// does not use are lost, so scarce actions are drawn one by one.
    pub const fn draw_size(self) -> u32 {
        match self {
            Self::Describe => 10,
            Self::CreateTags => 4,
            Self::TerminateInstances | Self::Mutating => 2,
            Self::CreateFleet => 1,
        }
    }

    /// Refill rate in calls per second, and capacity (burst) in calls. A little below EC2's own limits, which users
    /// share.
    const fn limits(self) -> (i64, i64) {
        match self {
            Self::Describe => (20, 100),
            Self::CreateFleet => (2, 5),
            Self::TerminateInstances => (5, 100),
            Self::CreateTags => (10, 100),
            Self::Mutating => (5, 50),
        }
    }
}

impl Priority {
    /// The priority of a lane's calls. Launching and registering nodes comes before removing them.
    pub const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Interruption => Self::Interruption,
            Lane::Provisioner | Lane::Lifecycle => Self::Provisioning,
            Lane::Disruption | Lane::Terminator => Self::Disruption,
            Lane::Housekeeper => Self::Housekeeping,
        }
    }

    /// Percentage of a bucket's capacity that is reserved for higher priorities.
    const fn reserved_percent(self) -> i64 {
        match self {
            Self::Interruption => 0,
            Self::Provisioning => 10,
            Self::Disruption => 40,
            Self::Housekeeping => 60,
        }
    }
}

impl TokenBucket {
    pub fn full(api: Api, now: Timestamp) -> Self {
        Self {
            millitokens: api.limits().1 * MILLI,
            at: now,
            shrunk: 0,
            shrunk_at: None,
        }
    }

    /// Draws up to `wanted` calls.
    #[must_use]
    pub fn draw(
        &self,
        api: Api,
        wanted: u32,
        priority: Priority,
        now: Timestamp,
    ) -> (Self, TokenGrant) {
        let mut after = self.at(api, now);
        let (_, burst) = api.limits();
        let kept = burst * priority.reserved_percent() * MILLI / 100;
        let free = ((after.millitokens - kept) / MILLI).max(0);
        let granted = u32::try_from(free).unwrap_or(u32::MAX).min(wanted);
        after.millitokens -= i64::from(granted) * MILLI;
        let again = (granted < wanted).then(|| after.when(api, kept + MILLI));
        (after, TokenGrant { granted, again })
    }

    /// Records that EC2 throttled a call: the bucket is empty, and its refill rate is halved.
    #[must_use]
    pub fn refused(&self, api: Api, now: Timestamp) -> Self {
        let mut after = self.at(api, now);
        after.millitokens = after.millitokens.min(0);
        after.shrunk = (after.shrunk + 1).min(HALVINGS_MAX);
        after.shrunk_at = Some(now);
        after
    }

    /// The bucket refilled up to `now`. A clock that goes back takes no tokens away.
    fn at(&self, api: Api, now: Timestamp) -> Self {
        let (_, burst) = api.limits();
        let mut after = self.clone();
        let waited = now.duration_since(self.at).as_millis().max(0);
        let gained = i64::try_from(waited).unwrap_or(i64::MAX);
        let gained = gained.saturating_mul(self.millitokens_per_second(api)) / 1000;
        after.millitokens = after.millitokens.saturating_add(gained).min(burst * MILLI);
        after.at = self.at.max(now);
        if let Some(since) = self.shrunk_at {
            let calm = now.duration_since(since).as_secs() / RECOVERY_INTERVAL.as_secs();
            let recovered = u32::try_from(calm.max(0)).unwrap_or(u32::MAX);
            after.shrunk = self.shrunk.saturating_sub(recovered);
            if recovered > 0 {
                after.shrunk_at = (after.shrunk > 0).then_some(now);
            }
        }
        after
    }

    fn millitokens_per_second(&self, api: Api) -> i64 {
        (api.limits().0 * MILLI) >> self.shrunk
    }

    /// The time at which the bucket holds `millitokens`.
    fn when(&self, api: Api, millitokens: i64) -> Timestamp {
        let missing = (millitokens - self.millitokens).max(0);
        let rate = self.millitokens_per_second(api).max(1);
        let wait = SignedDuration::from_millis(-(-missing * 1000).div_euclid(rate));
        self.at.saturating_add(wait).unwrap_or(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLEET: Api = Api::CreateFleet;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn bucket_grants_its_burst_then_its_rate() {
        let bucket = TokenBucket::full(FLEET, at(0));
        let (bucket, first) = bucket.draw(FLEET, 9, Priority::Interruption, at(0));
        assert_eq!(first.granted, 5);
        assert_eq!(first.again, Some(at(500)), "two calls a second");
        let (bucket, none) = bucket.draw(FLEET, 1, Priority::Interruption, at(499));
        assert_eq!(none.granted, 0);
        let (bucket, one) = bucket.draw(FLEET, 1, Priority::Interruption, at(500));
        assert_eq!((one.granted, one.again), (1, None));
        let (_, later) = bucket.draw(FLEET, 100, Priority::Interruption, at(3_600_000));
        assert_eq!(later.granted, 5, "no more than the burst is saved");
    }

    #[test]
    fn lower_priority_leaves_more_tokens() {
        let drawn = [
            Priority::Housekeeping,
            Priority::Disruption,
            Priority::Provisioning,
            Priority::Interruption,
        ]
        .map(|priority| {
            let full = TokenBucket::full(Api::Describe, at(0));
            full.draw(Api::Describe, 1000, priority, at(0)).1.granted
        });
        assert_eq!(drawn, [40, 60, 90, 100]);
        let (dry, _) = TokenBucket::full(Api::Describe, at(0)).draw(
            Api::Describe,
            90,
            Priority::Provisioning,
            at(0),
        );
        let still = dry.draw(Api::Describe, 1, Priority::Interruption, at(0)).1;
        assert_eq!(still.granted, 1, "interruptions have what others left");
        let waits = dry.draw(Api::Describe, 1, Priority::Housekeeping, at(0)).1;
        assert_eq!((waits.granted, waits.again), (0, Some(at(2550))));
    }

    #[test]
    fn throttling_empties_bucket_and_slows_refill_until_recovery() {
        let refused = TokenBucket::full(FLEET, at(0)).refused(FLEET, at(0));
        let wait = |bucket: &TokenBucket, now| {
            let draw = bucket.draw(FLEET, 1, Priority::Interruption, now).1;
            draw.again
                .map(|again| again.duration_since(now).as_millis())
        };
        assert_eq!(wait(&refused, at(0)), Some(1000), "half the rate");
        let often = (0..9).fold(refused.clone(), |bucket, _| bucket.refused(FLEET, at(0)));
        assert_eq!(wait(&often, at(0)), Some(4000), "an eighth, and no less");
        let (spent, _) = often.draw(FLEET, 9, Priority::Interruption, at(120_000));
        let (spent, _) = spent.draw(FLEET, 9, Priority::Interruption, at(240_000));
        let (spent, _) = spent.draw(FLEET, 9, Priority::Interruption, at(360_000));
        assert_eq!(wait(&spent, at(360_000)), Some(500), "the full rate");
    }

    #[test]
    fn clock_going_back_removes_no_tokens() {
        let bucket = TokenBucket::full(FLEET, at(10_000));
        let (after, draw) = bucket.draw(FLEET, 1, Priority::Provisioning, at(0));
        assert_eq!(draw.granted, 1);
        assert_eq!(after.at, at(10_000));
    }
}
