//! The bundled table of what EC2's API does not tell about instance types (`data/instance-types.tsv`, which names its sources).

use std::{collections::BTreeMap, sync::LazyLock};

use model::NanosPerHour;

const TABLE: &str = include_str!("../../data/instance-types.tsv");

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Branch network interfaces; 0 without trunking.
    pub(crate) branch_interfaces: Option<i64>,
    pub(crate) network_bandwidth_mbps: Option<i64>,
    on_demand: Option<NanosPerHour>,
}

static ROWS: LazyLock<BTreeMap<&'static str, Row>> = LazyLock::new(|| {
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(row)
        .collect()
});

pub(crate) fn row_of(instance_type: &str) -> Row {
    ROWS.get(instance_type).copied().unwrap_or_default()
}

/// On-demand prices in us-east-1, which stand in for those of a Region whose own have not been read (spec/aws §8).
pub fn static_prices() -> BTreeMap<String, NanosPerHour> {
    ROWS.iter()
        .filter_map(|(name, row)| Some(((*name).to_owned(), row.on_demand?)))
        .collect()
}

fn row(line: &'static str) -> Option<(&'static str, Row)> {
    let mut columns = line.split('\t');
    let name = columns.next()?;
    let row = Row {
        branch_interfaces: columns.next()?.parse().ok(),
        network_bandwidth_mbps: columns.next()?.parse().ok(),
        on_demand: price(columns.next()?),
    };
    Some((name, row))
}

/// Dollars per hour as AWS writes them: `0.0960000000`. `None` for what is no price, or zero.
pub fn price(dollars: &str) -> Option<NanosPerHour> {
    const NANOS: u32 = 9;
    let (whole, fraction) = dollars.split_once('.').unwrap_or((dollars, ""));
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let kept: String = fraction
        .chars()
        .chain(std::iter::repeat('0'))
        .take(NANOS as usize)
        .collect();
    let whole: i64 = whole.parse().ok()?;
    let nanos = whole
        .checked_mul(10_i64.pow(NANOS))?
        .checked_add(kept.parse().ok()?)?;
    (nanos > 0).then_some(NanosPerHour(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(ROWS.len(), lines.count());
        assert_eq!(
            row_of("m5.large"),
            Row {
                branch_interfaces: Some(9),
                network_bandwidth_mbps: Some(750),
                on_demand: Some(NanosPerHour(96_000_000)),
            }
        );
        assert_eq!(row_of("x99.large"), Row::default());
    }

    #[test]
    fn prices_are_exact() {
        assert_eq!(price("0.0960000000"), Some(NanosPerHour(96_000_000)));
        assert_eq!(price("12"), Some(NanosPerHour(12_000_000_000)));
        for text in ["0.0000000000", "", "-1", "1e3", "free"] {
            assert_eq!(price(text), None, "{text}");
        }
    }
}
