//! The settings of a registered cluster (docs/settings.md).

#[cfg(any(feature = "aws", test))]
pub(crate) mod change;
pub(crate) mod command;
#[cfg(any(feature = "aws", test))]
pub(crate) mod known;

use aws_rules::ProviderSettings;
use serde_json::{Value, json};

/// Reason why functions refuse an entry or its settings.
pub(crate) fn refusal(entry: &Value) -> Option<String> {
    let read = turns::Entry::read(entry).map_err(|error| error.to_string());
    let settings = entry.get("settings").unwrap_or(&Value::Null);
    let of_provider = || ProviderSettings::read(settings).map_err(|error| error.to_string());
    read.map(drop).and_then(|()| of_provider().map(drop)).err()
}

/// Parses the `settings` of an entry on the command line.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let settings: Value =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match refusal(&json!({ "settings": settings })) {
        None => Ok(settings),
        Some(refusal) => Err(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        for (settings, expected) in [
            (r#"{"optimize": "speed"}"#, "settings.optimize is \"speed\""),
            (r#"{"reservedENIs": "some"}"#, "reservedENIs \"some\""),
            ("{", "not JSON"),
        ] {
            let refused = read(settings).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
