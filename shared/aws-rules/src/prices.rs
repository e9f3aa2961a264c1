//! Prices of instances: queries, answers, and fallbacks where there is no answer (docs/spec/aws.md#prices).
//!
//! Prices only order offerings, so an old or missing price is reported and stops nothing.

mod products;
mod published;
mod shipped;
mod volumes;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::NanosPerHour;
use serde::{Deserialize, Serialize};

pub use products::{Products, looks_up, pricing_region, product_queries};
pub use published::object_name;
pub use shipped::shipped_prices;
pub use volumes::volume_price;

/// Instance type → price of an on-demand instance.
pub type OnDemandPrices = BTreeMap<String, NanosPerHour>;
/// Instance type → zone → price of a spot instance.
pub type SpotPrices = BTreeMap<String, BTreeMap<String, NanosPerHour>>;

/// Interval between reads, as upstream: prices change slowly.
const RENEWAL_INTERVAL: SignedDuration = SignedDuration::from_hours(12);
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_mins(15);
/// Age from which prices are reported as stale: by then several reads have failed.
const STALE_AFTER: SignedDuration = SignedDuration::from_hours(36);

/// The prices of a Region, and their age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    pub region: String,
    pub on_demand: OnDemandPrices,
    /// `None` until spot prices are first read: on-demand prices are used instead.
    pub spot: Option<SpotPrices>,
    on_demand_read: Reading,
    spot_read: Reading,
    /// Entries of the Price List that were refused by the last read.
    #[serde(default)]
    refused: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Reading {
    succeeded_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
    /// Error of the last read.
    problem: Option<String>,
}

impl Prices {
    /// The prices that are bundled with Whittle.
    pub fn shipped(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            on_demand: shipped_prices(region),
            spot: None,
            on_demand_read: Reading::default(),
            spot_read: Reading::default(),
            refused: 0,
        }
    }

    /// Whether prices must be read again. `look_up` says whether the Price List may be queried.
    pub fn is_due(&self, look_up: bool, now: Timestamp) -> bool {
        (look_up && self.on_demand_is_due(now)) || self.spot_is_due(now)
    }

    pub fn on_demand_is_due(&self, now: Timestamp) -> bool {
        self.on_demand_read.is_due(now)
    }

    pub fn spot_is_due(&self, now: Timestamp) -> bool {
        self.spot_read.is_due(now)
    }

    /// Adds the Price List's answers to the two queries, shared tenancy and bare metal. Prices missing in the answers stay as they were.
    pub fn renew_on_demand(&mut self, answers: Result<Vec<Products>, String>, now: Timestamp) {
        let answers =
            answers.and_then(
                |answers| match answers.iter().find(|p| p.prices.is_empty()) {
                    Some(empty) => Err(empty.warning()),
                    None => Ok(answers),
                },
            );
        let answers = self.on_demand_read.note(answers, now);
        let Some(answers) = answers else { return };
        self.refused = answers.iter().map(|products| products.unreadable).sum();
        for products in answers {
            self.on_demand.extend(products.prices);
        }
    }

    /// Adds the answer of the spot price history.
    pub fn renew_spot(&mut self, answer: Result<SpotPrices, String>, now: Timestamp) {
        let answer = answer.and_then(|prices| match prices.is_empty() {
            true => Err("the spot price history contains no price".to_owned()),
            false => Ok(prices),
        });
        if let Some(prices) = self.spot_read.note(answer, now) {
            let known = self.spot.get_or_insert_default();
            for (instance_type, zones) in prices {
                known.entry(instance_type).or_default().extend(zones);
            }
        }
    }

    /// Warnings about prices that are missing or stale, and the errors of reading them.
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let what = [
            (
                "on-demand prices",
                "prices shipped with Whittle",
                &self.on_demand_read,
            ),
            ("spot prices", "on-demand prices", &self.spot_read),
        ];
        let refused = (self.refused > 0).then(|| {
            format!(
                "{} entries of the Price List for {} have no valid price and were skipped",
                self.refused, self.region
            )
        });
        let of_readings = what.into_iter().filter_map(|(name, stand_in, reading)| {
            let problem = reading.problem.as_ref()?;
            let region = &self.region;
            match reading.succeeded_at {
                None => Some(format!(
                    "{name} of {region} are unknown, {stand_in} are used instead: {problem}"
                )),
                Some(at) if now.duration_since(at) > STALE_AFTER => {
                    Some(format!("{name} of {region} date from {at}: {problem}"))
                }
                Some(_) => None,
            }
        });
        of_readings.chain(refused).collect()
    }
}

impl Reading {
    fn is_due(&self, now: Timestamp) -> bool {
        let wait = match self.problem {
            Some(_) => RETRY_INTERVAL,
            None => RENEWAL_INTERVAL,
        };
        self.tried_at
            .is_none_or(|tried| now.duration_since(tried) >= wait)
    }

    fn note<T>(&mut self, answer: Result<T, String>, now: Timestamp) -> Option<T> {
        self.tried_at = Some(now);
        match answer {
            Ok(answer) => {
                self.succeeded_at = Some(now);
                self.problem = None;
                Some(answer)
            }
            Err(problem) => {
                self.problem = Some(problem);
                None
            }
        }
    }
}

/// One record of DescribeSpotPriceHistory, with the fields that have values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SpotRecord {
    pub instance_type: Option<String>,
    pub availability_zone: Option<String>,
    /// Hourly price as text, treated as dollars even in a partition with another currency.
    pub spot_price: Option<String>,
    pub timestamp: Option<Timestamp>,
}

/// The price of each offering. Later records win; records without a time or a price are skipped.
pub fn spot_prices(records: impl IntoIterator<Item = SpotRecord>) -> SpotPrices {
    let mut prices = SpotPrices::new();
    for record in records {
        let price = record.spot_price.as_deref().and_then(price);
        if let (Some(instance_type), Some(zone), Some(price), Some(_)) = (
            record.instance_type,
            record.availability_zone,
            price,
            record.timestamp,
        ) {
            prices.entry(instance_type).or_default().insert(zone, price);
        }
    }
    prices
}

/// Parses an amount per hour as AWS writes it: `0.0960000000`. `None` for zero and for text that is not a price.
pub fn price(amount: &str) -> Option<NanosPerHour> {
    const NANOS: u32 = 9;
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let mut digits = whole.bytes().chain(fraction.bytes());
    if !digits.all(|byte| byte.is_ascii_digit()) {
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
    fn prices_are_exact() {
        assert_eq!(price("0.0960000000"), Some(NanosPerHour(96_000_000)));
        assert_eq!(price("12"), Some(NanosPerHour(12_000_000_000)));
        for text in ["0.0000000000", "", "-1", "1e3", "free"] {
            assert_eq!(price(text), None, "{text}");
        }
    }
}
