//! The account's request budget: EC2 limits calls by account and Region, so all clusters draw from the same buckets
//! (docs/design.md#call-budget, docs/design.md#aws-limits).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Lane;

/// Calls that EC2 counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    Describe,
    CreateFleet,
    TerminateInstances,
    CreateTags,
    /// Launch templates, and launches that are tried without launching.
    Mutating,
}

/// Who draws. Later ones come first: of a bucket that runs dry, each leaves some to those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Priority {
    Housekeeping,
    Disruption,
    Provisioning,
    Interruption,
}

/// `…#BUCKET#api`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Thousandths of calls, at `at`.
    millitokens: i64,
    at: Timestamp,
    /// Halvings of the rate: others spend the account's limit too.
    shrunk: u32,
    shrunk_at: Option<Timestamp>,
}

/// What a draw came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Calls that may be made now.
    pub granted: u32,
    /// When one more may be had, unless all were granted.
    pub again: Option<Timestamp>,
}

const MILLI: i64 = 1000;
/// The rate shrinks to an eighth at most, and doubles again after each such time without a refusal.
const MOST_HALVINGS: u32 = 3;
const RECOVERY: SignedDuration = SignedDuration::from_mins(2);

impl Api {
    pub const ALL: [Self; 5] = [
        Self::Describe,
        Self::CreateFleet,
        Self::TerminateInstances,
        Self::CreateTags,
        Self::Mutating,
    ];

    /// What EC2 counts this action as, such as `DescribeInstances`.
    pub fn of(action: &str) -> Self {
        match action {
            "CreateFleet" => Self::CreateFleet,
            "TerminateInstances" => Self::TerminateInstances,
            "CreateTags" | "DeleteTags" => Self::CreateTags,
            read if read.starts_with("Describe") || read.starts_with("Get") => Self::Describe,
            _ => Self::Mutating,
        }
    }

    /// How many calls a process takes at once, so that not every call is a write to the ledger; what it does not need is
    /// lost, so scarce ones are taken one by one.
    pub const fn at_once(self) -> u32 {
        match self {
            Self::Describe => 10,
            Self::CreateTags => 4,
            Self::TerminateInstances | Self::Mutating => 2,
            Self::CreateFleet => 1,
        }
    }

    /// Calls per second, and how many at once. A little below EC2's own limits, which users share.
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
    /// Whose calls a lane makes. What new nodes wait for comes before what takes nodes away.
    pub const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Interruption => Self::Interruption,
            Lane::Provisioner | Lane::Lifecycle => Self::Provisioning,
            Lane::Disruption | Lane::Terminator => Self::Disruption,
            Lane::Housekeeper => Self::Housekeeping,
        }
    }

    /// The part of a bucket that is not for this one, in percent.
    const fn leaves(self) -> i64 {
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

    /// Takes as many of `wanted` calls as may be made now.
    #[must_use]
    pub fn draw(&self, api: Api, wanted: u32, priority: Priority, now: Timestamp) -> (Self, Draw) {
        let mut after = self.at(api, now);
        let (_, burst) = api.limits();
        let kept = burst * priority.leaves() * MILLI / 100;
        let free = ((after.millitokens - kept) / MILLI).max(0);
        let granted = u32::try_from(free).unwrap_or(u32::MAX).min(wanted);
        after.millitokens -= i64::from(granted) * MILLI;
        let again = (granted < wanted).then(|| after.when(api, kept + MILLI));
        (after, Draw { granted, again })
    }

    /// EC2 refused a call for there being too many: nothing is left for now, and the rate was too high.
    #[must_use]
    pub fn refused(&self, api: Api, now: Timestamp) -> Self {
        let mut after = self.at(api, now);
        after.millitokens = after.millitokens.min(0);
        after.shrunk = (after.shrunk + 1).min(MOST_HALVINGS);
        after.shrunk_at = Some(now);
        after
    }

    /// The bucket as it is by then. Clocks that differ never take tokens away.
    fn at(&self, api: Api, now: Timestamp) -> Self {
        let (_, burst) = api.limits();
        let mut after = self.clone();
        let waited = now.duration_since(self.at).as_millis().max(0);
        let gained = i64::try_from(waited).unwrap_or(i64::MAX);
        let gained = gained.saturating_mul(self.millitokens_per_second(api)) / 1000;
        after.millitokens = after.millitokens.saturating_add(gained).min(burst * MILLI);
        after.at = self.at.max(now);
        if let Some(since) = self.shrunk_at {
            let calm = now.duration_since(since).as_secs() / RECOVERY.as_secs();
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

    /// When it holds so much.
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
    fn a_bucket_gives_a_burst_and_then_its_rate() {
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
    fn who_matters_less_leaves_more() {
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
    fn a_refusal_empties_the_bucket_and_slows_it_until_ec2_is_calm_again() {
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
    fn a_clock_that_goes_back_takes_nothing_away() {
        let bucket = TokenBucket::full(FLEET, at(10_000));
        let (after, draw) = bucket.draw(FLEET, 1, Priority::Provisioning, at(0));
        assert_eq!(draw.granted, 1);
        assert_eq!(after.at, at(10_000));
    }
}
