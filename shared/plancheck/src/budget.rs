//! NodePool budgets for voluntary disruption (docs/spec/lifecycle.md#budgets).

use std::{collections::BTreeMap, str::FromStr};

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use model::{
    node::ConditionStatus,
    node_pool::{Budget, NodePool},
};

use crate::world::World;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Unhealthy,
    Empty,
    Drifted,
    Underutilized,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unhealthy => "Unhealthy",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }
}

/// Number of nodes and of disrupted nodes by NodePool. Nodes that the plan disrupts are added as they are allowed.
pub(crate) struct DisruptionAllowance<'a> {
    counts: BTreeMap<&'a str, Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    total: u64,
    /// Nodes that are being removed or rebooted.
    leaving: u64,
    /// Nodes that are not ready, without those in `leaving`.
    unready: u64,
}

impl Count {
    /// Number of unready nodes that count as disrupted: none if the reason is repair.
    fn unready_for(self, reason: Reason) -> u64 {
        match reason {
            Reason::Unhealthy => 0,
            Reason::Empty | Reason::Drifted | Reason::Underutilized => self.unready,
        }
    }
}

impl<'a> DisruptionAllowance<'a> {
    pub(crate) fn new(world: &World<'a>) -> Self {
        let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
        let machines = world.machines.iter();
        for machine in machines.filter(|machine| machine.initialized || machine.rebooting) {
            let (Some(pool), Some(claim)) = (machine.node_pool(), machine.claim) else {
                continue;
            };
            if claim.is_true("InstanceTerminating") {
                continue;
            }
            let is_ready = machine
                .node
                .is_some_and(|node| node.ready.status == ConditionStatus::True);
            let count = counts.entry(pool).or_default();
            count.total += 1;
            let is_taken = machine.leaving || machine.rebooting;
            count.leaving += u64::from(is_taken);
            count.unready += u64::from(!is_taken && !is_ready);
        }
        Self { counts }
    }

    /// Counts one more disrupted node if the budgets for one of these reasons allow it.
    pub(crate) fn take(&mut self, pool: &'a NodePool, reasons: &[Reason], now: Timestamp) -> bool {
        let count = self.counts.entry(pool.name.as_str()).or_default();
        let budgets = &pool.disruption.budgets;
        let is_left = |reason: &Reason| {
            let taken = count.leaving + count.unready_for(*reason);
            allowed(budgets, *reason, count.total, now) > taken
        };
        let may_go = reasons.iter().any(is_left);
        count.leaving += u64::from(may_go);
        may_go
    }

    /// Whether the budgets for this reason allow terminating one more node before its replacement is launched, with
    /// `missing` others counted as disrupted.
    pub(crate) fn allows_termination_first(
        &self,
        pool: &NodePool,
        reason: Reason,
        missing: usize,
        now: Timestamp,
    ) -> bool {
        let missing = u64::try_from(missing).unwrap_or(u64::MAX);
        let count = self.counts.get(pool.name.as_str());
        let count = count.copied().unwrap_or_default();
        let total = count.total.saturating_add(missing);
        let taken = count.leaving.saturating_add(count.unready_for(reason));
        allowed(&pool.disruption.budgets, reason, total, now) > taken.saturating_add(missing)
    }

    /// Whether the budgets for one of these reasons allow a NodePool to lack `missing` of its `wanted` nodes.
    pub(crate) fn allows_missing(
        &self,
        pool: &NodePool,
        reasons: &[Reason],
        (missing, wanted): (usize, usize),
        now: Timestamp,
    ) -> bool {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let counted = self.counts.get(pool.name.as_str());
        let total = counted.map_or(0, |count| count.total).max(number(wanted));
        let mut reasons = reasons.iter();
        reasons
            .any(|reason| allowed(&pool.disruption.budgets, *reason, total, now) >= number(missing))
    }
}

/// The strictest budget counts. A budget that cannot be parsed allows nothing, for any reason.
fn allowed(budgets: &[Budget], reason: Reason, total: u64, now: Timestamp) -> u64 {
    let mut least = u64::MAX;
    for budget in budgets {
        let (Some(nodes), Some(active)) = (scaled(&budget.nodes, total), is_active(budget, now))
        else {
            return 0;
        };
        let is_concerned =
            budget.reasons.is_empty() || budget.reasons.iter().any(|name| name == reason.as_str());
        if active && is_concerned {
            least = least.min(nodes);
        }
    }
    least
}

/// Parses a number, or a percentage of `total` rounded up.
fn scaled(nodes: &str, total: u64) -> Option<u64> {
    match nodes.strip_suffix('%') {
        None => nodes.parse().ok(),
        Some(percent) => {
            let percent: u64 = percent.parse().ok()?;
            Some(percent.saturating_mul(total).div_ceil(100))
        }
    }
}

