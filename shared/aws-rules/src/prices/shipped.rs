//! Tables of on-demand prices that come with Whittle, as `whittle prices` makes them.

use super::{OnDemandPrices, price};

/// Region, and its table. The first stands in for Regions without one.
const TABLES: [(&str, &str); 1] = [(
    "us-east-1",
    include_str!("../../data/on-demand-prices/us-east-1.tsv"),
)];

/// On-demand prices of a Region whose own have not been read; those of us-east-1 where none are shipped.
pub fn shipped_prices(region: &str) -> OnDemandPrices {
    let own = TABLES.iter().find(|(of, _)| *of == region);
    let table = own.or(TABLES.first()).map_or("", |(_, table)| table);
    table.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<(String, model::NanosPerHour)> {
    let (instance_type, amount) = line.split_once('\t')?;
    Some((instance_type.to_owned(), price(amount)?))
}

#[cfg(test)]
mod tests {
    use model::NanosPerHour;

    use super::*;

    #[test]
    fn every_line_of_every_table_is_read() {
        for (region, table) in TABLES {
            let lines = table.lines().filter(|line| !line.starts_with('#'));
            assert_eq!(shipped_prices(region).len(), lines.count(), "{region}");
        }
    }

    #[test]
    fn a_region_without_a_table_has_that_of_us_east_1() {
        let elsewhere = shipped_prices("eu-west-1");
        assert_eq!(elsewhere["m5.large"], NanosPerHour(96_000_000));
        assert_eq!(elsewhere, shipped_prices("us-east-1"));
    }
}
