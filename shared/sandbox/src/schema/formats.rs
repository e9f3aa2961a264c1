/// Returns whether a string has the `format` that a schema names. Unknown formats are ignored, as in the API server.
pub(super) fn is_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => text.parse::<jiff::SignedDuration>().is_ok(),
        "byte" => {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD
                .decode(text)
                .is_ok()
        }
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::is_format;

    #[test]
    fn known_formats_are_checked_and_unknown_ones_ignored() {
        assert!(is_format("date-time", "2026-01-01T00:00:00Z"));
        assert!(!is_format("date-time", "yesterday"));
        assert!(is_format("duration", "1h30m"));
        assert!(!is_format("duration", "soon"));
        assert!(is_format("hexagon", "anything"));
    }
}
