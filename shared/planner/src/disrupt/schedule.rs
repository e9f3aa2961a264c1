//! Cron schedules of disruption budgets, in UTC (docs/spec/lifecycle.md#budget-value): five fields, or a name such as `@daily`.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};

/// Opening times of a window. Each field is a bit set of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Sunday (0) to Saturday (6).
    weekdays: u64,
    /// Days of the month and of the week are both restricted: either opens the window.
    either: bool,
}

/// Upper bound on the days between two openings: 29 February, with a non-leap century year in between.
const DAYS_MAX: i64 = 8 * 366;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Returns `None` if the text is not a schedule.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let spelled_out = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            fields => fields,
        };
        let mut fields = spelled_out.split_whitespace();
        let mut next = |first, last, names| Field::parse(fields.next()?, first, last, names);
        let (minutes, hours) = (next(0, 59, &[])?, next(0, 23, &[])?);
        let (days, months) = (next(1, 31, &[])?, next(1, 12, &MONTHS)?);
        let weekdays = next(0, 6, &WEEKDAYS)?;
        fields.next().is_none().then_some(Self {
            minutes: minutes.set,
            hours: hours.set,
            days: days.set,
            months: months.set,
            weekdays: weekdays.set,
            either: !days.open && !weekdays.open,
        })
    }

    /// Closing time of the window of this length that opened last, if it is still open. The window is closed at its exact end.
    pub(super) fn closes(&self, length: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let end = self.last_opening(now)?.saturating_add(length).ok()?;
        (end > now).then_some(end)
    }

    fn last_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let mut day = now.date();
        for _ in 0..DAYS_MAX {
            if self.opens_on(day)
                && let Some(opening) = self.last_opening_on(day, now)
            {
                return opening
                    .to_zoned(TimeZone::UTC)
                    .ok()
                    .map(|at| at.timestamp());
            }
            day = day.yesterday().ok()?;
        }
        None
    }

    fn opens_on(&self, day: civil::Date) -> bool {
        let by_date = has(self.days, day.day());
        let by_weekday = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        let on_day = if self.either {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        on_day && has(self.months, day.month())
    }

    fn last_opening_on(&self, day: civil::Date, now: civil::DateTime) -> Option<civil::DateTime> {
        let hours = (0..24).rev().filter(|hour| has(self.hours, *hour));
        let times = hours.flat_map(|hour| {
            let minutes = (0..60).rev().filter(|minute| has(self.minutes, *minute));
            minutes.map(move |minute| day.at(hour, minute, 0, 0))
        });
        times.into_iter().find(|time| *time <= now)
    }
}

/// One field of a schedule, as a bit set of its values.
struct Field {
    set: u64,
    /// Starts with `*` or `?` and has no step.
    open: bool,
}

impl Field {
    fn parse(text: &str, first: i8, last: i8, names: &[&str]) -> Option<Self> {
        let mut field = Self {
            set: 0,
            open: false,
        };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(digits::<usize>(step)?)),
                None => (part, None),
            };
            let number = |text: &str| number(text, first, names);
            let star = matches!(range, "*" | "?");
            let (from, to) = match range.split_once('-') {
                Some((from, to)) => (number(from)?, number(to)?),
                None if star => (first, last),
                None if step.is_some() => (number(range)?, last),
                None => (number(range)?, number(range)?),
            };
            if from < first || to > last || from > to || step == Some(0) {
                return None;
            }
            field.open |= star && step.is_none_or(|step| step == 1);
            for value in (from..=to).step_by(step.unwrap_or(1)) {
                field.set |= 1_u64.checked_shl(u32::try_from(value).ok()?)?;
            }
        }
        Some(field)
    }
}

/// Parses a number, or a name that counts from the field's first value.
fn number(text: &str, first: i8, names: &[&str]) -> Option<i8> {
    let named = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text));
    match named {
        Some(at) => i8::try_from(at).ok()?.checked_add(first),
        None => digits(text),
    }
}

/// Parses a number without a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn has(set: u64, value: i8) -> bool {
    u32::try_from(value)
        .ok()
        .and_then(|value| set.checked_shr(value))
        .is_some_and(|set| set & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(schedule: &str, hours: i64, now: &str) -> bool {
        let schedule = Schedule::parse(schedule).unwrap();
        let length = SignedDuration::from_hours(hours);
        let closes = schedule.closes(length, now.parse().unwrap());
        closes.is_some()
    }

    #[test]
    fn window_includes_its_start_and_excludes_its_end() {
        for (now, open) in [
            ("2026-03-02T08:59:59Z", false),
            ("2026-03-02T09:00:00Z", true),
            ("2026-03-02T16:59:59.9Z", true),
            ("2026-03-02T17:00:00Z", false),
            // Saturday.
            ("2026-03-07T09:00:00Z", false),
        ] {
            assert_eq!(is_open("0 9 * * mon-fri", 8, now), open, "{now}");
        }
    }

    #[test]
    fn window_longer_than_its_period_never_closes() {
        assert!(is_open("@hourly", 2, "2026-03-02T08:59:59Z"));
        assert!(is_open("0 22 * * 5", 48, "2026-03-08T12:00:00Z"));
    }

    #[test]
    fn days_of_month_and_week_are_united_only_if_both_are_restricted() {
        let now = "2026-03-05T01:00:00Z"; // a Thursday
        assert!(is_open("0 0 1 * thu", 2, now));
        assert!(!is_open("0 0 1 * *", 2, now));
        assert!(!is_open("0 0 * * wed", 2, now) && !is_open("0 0 2-30/2 * wed", 2, now));
        assert!(
            is_open("0 0 */2 * wed", 2, now),
            "a step restricts the days"
        );
        assert!(is_open("0 0 29 2 *", 800 * 24, now));
    }

    #[test]
    fn steps_lists_and_names_parse_and_anything_else_is_rejected() {
        assert!(is_open("10-50/20,5 1 5 MAR ?", 1, "2026-03-05T02:29:00Z"));
        assert!(is_open("10/20 1 * * *", 1, "2026-03-05T02:49:00Z"));
        assert!(!is_open("10/20 1 * * *", 1, "2026-03-05T02:50:00Z"));
        for bad in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "+5 * * * *",
            "*/+5 * * * *",
            "a * * * *",
            "@every 1h",
        ] {
            assert_eq!(Schedule::parse(bad), None, "{bad}");
        }
    }
}
