use aws_rules::prices::{
    Prices, Products, SpotRecord, looks_up, pricing_region, product_queries, spot_prices,
};
use jiff::{SignedDuration, Timestamp};
use model::NanosPerHour;
use serde_json::json;

fn now() -> Timestamp {
    "2026-08-22T12:00:00Z".parse().unwrap()
}

fn later(hours: i64) -> Timestamp {
    now() + SignedDuration::from_hours(hours)
}

/// A product of the Price List, with dimensions that cost nothing beside the one that costs.
fn product(instance_type: &str, currency: &str, amount: &str) -> String {
    json!({
        "product": { "attributes": { "instanceType": instance_type }, "productFamily": "Compute Instance" },
        "terms": { "OnDemand": { "T": { "priceDimensions": {
            "T.A": { "unit": "Hrs", "pricePerUnit": { currency: "0.0000000000" } },
            "T.B": { "unit": "Hrs", "pricePerUnit": { currency: amount } },
        } } } },
    })
    .to_string()
}

fn shared(amount: &str) -> Products {
    Products::read("us-east-1", [product("m5.large", "USD", amount)])
}

fn metal() -> Products {
    Products::read("us-east-1", [product("m5.metal", "USD", "4.608")])
}

#[test]
fn prices_are_in_the_currency_of_the_partition() {
    let entries = [
        product("m5.large", "USD", "0.096"),
        product("m5.xlarge", "CNY", "1.5"),
    ];
    let here = Products::read("us-east-1", &entries);
    assert_eq!(
        here.prices,
        [("m5.large".into(), NanosPerHour(96_000_000))].into()
    );
    let in_china = Products::read("cn-north-1", &entries);
    assert_eq!(
        in_china.prices,
        [("m5.xlarge".into(), NanosPerHour(1_500_000_000))].into()
    );
}

#[test]
fn entries_without_a_price_are_counted_and_skipped() {
    let entries = [
        "not json".to_owned(),
        "{}".to_owned(),
        product("m5.large", "USD", "free"),
        product("m5.metal", "USD", "0.0000000000"),
        product("c5.large", "USD", "0.085"),
    ];
    let read = Products::read("us-east-1", &entries);
    assert_eq!(read.unreadable, 4);
    assert_eq!(read.prices.len(), 1);
}

