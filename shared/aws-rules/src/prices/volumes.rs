//! Prices of a node's volumes, from bundled tables of list prices.

use api::karpenter::EC2NodeClassSpec;
use model::{NanosPerHour, launch::BlockDevice};

use super::price;
use crate::{families::Family, launch::block_devices};

/// Region and its table. The first is used for Regions without one.
const TABLES: [(&str, &str); 1] = [(
    "us-east-1",
    include_str!("../../data/volume-prices/us-east-1.tsv"),
)];

/// Hours in a billing month of a volume: AWS bills by 30 days.
const HOURS_OF_MONTH: i64 = 30 * 24;

/// Volume type that EC2 chooses for a volume without one.
const DEFAULT_TYPE: &str = "gp2";

/// Price of the volumes that an EC2NodeClass gives each node in a Region; prices of us-east-1 for Regions without bundled prices. A
/// volume of unknown size or type counts nothing, such as one whose size only its snapshot or image specifies.
pub fn volume_price(region: &str, spec: &EC2NodeClassSpec) -> NanosPerHour {
    let devices = Family::of(spec)
        .ok()
        .and_then(|family| block_devices(spec, family).ok());
    let own = TABLES.iter().find(|(of, _)| *of == region);
    let table = own.or(TABLES.first()).map_or("", |(_, table)| table);
    let prices = devices.iter().flatten();
    prices
        .filter_map(|device| price_of(device, table))
        .fold(NanosPerHour(0), NanosPerHour::plus)
}

fn price_of(device: &BlockDevice, table: &str) -> Option<NanosPerHour> {
    let name = device.volume_type.as_deref().unwrap_or(DEFAULT_TYPE);
    let mut row = table
        .lines()
        .map(|line| line.split('\t'))
        .find_map(|mut row| (row.next()? == name).then_some(row))?;
    let size = device.volume_gib?.checked_mul(price(row.next()?)?.0)?;
    let amounts = [device.iops, device.throughput];
    let extra = amounts.into_iter().zip(row);
    let month = extra.fold(size, |sum, (amount, tiers)| {
        sum.saturating_add(above(tiers, amount.unwrap_or(0)))
    });
    Some(NanosPerHour(month / HOURS_OF_MONTH))
}

/// Monthly price of an amount; tiers have the form `0:0.065,32000:0.0455`: the start of each tier and its price.
fn above(tiers: &str, amount: i64) -> i64 {
    let tiers = tiers.split(',').filter_map(|tier| {
        let (from, each) = tier.split_once(':')?;
        Some((from.parse::<i64>().ok()?, price(each)?.0))
    });
    let tiers: Vec<(i64, i64)> = tiers.collect();
    let ends = tiers.iter().skip(1).map(|(from, _)| *from);
    let ends = ends.chain([i64::MAX]);
    let parts = tiers.iter().zip(ends).map(|((from, each), end)| {
        let part = amount.min(end).saturating_sub(*from).max(0);
        part.saturating_mul(*each)
    });
    parts.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(json: &str) -> i64 {
        let spec: EC2NodeClassSpec = serde_json::from_str(&format!(
            r#"{{"amiSelectorTerms": [{{"alias": "al2023@latest"}}], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
                "role": "node", "blockDeviceMappings": {json}}}"#
        ))
        .unwrap();
        volume_price("us-east-1", &spec).0 * HOURS_OF_MONTH
    }

    /// Whether a monthly amount equals the dollars, up to the rounding of an hour's price.
    fn is_about(month: i64, dollars: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "far below a billion dollars")]
        let month = month as f64 / 1e9;
        (month - dollars).abs() < 1e-5
    }

    #[test]
    fn node_class_without_volumes_gets_the_defaults_of_its_family() {
        assert!(is_about(month("[]"), 20.0 * 0.08));
    }

    #[test]
    fn volumes_cost_their_size_and_performance_above_the_baseline() {
        for (ebs, dollars) in [
            (r#"{"volumeSize": "100Gi", "volumeType": "gp3"}"#, 8.0),
            (
                r#"{"volumeSize": "100Gi", "volumeType": "gp3", "iops": 4000, "throughput": 225}"#,
                8.0 + 5.0 + 4.0,
            ),
            (
                r#"{"volumeSize": "100Gi", "volumeType": "gp3", "iops": 3000, "throughput": 125}"#,
                8.0,
            ),
            (
                r#"{"volumeSize": "10Gi", "volumeType": "io1", "iops": 500}"#,
                1.25 + 32.5,
            ),
            (
                r#"{"volumeSize": "10Gi", "volumeType": "io2", "iops": 70000}"#,
                1.25 + 2_080.0 + 1_456.0 + 191.1,
            ),
            (r#"{"volumeSize": "10Gi"}"#, 1.0),
            (r#"{"snapshotID": "snap-1", "volumeType": "gp3"}"#, 0.0),
        ] {
            let json = format!(r#"[{{"deviceName": "/dev/xvda", "ebs": {ebs}}}]"#);
            assert!(is_about(month(&json), dollars), "{ebs}: {}", month(&json));
        }
    }

    #[test]
    fn price_sums_all_volumes_of_a_node() {
        let mapping = r#"{"ebs": {"volumeSize": "50Gi", "volumeType": "gp3"}}"#;
        assert!(is_about(month(&format!("[{mapping}, {mapping}]")), 8.0));
    }

    #[test]
    fn every_line_of_every_table_has_prices() {
        for (region, table) in TABLES {
            for line in table.lines().filter(|line| !line.starts_with('#')) {
                let device = BlockDevice {
                    volume_gib: Some(1),
                    volume_type: line.split('\t').next().map(str::to_owned),
                    ..BlockDevice::default()
                };
                assert!(price_of(&device, table).is_some(), "{region}: {line}");
            }
        }
    }
}
