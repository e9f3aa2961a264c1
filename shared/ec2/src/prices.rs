//! Prices: the housekeeper reads and publishes them, all other functions use the published ones. Failures are reported and stop nothing.

use std::{sync::Arc, time::Duration};

use aws_rules::prices::{
    Prices, Products, SpotPrices, SpotRecord, looks_up, object_name, pricing_region,
    product_queries, spot_prices,
};
use aws_sdk_pricing::{
    config::Region,
    types::{Filter, FilterType},
};
use aws_smithy_types::DateTime;
use jiff::{SignedDuration, Timestamp};
use ports::CloudError;
use tokio::sync::Mutex;

use crate::{Account, errors::refused, filters::timestamp};

/// Page size, the largest, and upper bound on pages: EC2 has about a thousand types.
const PRODUCTS_PER_PAGE: i32 = 100;
const PRODUCT_PAGES_MAX: usize = 100;
const PRICES_PER_PAGE: i32 = 1000;
const PRICE_PAGES_MAX: usize = 100;
const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];
/// Time limit for reading prices: the housekeeper has more to do in its minute.
const READ_TIMEOUT: Duration = Duration::from_secs(25);
/// Time limit for fetching published prices: a launch does not wait long for them, because other prices are used instead.
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between fetches of published prices. The housekeeper reads prices every twelve hours; a warm function notices within one hour.
const FETCH_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// Interval before a failed fetch is repeated.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

#[derive(Default)]
pub(crate) struct PriceCache(Mutex<Option<FetchedPrices>>);

/// Fetched prices.
struct FetchedPrices {
    prices: Arc<Prices>,
    until: Timestamp,
    problem: Option<String>,
}

impl Account {
    /// Returns the prices of instances as far as they are known, without querying AWS for them.
    pub(crate) async fn prices(&self, now: Timestamp) -> Arc<Prices> {
        let mut cached = self.prices.0.lock().await;
        if let Some(fetched) = cached.as_ref().filter(|fetched| now < fetched.until) {
            return Arc::clone(&fetched.prices);
        }
        let (found, problem) = match self.published().await {
            Ok(found) => (found, None),
            Err(problem) => (None, Some(problem)),
        };
        let wait = if found.is_some() {
            FETCH_INTERVAL
        } else {
            RETRY_INTERVAL
        };
        // Prices that were fetched earlier are better than the bundled ones.
        let known = cached.take().map(|fetched| fetched.prices);
        let prices = found.map(Arc::new).or(known);
        let prices = prices.unwrap_or_else(|| Arc::new(Prices::shipped(&self.region)));
        *cached = Some(FetchedPrices {
            prices: Arc::clone(&prices),
            until: now.saturating_add(wait).unwrap_or(now),
            problem,
        });
        prices
    }

    /// Warnings about the prices in use.
    pub(crate) async fn price_warnings_at(&self, now: Timestamp) -> Vec<String> {
        let cached = self.prices.0.lock().await;
        let Some(fetched) = cached.as_ref() else {
            return Vec::new();
        };
        let problem = fetched.problem.as_ref();
        let problem = problem.map(|problem| format!("published prices: {problem}"));
        let of_prices = fetched.prices.warnings(now);
        problem.into_iter().chain(of_prices).collect()
    }

    async fn published(&self) -> Result<Option<Prices>, String> {
        let Some(object_store) = &self.object_store else {
            return Ok(None);
        };
        let name = object_name(&self.region);
        let object = tokio::time::timeout(FETCH_TIMEOUT, object_store.get(&name)).await;
        let object = object.map_err(|_| format!("no answer within {FETCH_TIMEOUT:?}"))?;
        let object = object.map_err(|error| error.to_string())?;
        let object = object.map(|object| Prices::published(&self.region, &object));
        object.transpose()
    }

