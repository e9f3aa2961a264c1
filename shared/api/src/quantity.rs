//! Quantities as the user wrote them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A quantity such as `1500m` or `2Gi`. Keeps its text, because writing `1024Mi` back as `1Gi` would show as a
/// difference in every GitOps tool; the amount is parsed where it is used. YAML numbers (`cpu: 1`, `cpu: 0.5`) are kept
/// as their text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

/// Resource name → quantity.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Whether `text` has the form of a quantity: a number with an optional suffix or exponent.
pub fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let exponent = || {
        suffix
            .strip_prefix(['e', 'E'])
            .is_some_and(|power| power.parse::<i32>().is_ok())
    };
    number.bytes().any(|byte| byte.is_ascii_digit())
        && number.bytes().filter(|byte| *byte == b'.').count() <= 1
        && (suffix.is_empty() || SUFFIXES.contains(&suffix) || exponent())
}

const SUFFIXES: &[&str] = &[
    "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

impl Quantity {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a number, or text such as \"500m\" or \"1.5Gi\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Quantity, E> {
        Ok(Quantity(text))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        if number.is_finite() {
            Ok(Quantity(number.to_string()))
        } else {
            Err(E::invalid_value(de::Unexpected::Float(number), &self))
        }
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_as_written() {
        let list: ResourceList =
            serde_json::from_str(r#"{"cpu":"1000m","memory":"1024Mi"}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&list).unwrap(),
            r#"{"cpu":"1000m","memory":"1024Mi"}"#
        );
    }

    #[test]
    fn numbers_become_their_text() {
        let list: ResourceList =
            serde_saphyr::from_str("{cpu: 2, memory: 0.5, negative: -1, big: 1e3}").unwrap();
        let texts: Vec<_> = list
            .iter()
            .map(|(name, quantity)| (name.as_str(), quantity.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                ("big", "1000"),
                ("cpu", "2"),
                ("memory", "0.5"),
                ("negative", "-1")
            ]
        );
    }

    #[test]
    fn quantity_syntax() {
        for text in [
            "1", "1.5", ".5", "5.", "100m", "2Gi", "1e3", "1E-3", "+1", "-1k",
        ] {
            assert!(is_quantity(text), "{text}");
        }
        for text in [
            "", ".", "1.2.3", "1KB", "Gi", "1 Gi", "1e", "1e3m", "--1", "0x10",
        ] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn non_numbers_are_rejected() {
        for text in ["{cpu: true}", "{cpu: [1]}", "{cpu: .inf}"] {
            assert!(
                serde_saphyr::from_str::<ResourceList>(text).is_err(),
                "{text}"
            );
        }
    }
}
