//! Cluster settings for commands that plan as the cluster's functions would.

use anyhow::{Result, bail};
use clap::Args;
use model::{NanosPerHour, snapshot::Settings};
use serde_json::{Value, json};

use crate::{cluster, settings};

/// Cluster settings that affect planning.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Planning {
    /// Cluster settings as JSON, or a whole registry entry, as far as they affect planning; docs/settings.md lists them, and shows how to
    /// read the entry of a registered cluster
    #[arg(long, value_name = "JSON", value_parser = read)]
    settings: Option<Value>,
    /// Setting nodePrice: price of a node in dollars per hour, in addition to its instance and volumes
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    node_price: Option<NanosPerHour>,
    /// Setting preferenceWorth: value of meeting one preference of one pod, in dollars per hour
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    preference_worth: Option<NanosPerHour>,
}

impl Planning {
    /// The given settings, with defaults for the others.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let mut settings = match &self.settings {
            Some(settings) => turns::Entry::read(&json!({ "settings": settings }))?.settings,
            None => cluster::aws_settings(),
        };
        if let Some(price) = self.node_price {
            settings.node_price = price;
        }
        if let Some(worth) = self.preference_worth {
            settings.preference_worth = worth;
        }
        Ok(settings)
    }

    /// Refuses planning settings in commands that plan nothing.
    pub(crate) fn refuse(&self, why: &str) -> Result<()> {
        let Self {
            settings,
            node_price,
            preference_worth,
        } = self;
        if settings.is_some() || node_price.is_some() || preference_worth.is_some() {
            bail!("--settings, --node-price and --preference-worth have no effect: {why}");
        }
        Ok(())
    }
}

/// Parses `settings`, alone or in an entry.
fn read(text: &str) -> Result<Value, String> {
    let given: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match given.get("settings") {
        Some(of_entry) => settings::read(&of_entry.to_string()),
        None if given.get("reach").is_some() => Ok(json!({})),
        None => settings::read(text),
    }
}

fn dollars(text: &str) -> Result<NanosPerHour, String> {
    NanosPerHour::from_dollars(text)
        .ok_or_else(|| "expected dollars per hour, such as 0.02".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_parse_alone_or_in_an_entry() {
        let entry = r#"{"type": "eks", "reach": "public", "settings": {"nodePrice": "0.5"}}"#;
        for text in [r#"{"nodePrice": "0.5"}"#, entry] {
            assert_eq!(read(text), Ok(json!({"nodePrice": "0.5"})), "{text}");
        }
        let bare = r#"{"type": "eks", "reach": "public", "mode": "active"}"#;
        assert_eq!(read(bare), Ok(json!({})));
        let refused = read(r#"{"settings": {"nodePrice": 1}}"#).unwrap_err();
        assert!(refused.contains("settings.nodePrice is 1"), "{refused}");
    }

    #[test]
    fn options_override_settings() {
        let planning = Planning {
            settings: Some(json!({"nodePrice": "0.5", "preferenceWorth": "0.25"})),
            node_price: dollars("0.125").ok(),
            preference_worth: None,
        };
        let settings = planning.settings().unwrap();
        let dollars = NanosPerHour::from_dollars;
        assert_eq!(Some(settings.node_price), dollars("0.125"));
        assert_eq!(Some(settings.preference_worth), dollars("0.25"));
        assert!(planning.refuse("nothing is planned").is_err());
        assert!(Planning::default().refuse("nothing is planned").is_ok());
    }
}