    /// Reads the prices that are due and publishes them; the housekeeper's part. Returns warnings.
    pub(crate) async fn publish_prices(&self, look_up: bool, now: Timestamp) -> Vec<String> {
        let known = self.prices(now).await;
        let look_up = looks_up(&self.region, !look_up);
        if known.is_due(look_up, now) {
            let mut prices = Prices::clone(&known);
            self.renew(&mut prices, look_up, now).await;
            let problem = self.store_published(&prices).await.err();
            *self.prices.0.lock().await = Some(FetchedPrices {
                prices: Arc::new(prices),
                until: now.saturating_add(FETCH_INTERVAL).unwrap_or(now),
                problem,
            });
        }
        self.price_warnings_at(now).await
    }

    async fn store_published(&self, prices: &Prices) -> Result<(), String> {
        let Some(object_store) = &self.object_store else {
            return Ok(());
        };
        let object = prices.publish()?;
        let put = object_store.put(&object_name(&self.region), object).await;
        put.map_err(|error| error.to_string())
    }

    async fn renew(&self, prices: &mut Prices, look_up: bool, now: Timestamp) {
        let on_demand_due = look_up && prices.on_demand_is_due(now);
        let spot_due = prices.spot_is_due(now);
        let on_demand = async {
            match on_demand_due {
                true => Some(in_time(self.on_demand_prices()).await),
                false => None,
            }
        };
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
        const ACTION: &str = "pricing:GetProducts";
        let filters: Result<Vec<_>, _> = query
            .into_iter()
            .map(|(field, value)| {
                let filter = Filter::builder().r#type(FilterType::TermMatch);
                filter.field(field).value(value).build()
            })
            .collect();
        let filters = filters.map_err(|error| CloudError::Invalid {
            action: ACTION.to_owned(),
            code: "InvalidFilter".to_owned(),
            message: error.to_string(),
        })?;
        let endpoint = Region::from_static(pricing_region(&self.region));
        let there = aws_sdk_pricing::config::Builder::new().region(endpoint);
        let mut entries = Vec::new();
        let mut page = None;
        for _ in 0..PRODUCT_PAGES_MAX {
            let call = self
                .pricing
                .get_products()
                .service_code("AmazonEC2")
                .set_filters(Some(filters.clone()))
                .max_results(PRODUCTS_PER_PAGE)
                .set_next_token(page)
                .customize()
                .config_override(there.clone());
            let answer = call.send().await.map_err(refused(ACTION))?;
            entries.extend(answer.price_list.unwrap_or_default());
            page = answer.next_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return Ok(Products::read(&self.region, &entries));
            }
        }
        Err(CloudError::Unknown {
            action: ACTION.to_owned(),
            message: format!("the answer does not end within {PRODUCT_PAGES_MAX} pages"),
        })
    }

    async fn spot_price_history(&self, now: Timestamp) -> Result<SpotPrices, CloudError> {
        const ACTION: &str = "ec2:DescribeSpotPriceHistory";
        let call = self
            .ec2
            .describe_spot_price_history()
            .set_product_descriptions(Some(SPOT_PRODUCTS.map(str::to_owned).to_vec()))
            .start_time(DateTime::from_secs(now.as_second()))
            .max_results(PRICES_PER_PAGE);
        let mut pages = call.into_paginator().send();
        let mut records = Vec::new();
        for _ in 0..PRICE_PAGES_MAX {
            let Some(page) = pages.next().await else {
                return Ok(spot_prices(records));
            };
            let page = page.map_err(refused(ACTION))?;
            let found = page.spot_price_history.unwrap_or_default().into_iter();
            records.extend(found.map(|record| SpotRecord {
                instance_type: record.instance_type.map(|name| name.as_str().to_owned()),
                availability_zone: record.availability_zone,
                spot_price: record.spot_price,
                timestamp: record.timestamp.as_ref().and_then(timestamp),
            }));
        }
        Err(CloudError::Unknown {
            action: ACTION.to_owned(),
            message: format!("the answer does not end within {PRICE_PAGES_MAX} pages"),
        })
    }
}

async fn in_time<T>(reading: impl Future<Output = Result<T, CloudError>>) -> Result<T, String> {
    match tokio::time::timeout(READ_TIMEOUT, reading).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {READ_TIMEOUT:?}")),
    }
}
