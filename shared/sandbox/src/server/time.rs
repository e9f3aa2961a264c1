use jiff::{Timestamp, Unit};

/// Formats a time as `metav1.Time`: whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

/// Formats a time as `metav1.MicroTime`: always six decimals.
pub fn micro_time(time: Timestamp) -> String {
    let micros = time.round(Unit::Microsecond).unwrap_or(time);
    format!("{micros:.6}")
}

/// Parses a time written by Kubernetes; `None` if absent or malformed.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
