//! Prices as the housekeeper publishes them for all functions.

use serde::{Deserialize, Serialize};

use super::Prices;

/// Version of the published format. Functions of two versions may run side by side during a deployment: each has its own object.
const VERSION: u32 = 1;

/// The name of the published object.
pub fn object_name(region: &str) -> String {
    format!("prices/v{VERSION}/{region}")
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    prices: &'a Prices,
}

#[derive(Deserialize)]
struct Read {
    version: u32,
    prices: Prices,
}

impl Prices {
    pub fn publish(&self) -> Result<Vec<u8>, String> {
        let written = Written {
            version: VERSION,
            prices: self,
        };
        serde_json::to_vec(&written).map_err(|error| error.to_string())
    }

    /// Parses the prices that were published for this Region; an error names the reason why the object is refused.
    pub fn published(region: &str, object: &[u8]) -> Result<Self, String> {
        let read: Read = serde_json::from_slice(object).map_err(|error| {
            format!(
                "{} is not a published price object: {error}",
                object_name(region)
            )
        })?;
        if read.version != VERSION || read.prices.region != region {
            return Err(format!(
                "{} contains version {} of prices of {}, expected version {VERSION} of {region}'s",
                object_name(region),
                read.version,
                read.prices.region
            ));
        }
        if read.prices.on_demand.values().any(|price| price.0 <= 0) {
            return Err(format!(
                "{} contains a price of zero or less",
                object_name(region)
            ));
        }
        Ok(read.prices)
    }
}
