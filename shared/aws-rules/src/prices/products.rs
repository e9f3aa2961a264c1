//! On-demand prices in the AWS Price List.

use std::collections::BTreeMap;

use model::NanosPerHour;
use serde::Deserialize;

use super::{OnDemandPrices, price};

/// Whether the Price List can be queried about a Region: not from an isolated VPC, and not for GovCloud, which has none.
pub fn looks_up(region: &str, isolated: bool) -> bool {
    !isolated && !region.starts_with("us-gov")
}

/// The Region of the Pricing endpoint that has this Region's prices.
pub fn pricing_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// The GetProducts queries of service `AmazonEC2`: field and value of each filter (`TERM_MATCH`), for shared tenancy and for bare metal.
pub fn product_queries(region: &str) -> [Vec<(&'static str, String)>; 2] {
    [
        ("Shared", "Compute Instance"),
        ("Dedicated", "Compute Instance (bare metal)"),
    ]
    .map(|(tenancy, family)| {
        let filters = [
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ];
        filters
            .map(|(field, value)| (field, value.to_owned()))
            .to_vec()
    })
}

/// The parsed entries of a price list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Products {
    pub prices: OnDemandPrices,
    /// Number of entries that are not a product with a price.
    pub unreadable: usize,
}

impl Products {
    /// Parses the entries of a price list, each of them JSON text.
    pub fn read(region: &str, entries: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let currency = if region.starts_with("cn-") {
            "CNY"
        } else {
            "USD"
        };
        let mut read = Self::default();
        for entry in entries {
            match product(entry.as_ref(), currency) {
                Some((instance_type, price)) => {
                    read.prices.insert(instance_type, price);
                }
                None => read.unreadable += 1,
            }
        }
        read
    }

    pub(super) fn warning(&self) -> String {
        match self.unreadable {
            0 => "the Price List answered with no products".to_owned(),
            unreadable => {
                format!("none of the {unreadable} products of the Price List has a valid price")
            }
        }
    }
}

#[derive(Deserialize)]
struct Product {
    product: ProductDescription,
    terms: PricingTerms,
}

#[derive(Deserialize)]
struct ProductDescription {
    attributes: Attributes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    instance_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PricingTerms {
    on_demand: BTreeMap<String, PricingTerm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PricingTerm {
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    /// Currency → amount.
    price_per_unit: BTreeMap<String, String>,
}

fn product(entry: &str, currency: &str) -> Option<(String, NanosPerHour)> {
    let product: Product = serde_json::from_str(entry).ok()?;
    let terms = product.terms.on_demand.values();
    let mut amounts = terms
        .flat_map(|term| term.price_dimensions.values())
        .filter_map(|dimension| dimension.price_per_unit.get(currency));
    // Every product also has dimensions that cost nothing.
    let price = amounts.find_map(|amount| price(amount))?;
    Some((product.product.attributes.instance_type, price))
}
