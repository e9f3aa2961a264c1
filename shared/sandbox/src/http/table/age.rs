use jiff::Timestamp;
use serde_json::Value;

/// Age of a timestamp, shortened as `kubectl` does: `45s`, `3m12s`, `5h`, `2d4h`.
pub(super) fn age(time: &Value, now: Timestamp) -> Value {
    let Some(time) = time.as_str().and_then(|text| text.parse().ok()) else {
        return Value::from("<unknown>");
    };
    Value::from(shortened(now.duration_since(time).as_secs()))
}

/// Formats seconds with at most two units.
pub(super) fn shortened(seconds: i64) -> String {
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        252_288_000.. => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn ages_are_shortened_like_kubectl() {
        let shown: Vec<String> = [0, 119, 192, 600, 7_500, 10_800, 20_000, 200_000, 864_000]
            .map(shortened)
            .into();
        assert_eq!(
            shown,
            [
                "0s", "119s", "3m12s", "10m", "125m", "3h", "5h33m", "2d7h", "10d"
            ]
        );
    }
}
