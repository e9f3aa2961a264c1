//! Durations in Go's format, kept as the user wrote them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::wire::parse_text;

/// A duration that the CRDs allow: whole hours, minutes and seconds, such as `72h` or `1h30m`. Keeps its text, so that
/// it is written back unchanged. Durations are equal if their values are.
#[derive(Clone, Debug)]
pub struct GoDuration {
    text: String,
    value: SignedDuration,
}

/// A duration, or `Never`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NillableDuration {
    Never,
    After(GoDuration),
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{text}\" is not a duration: expected {allowed}")]
pub struct DurationError {
    text: String,
    allowed: &'static str,
}

const ALLOWED: &str = "hours, minutes and seconds such as 72h or 1h30m";
const ALLOWED_OR_NEVER: &str = "hours, minutes and seconds such as 72h or 1h30m, or Never";

impl GoDuration {
    /// A duration whose text is known to represent its value.
    pub(crate) fn known(text: &'static str, value: SignedDuration) -> Self {
        Self {
            text: text.to_owned(),
            value,
        }
    }

    pub fn value(&self) -> SignedDuration {
        self.value
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl NillableDuration {
    /// `None` for `Never`.
    pub fn value(&self) -> Option<SignedDuration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration.value),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Never => "Never",
            Self::After(duration) => &duration.text,
        }
    }
}

impl PartialEq for GoDuration {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for GoDuration {}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let error = || DurationError {
            text: text.to_owned(),
            allowed: ALLOWED,
        };
        let is_part = |part: &str| {
            part.strip_suffix(['h', 'm', 's']).is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        if !text.split_inclusive(['h', 'm', 's']).all(is_part) {
            return Err(error());
        }
        let value = parse_go_duration(text).ok_or_else(error)?;
        Ok(Self {
            text: text.to_owned(),
            value,
        })
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text == "Never" {
            return Ok(Self::Never);
        }
        match text.parse() {
            Ok(duration) => Ok(Self::After(duration)),
            Err(error) => Err(DurationError {
                allowed: ALLOWED_OR_NEVER,
                ..error
            }),
        }
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer, ALLOWED)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_text(deserializer, ALLOWED_OR_NEVER)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9]+(s|m|h))+$" })
    }
}

impl JsonSchema for NillableDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NillableDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(([0-9]+(s|m|h))+|Never)$" })
    }
}

/// Parses Go's complete duration syntax (`1.5h`, `-300ms`, `1m30s`, `0`), as in annotations and kubelet settings.
/// `None` if the text is invalid or out of range.
pub fn parse_go_duration(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        nanos = nanos.checked_add(scaled(number, nanos_per(unit)?)?)?;
        rest = tail;
    }
    let nanos = if negative { -nanos } else { nanos };
    let seconds = i64::try_from(nanos.div_euclid(NANOS_PER_SECOND)).ok()?;
    let subseconds = i32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).ok()?;
    SignedDuration::from_secs(seconds).checked_add(SignedDuration::new(0, subseconds))
}

/// Formats a duration as Go does, in whole seconds: `10m0s`, `1h0m0s`, `5s`.
pub fn go_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        (_, _) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

const NANOS_PER_SECOND: i128 = 1_000_000_000;

fn nanos_per(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// `number` (digits with at most one point) times `unit`, truncated to whole nanoseconds.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| -> Option<i128> {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse().ok()
        }
    };
    let mut total = digits(whole)?.checked_mul(unit)?;
    // Digits finer than a nanosecond of an hour are ignored.
    let fraction = fraction.get(..fraction.len().min(15))?;
    if !fraction.is_empty() {
        let power = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        total = total.checked_add(digits(fraction)?.checked_mul(unit)? / power)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_format_as_in_go() {
        for (seconds, text) in [
            (0, "0s"),
            (5, "5s"),
            (600, "10m0s"),
            (3_600, "1h0m0s"),
            (3_661, "1h1m1s"),
        ] {
            let duration = SignedDuration::from_secs(seconds);
            assert_eq!(go_duration(duration), text);
            assert_eq!(parse_go_duration(text), Some(duration));
        }
    }

    #[test]
    fn text_round_trips() {
        for text in ["720h", "43200m", "1h30m", "0s", "720h0m0s", "Never"] {
            let duration: NillableDuration = text.parse().unwrap();
            assert_eq!(serde_json::to_value(&duration).unwrap(), text);
        }
    }

    #[test]
    fn equality_is_by_value() {
        assert_eq!("720h".parse::<NillableDuration>(), "43200m".parse());
        assert_ne!("720h".parse::<NillableDuration>(), "Never".parse());
    }

    #[test]
    fn never_has_no_value() {
        assert_eq!("Never".parse::<NillableDuration>().unwrap().value(), None);
        assert_eq!(
            "1h30m".parse::<NillableDuration>().unwrap().value(),
            Some(SignedDuration::from_mins(90))
        );
    }

    #[test]
    fn invalid_durations_name_allowed_formats() {
        for text in [
            "",
            "5",
            "h",
            "1d",
            "-1h",
            "1.5h",
            "never",
            "72 h",
            "h5",
            "100ms",
            "99999999999999999999h",
        ] {
            let error = text.parse::<NillableDuration>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "\"{text}\" is not a duration: expected hours, minutes and seconds such as 72h or 1h30m, or Never"
                )
            );
        }
        let error = "Never".parse::<GoDuration>().unwrap_err().to_string();
        assert!(!error.contains("or Never"), "{error}");
    }

    #[test]
    fn annotations_accept_complete_go_syntax() {
        assert_eq!(
            parse_go_duration("1h15m30.5s"),
            Some(SignedDuration::from_millis(4_530_500))
        );
        assert_eq!(
            parse_go_duration("-1.5h"),
            Some(SignedDuration::from_mins(-90))
        );
        assert_eq!(
            parse_go_duration(".5s"),
            Some(SignedDuration::from_millis(500))
        );
        assert_eq!(
            parse_go_duration("-1ms"),
            Some(SignedDuration::from_millis(-1))
        );
        assert_eq!(
            parse_go_duration("+2us"),
            Some(SignedDuration::from_micros(2))
        );
        assert_eq!(parse_go_duration("0"), Some(SignedDuration::ZERO));
        for text in ["", "-", "1", "1x", "1.2.3s", "s", "true", "1h 5m"] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }
}