/// Whether the schedule fired within the duration before now: `(now − duration, now]`.
fn is_active(budget: &Budget, now: Timestamp) -> Option<bool> {
    let (schedule, duration) = match (&budget.schedule, &budget.duration) {
        (None, None) => return Some(true),
        (Some(schedule), Some(duration)) => (schedule, duration),
        _ => return None,
    };
    let schedule = Schedule::parse(schedule)?;
    Some(schedule.hits_within(length(duration)?, now))
}

/// Parses whole hours, minutes and seconds, such as `1h30m`, in any order.
fn length(text: &str) -> Option<SignedDuration> {
    let mut sum = SignedDuration::ZERO;
    for part in text.split_inclusive(|c: char| c.is_ascii_alphabetic()) {
        let (unit, seconds) = [('h', 3600), ('m', 60), ('s', 1)]
            .into_iter()
            .find(|(unit, _)| part.ends_with(*unit))?;
        let number = digits::<i64>(part.strip_suffix(unit)?)?;
        sum = sum.checked_add(SignedDuration::from_secs(number.checked_mul(seconds)?))?;
    }
    (!text.is_empty()).then_some(sum)
}

/// Parses a number without a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Five cron fields: the minutes, hours, days of the month, months and days of the week (0 is Sunday) when the schedule
/// fires.
struct Schedule {
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Vec<i8>,
    months: Vec<i8>,
    weekdays: Vec<i8>,
    /// Whether the schedule fires on days that match either day field, because both are restricted.
    either_day: bool,
}

/// Every schedule recurs within this many days: 29 February may be eight years away, across a century without leap
/// year.
const DAYS_MAX: i64 = 8 * 366;

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Schedule {
    fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return None;
        };
        let is_open = |field: &str| {
            let mut parts = field.split(',');
            parts.any(|part| matches!(part, "*" | "?" | "*/1" | "?/1"))
        };
        Some(Self {
            minutes: values(minutes, 0, 59, &[])?,
            hours: values(hours, 0, 23, &[])?,
            days: values(days, 1, 31, &[])?,
            months: values(months, 1, 12, &MONTHS)?,
            weekdays: values(weekdays, 0, 6, &WEEKDAYS)?,
            either_day: !is_open(days) && !is_open(weekdays),
        })
    }

    fn hits_within(&self, duration: SignedDuration, now: Timestamp) -> bool {
        let now_at = now.to_zoned(TimeZone::UTC).datetime();
        let mut date = now_at.date();
        for _ in 0..=DAYS_MAX {
            if self.is_day(date)
                && let Some(hit) = self.last_hit(date, now_at)
            {
                let hit = hit.to_zoned(TimeZone::UTC).map(|hit| hit.timestamp());
                return hit.is_ok_and(|hit| now.duration_since(hit) < duration);
            }
            match date.yesterday() {
                Ok(yesterday) => date = yesterday,
                Err(_) => return false,
            }
        }
        false
    }

    fn is_day(&self, date: civil::Date) -> bool {
        let by_date = self.days.contains(&date.day());
        let by_weekday = self
            .weekdays
            .contains(&date.weekday().to_sunday_zero_offset());
        let is_day = if self.either_day {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        is_day && self.months.contains(&date.month())
    }

    /// The last time on a date when the schedule fires, not after `end`.
    fn last_hit(&self, date: civil::Date, end: civil::DateTime) -> Option<civil::DateTime> {
        let hours = self.hours.iter().rev();
        hours
            .flat_map(|hour| {
                self.minutes
                    .iter()
                    .rev()
                    .map(|minute| date.at(*hour, *minute, 0, 0))
            })
            .find(|hit| *hit <= end)
    }
}

