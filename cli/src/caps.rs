//! `whittle caps`: caps on the nodes of all clusters of the account (docs/operations.md).

use anyhow::Result;
use clap::Args;
use model::NanosPerHour;
#[cfg(any(feature = "aws", test))]
use model::{
    ClusterName,
    caps::{AccountSpending, Caps, Spending},
    counted,
};

#[cfg(not(feature = "aws"))]
use crate::exit::Exit;
use crate::output::TextOutput;

#[derive(Args)]
#[command(after_help = "Examples:
  whittle caps
  whittle caps -o json
  whittle caps --dollars-per-hour 250 --nodes 400
  whittle caps --nodes none")]
pub(crate) struct Arguments {
    /// Cap on the hourly cost of all clusters' nodes, such as 250 or 12.50; "none" removes the cap
    #[arg(long, value_name = "DOLLARS", value_parser = price)]
    dollars_per_hour: Option<Change<NanosPerHour>>,
    /// Cap on the number of nodes of all clusters; "none" removes the cap
    #[arg(long, value_name = "NUMBER", value_parser = nodes)]
    nodes: Option<Change<u32>>,
    /// Leave out the last recorded totals of this cluster, which no longer exists and cannot report that its nodes are gone
    #[arg(long, value_name = "CLUSTER", value_parser = crate::registry::name)]
    forget: Option<String>,
    #[command(flatten)]
    pub(crate) output: TextOutput,
    #[command(flatten)]
    stack: crate::stack::Stack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change<T> {
    To(T),
    None,
}

impl<T> Change<T> {
    fn read(text: &str, value: impl FnOnce(&str) -> Option<T>) -> Option<Self> {
        match text {
            "none" => Some(Self::None),
            _ => value(text).map(Self::To),
        }
    }

    #[cfg(any(feature = "aws", test))]
    fn apply(self, to: &mut Option<T>) {
        *to = match self {
            Self::To(value) => Some(value),
            Self::None => None,
        };
    }
}

fn price(text: &str) -> Result<Change<NanosPerHour>, String> {
    Change::read(text, NanosPerHour::from_dollars)
        .ok_or_else(|| "expected dollars of up to a million, such as 12.50, or none".to_owned())
}

fn nodes(text: &str) -> Result<Change<u32>, String> {
    Change::read(text, |text| text.parse().ok())
        .ok_or_else(|| "expected a number of nodes, or none".to_owned())
}

impl Arguments {
    #[cfg(feature = "aws")]
    pub(crate) fn stack(&self) -> &str {
        &self.stack.name
    }

    pub(crate) fn only_shows(&self) -> bool {
        self.dollars_per_hour.is_none() && self.nodes.is_none() && self.forget.is_none()
    }

    /// The caps after the change.
    #[cfg(any(feature = "aws", test))]
    fn caps(&self, mut caps: Caps) -> Caps {
        if let Some(price) = self.dollars_per_hour {
            price.apply(&mut caps.price);
        }
        if let Some(nodes) = self.nodes {
            nodes.apply(&mut caps.nodes);
        }
        caps
    }

    /// The account's row with the next revision and the changed caps.
    #[cfg(any(feature = "aws", test))]
    pub(crate) fn next(&self, account: &AccountSpending) -> AccountSpending {
        let mut next = account.clone();
        next.caps = self.caps(account.caps);
        next.revision = next.revision.saturating_add(1);
        if let Some(cluster) = &self.forget {
            next.clusters.remove(&ClusterName::from(cluster.as_str()));
        }
        next
    }
}

/// The account's caps and totals, and the consequences where a total exceeds its cap.
#[cfg(any(feature = "aws", test))]
pub(crate) fn describe(account: &AccountSpending) -> Vec<String> {
    let total = account.total();
    let caps = account.caps;
    let price = caps.price.map_or_else(
        || "no cap on dollars".to_owned(),
        |price| format!("at most ${price} an hour"),
    );
    let nodes = caps.nodes.map_or_else(
        || "no cap on nodes".to_owned(),
        |nodes| format!("at most {}", counted(nodes, "node")),
    );
    let mut lines = vec![
        format!("The account has {price} and {nodes}."),
        format!(
            "It comes to ${} an hour and {}:",
            total.price,
            counted(total.nodes, "node")
        ),
    ];
    let clusters = account.clusters.iter();
    lines.extend(clusters.map(|(name, Spending { price, nodes })| {
        format!("  {name}  ${price} an hour  {}", counted(*nodes, "node"))
    }));
    if caps.exceeded(total).is_some() {
        lines.push(
            "That exceeds a cap: no node is removed for the cap, and no node is launched until others are gone or the cap is raised."
                .to_owned(),
        );
    }
    lines
}

/// Totals of a cluster, or of the account.
#[cfg(feature = "aws")]
pub(crate) struct TotalRow {
    name: String,
    spending: Spending,
}

#[cfg(feature = "aws")]
impl crate::output::Row for TotalRow {
    const HEADERS: &'static [&'static str] = &["CLUSTER", "NODES", "COST/H"];
    const NARROW: usize = 3;

