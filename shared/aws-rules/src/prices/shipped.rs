//! Bundled tables of on-demand prices, as `whittle prices` generates them.

use super::{OnDemandPrices, price};

/// Region and its table. The first is used for Regions without one.
const TABLES: [(&str, &str); 1] = [(
    "us-east-1",
    include_str!("../../data/on-demand-prices/us-east-1.tsv"),
)];

/// Bundled on-demand prices of a Region; those of us-east-1 for a Region without a table.
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
    fn every_line_of_every_table_parses() {
        for (region, table) in TABLES {
            let lines = table.lines().filter(|line| !line.starts_with('#'));
            assert_eq!(shipped_prices(region).len(), lines.count(), "{region}");
        }
    }

    #[test]
    fn region_without_a_table_gets_the_table_of_us_east_1() {
        let elsewhere = shipped_prices("eu-west-1");
        assert_eq!(elsewhere["m5.large"], NanosPerHour(96_000_000));
        assert_eq!(elsewhere, shipped_prices("us-east-1"));
    }
}
