use std::{collections::BTreeSet, sync::Arc};

use api::EC2NodeClass;
use model::{CapacityType, Experience, InstanceType};
use ports::{Catalog, NodeClassResolver};
use serde_json::{Value, json};

use crate::aws::{CLUSTER, NOW, account, node_class, register};

on_one_moto! {
    instance_types_come_with_zones_and_prices,
    instance_types_are_resolved_again_only_after_a_change,
    invalid_settings_are_named,
}

async fn instance_types_come_with_zones_and_prices() {
    register(CLUSTER);
    let account = account();
    let mut class = node_class(json!({}));
    let cluster = CLUSTER.into();
    let status = account
        .resolve(&cluster, &class, &[], NOW.parse().unwrap())
        .await;
    class.status = Some(status.unwrap().status);
    let types = account
        .instance_types(&cluster, &class, &Value::Null, &Experience::default())
        .await
        .unwrap();
    let m5_large = types.iter().find(|t| t.name == "m5.large").unwrap();
    assert_eq!(m5_large.capacity.get("pods"), 29);
    assert_eq!(m5_large.allocatable().get("cpu"), 1_930);
    let available: Vec<_> = m5_large.offerings.iter().filter(|o| o.available).collect();
    let bought = |wanted| {
        available
            .iter()
            .filter(|o| o.capacity_type == wanted)
            .count()
    };
    let zones = class
        .status
        .as_ref()
        .unwrap()
        .subnets
        .as_ref()
        .unwrap()
        .len();
    assert_eq!(bought(CapacityType::OnDemand), zones);
    assert_eq!(bought(CapacityType::Spot), zones);
    let on_demand = available
        .iter()
        .find(|o| o.capacity_type == CapacityType::OnDemand);
    assert_eq!(on_demand.unwrap().price.to_string(), "0.0960");
}

async fn instance_types_are_resolved_again_only_after_a_change() {
    register(CLUSTER);
    let account = account();
    let cluster = CLUSTER.into();
    let mut class = node_class(json!({}));
    let resolved = account.resolve(&cluster, &class, &[], NOW.parse().unwrap());
    class.status = Some(resolved.await.unwrap().status);
    let types = async |class: &EC2NodeClass, experience: &Experience| {
        let types = account.instance_types(&cluster, class, &Value::Null, experience);
        types.await.unwrap()
    };
    let zones = |types: &[InstanceType]| {
        let m5_large = types
            .iter()
            .find(|instance_type| instance_type.name == "m5.large")
            .unwrap();
        let available = m5_large
            .offerings
            .iter()
            .filter(|offering| offering.available);
        let zones: BTreeSet<String> = available.map(|offering| offering.zone_id.clone()).collect();
        zones
    };
    let first = types(&class, &Experience::default()).await;
    let again = types(&class, &Experience::default()).await;
    assert!(Arc::ptr_eq(&first, &again));

    let mut shifted = Experience::default();
    let all = zones(&first);
    shifted.shifted_zones.extend(all.first().cloned());
    let fewer = zones(&types(&class, &shifted).await);
    assert_eq!(fewer.len() + 1, all.len());
    assert_eq!(zones(&types(&class, &Experience::default()).await), all);
}

async fn invalid_settings_are_named() {
    let settings = json!({ "vmMemoryOverheadPercent": "much" });
    let class = node_class(json!({}));
    let types = account()
        .instance_types(&CLUSTER.into(), &class, &settings, &Experience::default())
        .await;
    let error = types.unwrap_err().to_string();
    assert!(
        error.contains("vmMemoryOverheadPercent \"much\""),
        "{error}"
    );
}