    fn cells(&self) -> Vec<String> {
        let Spending { price, nodes } = self.spending;
        vec![self.name.clone(), nodes.to_string(), format!("${price}")]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The totals of each cluster, by name.
#[cfg(feature = "aws")]
pub(crate) fn rows(account: &AccountSpending) -> Vec<TotalRow> {
    let clusters = account.clusters.iter();
    let row = |(name, spending): (&ClusterName, &Spending)| TotalRow {
        name: name.to_string(),
        spending: *spending,
    };
    clusters.map(row).collect()
}

/// Caps and totals for programs.
#[cfg(feature = "aws")]
pub(crate) fn document(account: &AccountSpending) -> serde_json::Value {
    use crate::decision::dollars;
    let totals = |Spending { price, nodes }: Spending| serde_json::json!({ "dollarsPerHour": dollars(price), "nodes": nodes });
    let clusters: serde_json::Map<_, _> = account
        .clusters
        .iter()
        .map(|(name, spending)| (name.to_string(), totals(*spending)))
        .collect();
    let total = account.total();
    serde_json::json!({
        "caps": { "dollarsPerHour": account.caps.price.map(dollars), "nodes": account.caps.nodes },
        "total": totals(total),
        "exceeded": account.caps.exceeded(total).is_some(),
        "clusters": clusters,
    })
}

#[cfg(feature = "aws")]
pub(crate) use crate::aws::caps::run;

#[cfg(not(feature = "aws"))]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let does = match arguments.only_shows() {
        true => "reads",
        false => "writes",
    };
    anyhow::bail!(
        "caps {does} the ledger in AWS, which this build cannot: build it with `--features aws`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_parse_and_change_independently() {
        assert_eq!(price("12.5"), Ok(Change::To(NanosPerHour(12_500_000_000))));
        assert_eq!(nodes("none"), Ok(Change::None));
        assert!(price("-1").is_err_and(|error| error.contains("such as 12.50, or none")));
        assert!(nodes("many").is_err_and(|error| error.contains("a number of nodes")));
        let both = Caps {
            price: Some(NanosPerHour(1)),
            nodes: Some(2),
            evictions: None,
            terminations: None,
        };
        let mut nodes = both.nodes;
        Change::None.apply(&mut nodes);
        assert_eq!(nodes, None);
        let arguments = Arguments {
            dollars_per_hour: None,
            nodes: Some(Change::None),
            forget: Some("gone".to_owned()),
            output: TextOutput::default(),
            stack: crate::stack::Stack {
                name: "whittle".into(),
            },
        };
        let mut account = AccountSpending {
            caps: both,
            ..AccountSpending::default()
        };
        for cluster in ["gone", "prod"] {
            let spending = Spending {
                price: NanosPerHour(1),
                nodes: 1,
            };
            account = account.with(&cluster.into(), spending);
        }
        let changed = arguments.next(&account);
        assert_eq!((changed.caps.price, changed.caps.nodes), (both.price, None));
        assert_eq!(changed.revision, account.revision + 1);
        let left: Vec<&str> = changed.clusters.keys().map(ClusterName::as_str).collect();
        assert_eq!(left, ["prod"]);
    }

    #[test]
    fn cap_below_the_total_explains_the_consequences() {
        let mut account = AccountSpending::default();
        let node = Spending {
            price: NanosPerHour(96_000_000),
            nodes: 1,
        };
        account = account.with(&"prod".into(), node);
        assert_eq!(
            describe(&account),
            [
                "The account has no cap on dollars and no cap on nodes.",
                "It comes to $0.0960 an hour and 1 node:",
                "  prod  $0.0960 an hour  1 node",
            ]
        );
        account.caps.price = Some(NanosPerHour(10_000_000));
        let lines = describe(&account);
        assert_eq!(
            lines[0],
            "The account has at most $0.0100 an hour and no cap on nodes."
        );
        assert!(lines[3].contains("no node is removed"), "{lines:?}");
    }
}
