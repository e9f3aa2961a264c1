//! Prices, read from AWS when they are due. What cannot be read is remembered as a complaint and stops nothing.

use std::time::Duration;

use aws_rules::prices::{
    Prices, Products, SpotPrices, SpotRecord, pricing_region, product_queries, spot_prices,
};
use aws_sdk_pricing::{
    config::Region,
    types::{Filter, FilterType},
};
use aws_smithy_types::DateTime;
use jiff::Timestamp;
use ports::CloudError;

use crate::{Account, errors::refused, filters::timestamp};

/// The largest pages.
const PRODUCTS_PER_PAGE: i32 = 100;
const PRICES_PER_PAGE: i32 = 1000;
const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];
/// A turn waits no longer for prices than this: others stand in.
const PATIENCE: Duration = Duration::from_secs(15);

impl Account {
    /// Renews what is due.
    pub(super) async fn renew(&self, prices: &mut Prices, isolated: bool, now: Timestamp) {
        let due = prices.on_demand_is_due(isolated, now);
        let on_demand = async {
            match due {
                true => Some(in_time(self.on_demand_prices()).await),
                false => None,
            }
        };
        let spot_due = prices.spot_is_due(now);
        let spot = async {
            match spot_due {
                true => Some(in_time(self.spot_price_history(now)).await),
                false => None,
            }
        };
        let (on_demand, spot) = futures::join!(on_demand, spot);
        if let Some(answers) = on_demand {
            prices.renew_on_demand(answers, now);
        }
        if let Some(answer) = spot {
            prices.renew_spot(answer, now);
        }
    }

    async fn on_demand_prices(&self) -> Result<Vec<Products>, CloudError> {
        let [shared, metal] = product_queries(&self.region);
        let (shared, metal) = futures::try_join!(self.products(shared), self.products(metal))?;
        Ok(vec![shared, metal])
    }

    async fn products(&self, query: Vec<(&'static str, String)>) -> Result<Products, CloudError> {
        let filters: Result<Vec<_>, _> = query
            .into_iter()
            .map(|(field, value)| {
                Filter::builder()
                    .r#type(FilterType::TermMatch)
                    .field(field)
                    .value(value)
                    .build()
            })
            .collect();
        let filters = filters.map_err(|error| CloudError::Invalid {
            action: "pricing:GetProducts".to_owned(),
            code: "InvalidFilter".to_owned(),
            message: error.to_string(),
        })?;
        let endpoint = Region::from_static(pricing_region(&self.region));
        let there = aws_sdk_pricing::config::Builder::new().region(endpoint);
        let mut entries = Vec::new();
        let mut page = None;
        loop {
            let call = self
                .pricing
                .get_products()
                .service_code("AmazonEC2")
                .set_filters(Some(filters.clone()))
                .max_results(PRODUCTS_PER_PAGE)
                .set_next_token(page)
                .customize()
                .config_override(there.clone());
            let answer = call.send().await.map_err(refused("pricing:GetProducts"))?;
            entries.extend(answer.price_list.unwrap_or_default());
            page = answer.next_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return Ok(Products::read(&self.region, &entries));
            }
        }
    }

    async fn spot_price_history(&self, now: Timestamp) -> Result<SpotPrices, CloudError> {
        let call = self
            .ec2
            .describe_spot_price_history()
            .set_product_descriptions(Some(SPOT_PRODUCTS.map(str::to_owned).to_vec()))
            .start_time(DateTime::from_secs(now.as_second()))
            .max_results(PRICES_PER_PAGE);
        let mut pages = call.into_paginator().items().send();
        let mut records = Vec::new();
        while let Some(record) = pages.next().await {
            let record = record.map_err(refused("ec2:DescribeSpotPriceHistory"))?;
            records.push(SpotRecord {
                instance_type: record.instance_type.map(|name| name.as_str().to_owned()),
                availability_zone: record.availability_zone,
                spot_price: record.spot_price,
                timestamp: record.timestamp.as_ref().and_then(timestamp),
            });
        }
        Ok(spot_prices(records))
    }
}

async fn in_time<T>(reading: impl Future<Output = Result<T, CloudError>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, reading).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}
