//! The Price List and the spot price history in AWS' format, published once and read by every function.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use api::EC2NodeClass;
use async_trait::async_trait;
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use jiff::{SignedDuration, Timestamp};
use model::{CapacityType, Experience};
use ports::{AccountHousekeeping, Catalog, ObjectStore, ObjectStoreError};
use serde_json::{Value, json};

use crate::aws::{FixedClock, NOW, config};

/// AWS in one Region, with a record of its requests.
#[derive(Clone, Debug)]
struct Aws {
    asked: Arc<Mutex<Vec<String>>>,
    price_list: fn(Value) -> Value,
}

impl HttpConnector for Aws {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let host = request
            .uri()
            .split('/')
            .nth(2)
            .unwrap_or_default()
            .to_owned();
        self.asked.lock().unwrap().push(host);
        let text = String::from_utf8_lossy(body);
        let answer = match serde_json::from_slice::<Value>(body) {
            Ok(query) => (self.price_list)(query).to_string(),
            Err(_) if text.contains("Action=DescribeInstanceTypes&") => TYPES.to_owned(),
            Err(_) if text.contains("Action=DescribeInstanceTypeOfferings&") => OFFERED.to_owned(),
            Err(_) => SPOT_PRICES.to_owned(),
        };
        let answer = HttpResponse::new(200.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

const SPOT_PRICES: &str = r#"<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <spotPriceHistorySet><item>
        <instanceType>m5.large</instanceType><productDescription>Linux/UNIX</productDescription>
        <spotPrice>0.031</spotPrice><timestamp>2026-08-22T11:00:00.000Z</timestamp>
        <availabilityZone>us-east-1a</availabilityZone>
    </item></spotPriceHistorySet><nextToken/>
</DescribeSpotPriceHistoryResponse>"#;

const TYPES: &str = r#"<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <instanceTypeSet><item>
        <instanceType>m5.large</instanceType><currentGeneration>true</currentGeneration>
        <supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>
        <supportedVirtualizationTypes><item>hvm</item></supportedVirtualizationTypes>
        <hypervisor>nitro</hypervisor>
        <processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>
        <vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo>
        <memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>
        <networkInfo>
            <maximumNetworkInterfaces>3</maximumNetworkInterfaces><maximumNetworkCards>1</maximumNetworkCards>
            <ipv4AddressesPerInterface>10</ipv4AddressesPerInterface>
        </networkInfo>
    </item></instanceTypeSet>
</DescribeInstanceTypesResponse>"#;

const OFFERED: &str = r#"<DescribeInstanceTypeOfferingsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <instanceTypeOfferingSet><item>
        <instanceType>m5.large</instanceType><locationType>availability-zone</locationType><location>us-east-1a</location>
    </item></instanceTypeOfferingSet>
</DescribeInstanceTypeOfferingsResponse>"#;

fn product(instance_type: &str, currency: &str, amount: &str) -> String {
    json!({
        "product": { "attributes": { "instanceType": instance_type } },
        "terms": { "OnDemand": { "T": { "priceDimensions": {
            "T.A": { "unit": "Hrs", "pricePerUnit": { currency: amount } },
        } } } },
    })
    .to_string()
}

/// Two pages of shared tenancy, one of bare metal; one entry is malformed.
fn price_list(query: Value) -> Value {
    let filters = query["Filters"].as_array().unwrap();
    let asks = |value: &str| filters.iter().any(|filter| filter["Value"] == value);
    let currency = if asks("cn-north-1") { "CNY" } else { "USD" };
    if asks("Dedicated") {
        return json!({ "PriceList": [product("m5.metal", currency, "5")] });
    }
    match query["NextToken"].as_str() {
        None => json!({ "PriceList": [product("m5.large", currency, "0.5")], "NextToken": "2" }),
        Some(_) => json!({ "PriceList": [product("m5.xlarge", currency, "0.7"), "{}"] }),
    }
}

/// In-memory store of the objects that functions publish for each other.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<BTreeMap<String, Vec<u8>>>);

#[async_trait]
impl ObjectStore for MemoryStore {
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ObjectStoreError> {
        self.0.lock().unwrap().insert(name.to_owned(), object);
        Ok(())
    }
}

struct World {
    account: Account,
    object_store: Arc<MemoryStore>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(region: &'static str, price_list: fn(Value) -> Value) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let aws = Aws {
            asked: Arc::clone(&asked),
            price_list,
        };
        let http = http_client_fn(move |_, _| SharedHttpConnector::new(aws.clone()));
        let region = aws_config::Region::from_static(region);
        let config = config().to_builder().http_client(http).region(region);
        let object_store = Arc::new(MemoryStore::default());
        let options = Options {
            object_store: Some(object_store.clone()),
            ..Options::default()
        };
        Self {
            account: Account::new(&config.build(), options, Arc::new(FixedClock)),
            object_store,
            asked,
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn published(&self, region: &str) -> Value {
        let name = format!("prices/v1/{region}");
        let object_store = self.object_store.0.lock().unwrap();
        serde_json::from_slice(&object_store[&name]).unwrap()
    }
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

#[tokio::test]
async fn due_prices_are_published_with_the_number_of_refused_entries() {
    let world = World::new("us-east-1", price_list);
    let warnings = world.account.renew_prices(true, now()).await.join("\n");
    assert!(
        warnings.contains("1 entries of the Price List"),
        "{warnings}"
    );
    let asked = world.asked();
    let listed = asked
        .iter()
        .filter(|host| host.starts_with("api.pricing.us-east-1"));
    assert_eq!(listed.count(), 3, "every page of both queries: {asked:?}");
    let published = &world.published("us-east-1")["prices"];
    assert_eq!(published["on_demand"]["m5.large"], 500_000_000);
    assert_eq!(published["on_demand"]["m5.xlarge"], 700_000_000);
    assert_eq!(published["on_demand"]["m5.metal"], 5_000_000_000_i64);
    assert_eq!(published["spot"]["m5.large"]["us-east-1a"], 31_000_000);
    let later = now() + SignedDuration::from_hours(11);
    world.account.renew_prices(true, later).await;
    assert_eq!(world.asked(), [""; 0], "prices are read twice a day");
}

#[tokio::test]
async fn next_housekeeper_continues_from_the_published_prices() {
    let first = World::new("us-east-1", price_list);
    first.account.renew_prices(true, now()).await;
    let second = World::new("us-east-1", price_list);
    let objects = first.object_store.0.lock().unwrap().clone();
    *second.object_store.0.lock().unwrap() = objects;
    second.account.renew_prices(true, now()).await;
    assert_eq!(second.asked(), [""; 0]);
}

#[tokio::test]
async fn prices_are_queried_in_the_partitions_region_and_currency() {
    let china = World::new("cn-north-1", price_list);
    china.account.renew_prices(true, now()).await;
    let asked = china.asked();
    assert!(
        asked
            .iter()
            .any(|host| host == "api.pricing.cn-northwest-1.amazonaws.com.cn"),
        "{asked:?}"
    );
    let published = &china.published("cn-north-1")["prices"];
    assert_eq!(published["on_demand"]["m5.large"], 500_000_000);
    let government = World::new("us-gov-west-1", price_list);
    government.account.renew_prices(true, now()).await;
    let asked = government.asked();
    assert!(
        asked.iter().all(|host| host.starts_with("ec2.")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn isolated_vpc_reads_spot_prices_only() {
    let world = World::new("us-east-1", price_list);
    world.account.renew_prices(false, now()).await;
    let asked = world.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|host| host.starts_with("ec2.")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn unreadable_price_list_leaves_the_shipped_prices_and_is_reported() {
    let world = World::new("us-east-1", |_| json!({ "PriceList": ["<html>"] }));
    let warnings = world.account.renew_prices(true, now()).await.join("\n");
    assert!(warnings.contains("none of the 1 products"), "{warnings}");
    let published = &world.published("us-east-1")["prices"];
    assert_eq!(published["on_demand"]["m5.large"], 96_000_000);
}

fn node_class() -> EC2NodeClass {
    serde_json::from_value(json!({
        "metadata": { "name": "default", "uid": "11111111-2222", "generation": 1 },
        "spec": {
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "id": "subnet-a" }],
            "securityGroupSelectorTerms": [{ "id": "sg-a" }],
            "instanceProfile": "nodes",
        },
        "status": { "subnets": [{ "id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1" }] },
    }))
    .unwrap()
}

/// Prices of an m5.large in turns, on demand and spot.
async fn prices_in_turns(account: &Account) -> [String; 2] {
    let types = account
        .instance_types(
            &"demo".into(),
            &node_class(),
            &json!({}),
            &Experience::default(),
        )
        .await
        .unwrap();
    let [m5_large] = types.as_slice() else {
        panic!("{types:?}")
    };
    [CapacityType::OnDemand, CapacityType::Spot].map(|wanted| {
        let mut offerings = m5_large.offerings.iter();
        let offering = offerings.find(|offering| offering.capacity_type == wanted);
        offering.unwrap().price.to_string()
    })
}

#[tokio::test]
async fn turns_use_published_prices_without_querying_aws() {
    let housekeeper = World::new("us-east-1", price_list);
    housekeeper.account.renew_prices(true, now()).await;
    let turn = World::new("us-east-1", price_list);
    let objects = housekeeper.object_store.0.lock().unwrap().clone();
    *turn.object_store.0.lock().unwrap() = objects;
    assert_eq!(prices_in_turns(&turn.account).await, ["0.5000", "0.0310"]);
    let asked = turn.asked();
    assert!(
        asked.iter().all(|host| host.starts_with("ec2.")),
        "{asked:?}"
    );
    assert_eq!(asked.len(), 2, "types and zones");
}

#[tokio::test]
async fn unreadable_published_prices_stop_no_turn_and_are_reported() {
    let world = World::new("us-east-1", price_list);
    let name = "prices/v1/us-east-1";
    world.object_store.put(name, b"?".to_vec()).await.unwrap();
    assert_eq!(prices_in_turns(&world.account).await, ["0.0960", "0.0960"]);
    let warnings = world.account.price_warnings().await.join("\n");
    assert!(
        warnings.contains("is not a published price object"),
        "{warnings}"
    );
}
