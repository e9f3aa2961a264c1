//! Caps: upper bounds on the price and number of nodes, and on evictions and terminations per hour
//! (docs/operations.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{catalog::NanosPerHour, ids::ClusterName, node_pool::NodePool, wording::counted};

/// Caps on nodes of a cluster, a NodePool or the account. Nodes that are being removed do not count towards `price` and
/// `nodes`, so that their replacements never wait for a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    pub price: Option<NanosPerHour>,
    pub nodes: Option<u32>,
    /// Upper bound on voluntary evictions per hour (drift and consolidation). Never set for the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evictions: Option<u32>,
    /// Upper bound per hour on terminations that neither a user nor AWS requested. Never set for the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminations: Option<u32>,
}

impl Caps {
    /// NodePool annotation: upper bound on the price of the NodePool's nodes, in dollars per hour. The number of nodes
    /// is bounded by `spec.limits.nodes` instead.
    pub const ANNOTATION: &str = "whittle.sh/max-dollars-per-hour";
    /// NodePool annotation: upper bound on voluntary evictions per hour from the NodePool's nodes.
    pub const EVICTIONS_ANNOTATION: &str = "whittle.sh/max-evictions-per-hour";
    pub const DOLLARS: &str = "dollars, such as \"12.50\"";

    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Describes the first cap that `spending` already exceeds; `None` if the spending is within all caps.
    pub fn exceeded(&self, spending: Spending) -> Option<String> {
        let Spending { price, nodes } = spending;
        if let Some(most) = self.nodes.filter(|most| nodes > *most) {
            return Some(format!(
                "capped at {} and has {nodes}",
                counted(most, "node")
            ));
        }
        let most = self.price.filter(|most| price > *most)?;
        Some(format!("capped at ${most} an hour and costs ${price}"))
    }

    /// Caps from a NodePool's annotations. A value that cannot be parsed sets no cap: validation marks such a NodePool
    /// as not ready, so nothing is launched for it.
    pub fn of_pool(pool: &NodePool) -> Self {
        let text = |annotation: &str| pool.annotations.get(annotation);
        Self {
            price: text(Self::ANNOTATION).and_then(|text| NanosPerHour::from_dollars(text)),
            nodes: None,
            evictions: text(Self::EVICTIONS_ANNOTATION).and_then(|text| text.parse().ok()),
            terminations: None,
        }
    }
}

/// Total price and number of nodes, counting nodes that stay and launches under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    pub price: NanosPerHour,
    pub nodes: u32,
}

impl Spending {
    pub fn add(&mut self, price: NanosPerHour) {
        self.extend(Self { price, nodes: 1 });
    }

    pub fn extend(&mut self, other: Self) {
        self.price = NanosPerHour(self.price.0.saturating_add(other.price.0));
        self.nodes = self.nodes.saturating_add(other.nodes);
    }
}

/// The account's row: its caps, and the spending of each cluster as of that cluster's last turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountSpending {
    pub caps: Caps,
    pub clusters: BTreeMap<ClusterName, Spending>,
    /// Increases with every change and is a condition of every write, so that of two clusters that launch concurrently the
    /// second one reads again.
    pub revision: u64,
}

impl AccountSpending {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn total(&self) -> Spending {
        sum(self.clusters.values())
    }

    /// Spending of all clusters except this one.
    pub fn others(&self, cluster: &ClusterName) -> Spending {
        let others = self.clusters.iter().filter(|(name, _)| *name != cluster);
        sum(others.map(|(_, spending)| spending))
    }

    /// The next revision, with `spending` recorded for this cluster.
    #[must_use]
    pub fn with(&self, cluster: &ClusterName, spending: Spending) -> Self {
        let mut next = self.clone();
        next.revision = next.revision.saturating_add(1);
        match spending == Spending::default() {
            true => next.clusters.remove(cluster),
            false => next.clusters.insert(cluster.clone(), spending),
        };
        next
    }

    /// Recorded spending of this cluster; zero if there is none.
    pub fn of(&self, cluster: &ClusterName) -> Spending {
        self.clusters.get(cluster).copied().unwrap_or_default()
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Spending>) -> Spending {
    let mut sum = Spending::default();
    all.for_each(|spending| sum.extend(*spending));
    sum
}

impl NanosPerHour {
    /// Parses a non-negative amount of dollars with up to nine decimal places, at most a million.
    pub fn from_dollars(text: &str) -> Option<Self> {
        const DOLLAR: i64 = 1_000_000_000;
        const DOLLARS_MAX: i64 = 1_000_000;
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 9 || !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let whole: i64 = whole.parse().ok().filter(|whole| *whole <= DOLLARS_MAX)?;
        let decimals: i64 = format!("{decimals:0<9}").parse().ok()?;
        Some(Self(whole * DOLLAR + decimals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spending_of_others_excludes_cluster_and_cluster_without_nodes_is_removed() {
        let of = |price, nodes| Spending {
            price: NanosPerHour(price),
            nodes,
        };
        let (a, b) = (ClusterName::from("a"), ClusterName::from("b"));
        let account = AccountSpending::default().with(&a, of(5, 1));
        let account = account.with(&b, of(7, 2));
        assert_eq!(account.total(), of(12, 3));
        assert_eq!(account.others(&a), of(7, 2));
        assert_eq!(account.of(&a), of(5, 1));
        assert_eq!(account.revision, 2);
        let account = account.with(&b, Spending::default());
        assert_eq!(account.clusters.keys().collect::<Vec<_>>(), [&a]);
    }

    #[test]
    fn dollars_parse_in_decimal_notation() {
        let read = |text| NanosPerHour::from_dollars(text).map(|price| price.0);
        assert_eq!(read("12.5"), Some(12_500_000_000));
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("1000000"), Some(1_000_000_000_000_000));
        for bad in ["", "-1", "1e3", ".5", "1.0000000001", "1000001", "$3", "1 "] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