/// Parses the values of one field: lists of `*`, `a`, `a-b` and `a-b/step`. Sorted.
fn values(field: &str, least: i8, most: i8, names: &[&str]) -> Option<Vec<i8>> {
    let number = |text: &str| -> Option<i8> {
        let named = names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        match named {
            // Months count from 1, weekdays from 0, like their fields.
            Some(index) => Some(i8::try_from(index).ok()? + least),
            None => digits(text).filter(|number| (least..=most).contains(number)),
        }
    };
    let mut values = Vec::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, digits::<usize>(step).filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None if matches!(range, "*" | "?") => (least, most),
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return None;
        }
        values.extend((from..=to).step_by(step));
    }
    values.sort_unstable();
    values.dedup();
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(nodes: &str, schedule: Option<&str>, duration: Option<&str>) -> Budget {
        Budget {
            nodes: nodes.into(),
            schedule: schedule.map(Into::into),
            duration: duration.map(Into::into),
            reasons: Vec::new(),
        }
    }

    fn allowed_at(budgets: &[Budget], now: &str) -> u64 {
        allowed(budgets, Reason::Empty, 10, now.parse().unwrap())
    }

    const NOON: &str = "2026-01-01T12:00:00Z"; // a Thursday

    #[test]
    fn shares_are_rounded_up() {
        assert_eq!(allowed_at(&[budget("5%", None, None)], NOON), 1);
        assert_eq!(allowed_at(&[budget("25%", None, None)], NOON), 3);
        assert_eq!(allowed_at(&[budget("0%", None, None)], NOON), 0);
        assert_eq!(
            allowed_at(&[budget("3", None, None), budget("100%", None, None)], NOON),
            3
        );
    }

    #[test]
    fn schedule_is_in_force_for_its_duration() {
        let budgets = [budget("0", Some("0 9 * * mon-fri"), Some("8h"))];
        assert_eq!(allowed_at(&budgets, "2026-01-01T08:59:59Z"), u64::MAX);
        assert_eq!(allowed_at(&budgets, "2026-01-01T09:00:00Z"), 0);
        assert_eq!(allowed_at(&budgets, "2026-01-01T16:59:59Z"), 0);
        assert_eq!(allowed_at(&budgets, "2026-01-01T17:00:00Z"), u64::MAX);
        assert_eq!(
            allowed_at(&budgets, "2026-01-03T12:00:00Z"),
            u64::MAX,
            "a Saturday"
        );
    }

    #[test]
    fn schedules_may_be_lists_steps_and_names() {
        let is_active = |schedule: &str, duration: &str, now: &str| {
            allowed_at(&[budget("0", Some(schedule), Some(duration))], now) == 0
        };
        assert!(is_active("*/15 * * * *", "5m", "2026-01-01T12:34:00Z"));
        assert!(!is_active("*/15 * * * *", "4m", "2026-01-01T12:34:00Z"));
        assert!(is_active("5/15 * * * *", "5m", "2026-01-01T12:22:00Z"));
        assert!(is_active("0 0 1,15 JAN *", "13h", NOON));
        assert!(!is_active("0 0 15 JAN *", "13h", NOON));
        assert!(
            is_active("0 0 15 * THU", "13h", NOON),
            "either kind of day hits"
        );
        assert!(is_active("@daily", "13h", NOON));
        assert!(is_active("@yearly", "1h", "2026-01-01T00:30:00Z"));
        assert!(is_active("0 0 29 2 *", "20000h", NOON));
    }

    #[test]
    fn either_day_field_matches_only_if_neither_is_a_star_without_a_step() {
        let is_active = |schedule: &str| {
            let budget = budget("0", Some(schedule), Some("24h"));
            allowed_at(&[budget], "2026-01-02T12:00:00Z") == 0 // a Friday
        };
        assert!(!is_active("0 0 1,* * thu"), "a star in a list is a star");
        assert!(!is_active("0 0 */1 * thu"), "a step of one is none");
        assert!(is_active("0 0 */2 * fri"), "a step restricts the days");
    }

    #[test]
    fn durations_are_whole_hours_minutes_and_seconds_in_any_order() {
        let is_active = |duration: &str| {
            allowed_at(&[budget("0", Some("0 0 * * *"), Some(duration))], NOON) == 0
        };
        assert!(is_active("721m"));
        assert!(!is_active("720m0s"), "closed at its end");
        assert!(!is_active("5m1h"));
        assert!(!is_active("00000000000000000000011h"));
        assert!(is_active("00000000000000000000013h"));
        assert!(is_active("1 hour"), "none can be read");
    }

    #[test]
    fn unparseable_budget_allows_nothing() {
        for bad in [
            budget("many", None, None),
            budget("10%", Some("0 0 * * *"), None),
            budget("10%", Some("60 0 * * *"), Some("1h")),
            budget("10%", Some("0 0 * *"), Some("1h")),
            budget("10%", Some("0 0 5-1 * *"), Some("1h")),
            budget("10%", Some("*/0 0 * * *"), Some("1h")),
            budget("10%", Some("0 0 * * 7"), Some("1h")),
            budget("10%", Some("+5 0 * * *"), Some("1h")),
            budget("10%", Some("0 0 * * *"), Some("h")),
            budget("10%", Some("0 0 * * *"), Some("99999999999999999999h")),
        ] {
            assert_eq!(allowed_at(&[budget("100%", None, None), bad], NOON), 0);
        }
    }
}
