use jiff::{Timestamp, Unit};

/// A time as `metav1.Time` has it: whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

/// A time as `metav1.MicroTime` has it: always six decimals.
pub fn micro_time(time: Timestamp) -> String {
    let micros = time.round(Unit::Microsecond).unwrap_or(time);
    format!("{micros:.6}")
}

/// A time written by Kubernetes; `None` if absent or malformed.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
