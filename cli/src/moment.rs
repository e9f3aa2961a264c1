//! Times as users write them: a date, or an age.

use anyhow::{Context, Result};
use jiff::{Span, Timestamp};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    At(Timestamp),
    Ago(Span),
}

impl Moment {
    pub(crate) fn before(self, now: Timestamp) -> Result<Timestamp> {
        match self {
            Self::At(at) => Ok(at),
            Self::Ago(span) => {
                let utc = now.to_zoned(jiff::tz::TimeZone::UTC);
                let then = utc.checked_sub(span);
                Ok(then.context("that is too long ago")?.timestamp())
            }
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<Moment, String> {
    let at = text.parse::<Timestamp>().map(Moment::At).ok();
    let ago = || text.parse::<Span>().ok().filter(|span| !span.is_negative());
    at.or_else(|| ago().map(Moment::Ago)).ok_or_else(|| {
        "expected a time such as 2026-08-22T12:00:00Z, or an age such as 7d or 2h30m".to_owned()
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where commands that work with the ledger look at the clock"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_ages() {
        let now: Timestamp = "2026-08-22T12:00:00Z".parse().unwrap();
        let at = |text: &str| parse(text).map(|moment| moment.before(now).unwrap().to_string());
        assert_eq!(at("2026-08-01T00:00:00Z").unwrap(), "2026-08-01T00:00:00Z");
        assert_eq!(at("7d").unwrap(), "2026-08-15T12:00:00Z");
        assert_eq!(at("2h30m").unwrap(), "2026-08-22T09:30:00Z");
        for text in ["", "yesterday", "-1h", "2026-08-01"] {
            assert!(at(text).is_err(), "{text}");
        }
    }
}
