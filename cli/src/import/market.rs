//! Purchase options of a launch template: on demand, spot, or capacity reservations.

use serde_json::{Value, json};

use super::{group::Group, template::left_out};

/// Reason why a maximum spot price is left out.
pub(super) const ANY_PRICE: &str =
    "spot instances are launched at the current price, at most the on-demand price";

pub(super) fn options(group: &mut Group, value: &Value) {
    match value.get("MarketType").and_then(Value::as_str) {
        None => {}
        Some("spot") => group.capacity_types = vec!["spot"],
        Some("capacity-block") => group.refuse(
            "LaunchTemplateData.InstanceMarketOptions.MarketType",
            "capacity-block",
            "write an EC2NodeClass with capacityReservationSelectorTerms of the block's id by hand",
        ),
        Some(other) => group.refuse(
            "LaunchTemplateData.InstanceMarketOptions.MarketType",
            other,
            "expected spot",
        ),
    }
    let options = value.get("SpotOptions").and_then(Value::as_object);
    let Some(options) = options else {
        return;
    };
    if let Some(price) = options.get("MaxPrice").and_then(Value::as_str) {
        group.not_imported(&format!("SpotOptions.MaxPrice {price}"), ANY_PRICE);
    }
    let says_nothing = |field: &str| {
        let value = options.get(field).and_then(Value::as_str);
        field == "MaxPrice"
            || matches!(
                (field, value),
                ("SpotInstanceType", Some("one-time"))
                    | ("InstanceInterruptionBehavior", Some("terminate"))
            )
    };
    left_out(
        group,
        "InstanceMarketOptions.SpotOptions",
        options,
        says_nothing,
    );
}

pub(super) fn reservation(group: &mut Group, value: &Value) {
    let target = value.get("CapacityReservationTarget");
    let preference = value.get("CapacityReservationPreference");
    let preference = preference.and_then(Value::as_str);
    let is_only = preference == Some("capacity-reservations-only");
    let id = target.and_then(|target| target.get("CapacityReservationId")?.as_str());
    if let Some(id) = id {
        group.class.insert(
            "capacityReservationSelectorTerms".to_owned(),
            json!([{ "id": id }]),
        );
        match is_only {
            true => group.capacity_types = vec!["reserved"],
            false => group.capacity_types.insert(0, "reserved"),
        }
    } else if is_only && target.is_none() {
        group.refuse(
            "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference",
            "capacity-reservations-only",
            "reservations have to be named: write an EC2NodeClass with capacityReservationSelectorTerms by hand",
        );
    } else if preference == Some("open") && target.is_none() {
        group.not_imported(
            "CapacityReservationPreference open",
            "open reservations are launched into where capacityReservationSelectorTerms of the EC2NodeClass name them",
        );
    } else if target.is_some() {
        let remedy = "name the reservation by its id: groups of reservations have no counterpart";
        group.refuse(
            "LaunchTemplateData.CapacityReservationSpecification",
            &value.to_string(),
            remedy,
        );
    }
}
