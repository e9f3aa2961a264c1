//! The bundled table of facts about instance types that EC2's API does not publish (`data/instance-types.tsv`, which names its sources).

use std::{collections::BTreeMap, sync::LazyLock};

const TABLE: &str = include_str!("../../data/instance-types.tsv");

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Branch network interfaces; 0 without trunking.
    pub(crate) branch_interfaces: Option<i64>,
    pub(crate) network_bandwidth_mbps: Option<i64>,
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

fn row(line: &'static str) -> Option<(&'static str, Row)> {
    let mut columns = line.split('\t');
    let name = columns.next()?;
    let row = Row {
        branch_interfaces: columns.next()?.parse().ok(),
        network_bandwidth_mbps: columns.next()?.parse().ok(),
    };
    Some((name, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_parses() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(ROWS.len(), lines.count());
        assert_eq!(
            row_of("m5.large"),
            Row {
                branch_interfaces: Some(9),
                network_bandwidth_mbps: Some(750),
            }
        );
        assert_eq!(row_of("x99.large"), Row::default());
    }
}
