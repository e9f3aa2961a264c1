//! Resource amounts as integers: cpu in millicores, everything else in whole units (memory and storage in bytes).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::{Quantity, QuantityError};

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The synthetic resource `nodes`, which NodePool limits may name: every node counts one.
pub const NODES: &str = "nodes";

/// Resource name → amount. A missing entry means zero; subtraction may make amounts negative.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(pub BTreeMap<String, i64>);

impl Resources {
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn set(&mut self, name: &str, amount: i64) {
        self.0.insert(name.to_owned(), amount);
    }

    /// Parses and sets one entry of a Kubernetes resource list.
    pub fn set_quantity(&mut self, name: &str, text: &str) -> Result<(), QuantityError> {
        let quantity: Quantity = text.parse()?;
        self.set(
            name,
            if name == CPU {
                quantity.milli()
            } else {
                quantity.ceil()
            },
        );
        Ok(())
    }

    /// Adds entry by entry, saturating.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(total) => *total = total.saturating_add(*amount),
                None => self.set(name, *amount),
            }
        }
    }

    /// Subtracts from existing entries only; entries that only `other` has are ignored
    /// (docs/spec/scheduling.md#resources).
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &mut self.0 {
            *amount = amount.saturating_sub(other.get(name));
        }
    }

    /// Takes the larger amount, entry by entry.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(most) => *most = (*most).max(*amount),
                None => self.set(name, *amount),
            }
        }
    }

    /// Whether `self` can be subtracted from `total` without an amount below zero; false if `total` already has one
    /// (docs/spec/scheduling.md#resources).
    pub fn fits(&self, total: &Self) -> bool {
        total.0.values().all(|amount| *amount >= 0)
            && self
                .0
                .iter()
                .all(|(name, amount)| *amount <= total.get(name))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }
}

/// Formats an amount as a Kubernetes quantity: cpu in cores or millicores, memory and storage with the largest exact
/// binary suffix.
pub fn amount_text(name: &str, amount: i64) -> String {
    const BINARY: [&str; 5] = ["Ki", "Mi", "Gi", "Ti", "Pi"];
    if name == CPU {
        return if amount % 1000 == 0 {
            (amount / 1000).to_string()
        } else {
            format!("{amount}m")
        };
    }
    let in_bytes =
        matches!(name, MEMORY | EPHEMERAL_STORAGE | "storage") || name.starts_with("hugepages-");
    if !in_bytes || amount == 0 {
        return amount.to_string();
    }
    let (mut scaled, mut suffix) = (amount, "");
    for next in BINARY {
        if scaled % 1024 != 0 {
            break;
        }
        (scaled, suffix) = (scaled / 1024, next);
    }
    format!("{scaled}{suffix}")
}

impl<const N: usize> From<[(&str, i64); N]> for Resources {
    fn from(entries: [(&str, i64); N]) -> Self {
        Self(
            entries
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_format_as_kubernetes_quantities() {
        for (name, amount, text) in [
            (CPU, 1_500, "1500m"),
            (CPU, 2_000, "2"),
            (CPU, -500, "-500m"),
            (MEMORY, 2 << 30, "2Gi"),
            (MEMORY, 1_536 << 20, "1536Mi"),
            (MEMORY, 1_000_000_001, "1000000001"),
            (MEMORY, 0, "0"),
            (PODS, 1024, "1024"),
            ("nvidia.com/gpu", 4, "4"),
        ] {
            assert_eq!(amount_text(name, amount), text);
            let mut read_back = Resources::default();
            read_back.set_quantity(name, text).unwrap();
            assert_eq!(read_back.get(name), amount);
        }
    }
}
