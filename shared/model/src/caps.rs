//! What launches may come to at most, in the words of whoever pays for them (docs/operations.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{catalog::NanosPerHour, ids::ClusterName, node_pool::NodePool, wording::counted};

/// Most that nodes may cost and number. Nodes on their way out do not count, so that what replaces them never waits for a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    pub price: Option<NanosPerHour>,
    pub nodes: Option<u32>,
    /// Most pods that may be evicted within an hour where nobody asks for it: for drift and to save. Accounts have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evictions: Option<u32>,
    /// Most nodes that may be ended within an hour where neither a user nor AWS asks for it. Accounts have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminations: Option<u32>,
}

impl Caps {
    /// On a NodePool: the most dollars that its nodes may cost an hour. Their number has `spec.limits.nodes`.
    pub const ANNOTATION: &str = "whittle.sh/max-dollars-per-hour";
    /// On a NodePool: the most pods of its nodes that Whittle may evict within an hour of its own accord.
    pub const EVICTIONS_ANNOTATION: &str = "whittle.sh/max-evictions-per-hour";
    pub const DOLLARS: &str = "dollars, such as \"12.50\"";

    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// What `spending` is beyond already, as a text.
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

    /// A NodePool's own. A value that cannot be read is no cap: the NodePool is not valid, and nothing is launched for it.
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

/// What nodes come to: those that stay, and launches under way.
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

/// One row of the account: what its clusters may come to together, and what each of them came to when it was looked at last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountSpending {
    pub caps: Caps,
    pub clusters: BTreeMap<ClusterName, Spending>,
    /// Every change makes it greater: of two clusters that launch at once, the second one looks again.
    pub revision: u64,
}

impl AccountSpending {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn total(&self) -> Spending {
        sum(self.clusters.values())
    }

    /// What everybody but this cluster comes to.
    pub fn others(&self, cluster: &ClusterName) -> Spending {
        let others = self.clusters.iter().filter(|(name, _)| *name != cluster);
        sum(others.map(|(_, spending)| spending))
    }

    /// The next revision, in which this cluster comes to `spending`.
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

    /// What is known of this cluster; nothing known is nothing spent.
    pub fn of(&self, cluster: &ClusterName) -> Spending {
        self.clusters.get(cluster).copied().unwrap_or_default()
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Spending>) -> Spending {
    let mut sum = Spending::default();
    all.for_each(|one| sum.extend(*one));
    sum
}

impl NanosPerHour {
    /// Whole dollars, at most a million, and up to nine decimal places.
    pub fn from_dollars(text: &str) -> Option<Self> {
        const DOLLAR: i64 = 1_000_000_000;
        const MOST: i64 = 1_000_000;
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 9 || !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let whole: i64 = whole.parse().ok().filter(|whole| *whole <= MOST)?;
        let decimals: i64 = format!("{decimals:0<9}").parse().ok()?;
        Some(Self(whole * DOLLAR + decimals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_others_come_to_leaves_the_cluster_out_and_a_cluster_without_nodes_is_forgotten() {
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
    fn dollars_are_read_as_people_write_them() {
        let read = |text| NanosPerHour::from_dollars(text).map(|price| price.0);
        assert_eq!(read("12.5"), Some(12_500_000_000));
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("1000000"), Some(1_000_000_000_000_000));
        for bad in ["", "-1", "1e3", ".5", "1.0000000001", "1000001", "$3", "1 "] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