#[test]
fn pricing_region_is_in_the_regions_partition() {
    for (region, endpoint) in [
        ("us-east-1", "us-east-1"),
        ("sa-east-1", "us-east-1"),
        ("eu-north-1", "eu-central-1"),
        ("ap-southeast-2", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
    ] {
        assert_eq!(pricing_region(region), endpoint, "{region}");
        assert!(
            looks_up(region, false) && !looks_up(region, true),
            "{region}"
        );
    }
    assert!(
        !looks_up("us-gov-west-1", false),
        "GovCloud has no Price List"
    );
    let [shared, metal] = product_queries("eu-west-1");
    assert!(shared.contains(&("regionCode", "eu-west-1".to_owned())));
    assert!(metal.contains(&("productFamily", "Compute Instance (bare metal)".to_owned())));
}

#[test]
fn answers_add_to_known_prices_and_remove_none() {
    let mut prices = Prices::shipped("us-east-1");
    let shipped = prices.on_demand.len();
    prices.renew_on_demand(Ok(vec![shared("0.5"), metal()]), now());
    assert_eq!(prices.on_demand["m5.large"], NanosPerHour(500_000_000));
    assert_eq!(prices.on_demand.len(), shipped);
    assert_eq!(prices.warnings(now()), [""; 0]);
}

#[test]
fn unreadable_answer_changes_no_price_and_is_reported() {
    let mut prices = Prices::shipped("eu-west-1");
    let before = prices.on_demand.clone();
    let garbage = Products::read("eu-west-1", ["<html>"]);
    prices.renew_on_demand(Ok(vec![shared("0.5"), garbage]), now());
    assert_eq!(prices.on_demand, before);
    let reported = prices.warnings(now()).join("\n");
    assert!(
        reported.contains("eu-west-1") && reported.contains("shipped with Whittle"),
        "{reported}"
    );
    prices.renew_spot(Ok(Default::default()), now());
    assert_eq!(prices.spot, None, "on-demand prices still stand in");
    assert_eq!(prices.warnings(now()).len(), 2);
}

#[test]
fn stale_prices_are_kept_and_reported() {
    let mut prices = Prices::shipped("us-east-1");
    let good = || Ok(vec![shared("0.5"), metal()]);
    assert!(prices.on_demand_is_due(now()));
    prices.renew_on_demand(good(), now());
    assert!(!prices.on_demand_is_due(later(11)) && prices.on_demand_is_due(later(12)));
    prices.renew_on_demand(Err("AccessDenied".into()), later(12));
    let soon = later(12) + SignedDuration::from_mins(15);
    assert!(!prices.on_demand_is_due(later(12)) && prices.on_demand_is_due(soon));
    assert_eq!(prices.warnings(later(13)), [""; 0]);
    let reported = prices.warnings(later(37)).join("\n");
    assert!(
        reported.contains("2026-08-22T12:00:00Z") && reported.contains("AccessDenied"),
        "{reported}"
    );
    assert_eq!(prices.on_demand["m5.large"], NanosPerHour(500_000_000));
    prices.renew_on_demand(good(), later(38));
    assert_eq!(prices.warnings(later(38)), [""; 0]);
}

#[test]
fn spot_records_without_a_time_or_a_price_are_skipped() {
    let record = |zone: &str, price: &str, timestamp: Option<Timestamp>| SpotRecord {
        instance_type: Some("m5.large".into()),
        availability_zone: Some(zone.into()),
        spot_price: Some(price.into()),
        timestamp,
    };
    let prices = spot_prices([
        record("us-east-1a", "0.04", Some(now())),
        record("us-east-1a", "0.05", Some(now())),
        record("us-east-1b", "0.06", None),
        record("us-east-1c", "soon", Some(now())),
        SpotRecord::default(),
    ]);
    let zones = [("us-east-1a".to_owned(), NanosPerHour(50_000_000))];
    assert_eq!(prices, [("m5.large".to_owned(), zones.into())].into());
}

#[test]
fn refused_entries_are_reported_and_the_others_count() {
    let mut prices = Prices::shipped("us-east-1");
    let entries = [product("m5.large", "USD", "0.5"), "<html>".to_owned()];
    let partly = Products::read("us-east-1", entries);
    prices.renew_on_demand(Ok(vec![partly, metal()]), now());
    assert_eq!(prices.on_demand["m5.large"], NanosPerHour(500_000_000));
    let reported = prices.warnings(now()).join("\n");
    assert!(
        reported.contains("1 entries of the Price List"),
        "{reported}"
    );
    prices.renew_on_demand(Ok(vec![shared("0.5"), metal()]), later(12));
    assert_eq!(prices.warnings(later(12)), [""; 0]);
}

#[test]
fn published_prices_round_trip_with_their_age() {
    let mut prices = Prices::shipped("eu-west-1");
    prices.renew_on_demand(Ok(vec![shared("0.5"), metal()]), now());
    prices.renew_spot(Err("AccessDenied".into()), now());
    let read = Prices::published("eu-west-1", &prices.publish().unwrap()).unwrap();
    assert_eq!(read, prices);
    assert!(!read.is_due(true, now()) && read.is_due(true, later(1)));
    assert_eq!(read.warnings(later(1)), prices.warnings(later(1)));
}

#[test]
fn prices_published_for_another_region_are_refused() {
    let prices = Prices::shipped("eu-west-1").publish().unwrap();
    let text = String::from_utf8(prices.clone()).unwrap();
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    for (object, expected) in [
        (prices.as_slice(), "version 1 of prices of eu-west-1"),
        (newer.as_bytes(), "version 2 of prices of eu-west-1"),
        (b"<html>", "is not a published price object"),
    ] {
        let refused = Prices::published("us-east-1", object).unwrap_err();
        assert!(
            refused.starts_with("prices/v1/us-east-1") && refused.contains(expected),
            "{refused}"
        );
    }
}

#[test]
fn only_spot_prices_are_due_without_the_price_list() {
    let mut prices = Prices::shipped("us-gov-west-1");
    assert!(prices.is_due(false, now()));
    let zones = [("us-gov-west-1a".to_owned(), NanosPerHour(50_000_000))];
    let spot = [("m5.large".to_owned(), zones.into())];
    prices.renew_spot(Ok(spot.into()), now());
    assert!(!prices.is_due(false, now()) && prices.is_due(true, now()));
}
