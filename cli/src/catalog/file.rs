//! Instance types as JSON, with Kubernetes quantities and dollar prices.

use model::{InstanceType, Offering, Resources, resources::CPU};
use serde_json::{Value, json};

/// Instance types in the format of a catalog file.
pub(super) fn of(types: &[InstanceType]) -> Value {
    types.iter().map(entry).collect()
}

fn entry(of: &InstanceType) -> Value {
    let requirements = of.requirements.0.values().map(|requirement| {
        json!({
            "key": requirement.key, "operator": requirement.operator(), "values": requirement.values,
        })
    });
    json!({
        "name": of.name,
        "requirements": requirements.collect::<Vec<_>>(),
        "capacity": amounts(&of.capacity),
        "overhead": {
            "kubeReserved": amounts(&of.overhead.kube_reserved),
            "systemReserved": amounts(&of.overhead.system_reserved),
            "evictionThreshold": amounts(&of.overhead.eviction_threshold),
        },
        "ebsAttachLimit": of.ebs_attach_limit,
        "offerings": of.offerings.iter().map(offering).collect::<Vec<_>>(),
    })
}

fn offering(offering: &Offering) -> Value {
    let reservation = offering.reservation.as_ref();
    json!({
        "capacityType": offering.capacity_type.as_str(),
        "zone": offering.zone,
        "zoneId": offering.zone_id,
        "price": crate::decision::dollars(offering.price),
        "available": offering.available,
        "unpriced": offering.unpriced,
        "reservationId": reservation.map(|reservation| reservation.id.clone()),
        "reservationCapacity": reservation.map(|reservation| reservation.capacity),
    })
}

fn amounts(resources: &Resources) -> Value {
    let amounts = resources.iter().map(|(name, amount)| {
        let text = match name {
            CPU => format!("{amount}m"),
            _ => amount.to_string(),
        };
        (name.to_owned(), Value::from(text))
    });
    Value::Object(amounts.collect())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn yaml_round_trips() {
        let mut types = crate::catalogs::us_east_1().unwrap();
        types[0].offerings[0].unpriced = true;
        let text = serde_json::to_vec(&of(&types)).unwrap();
        assert_eq!(api::convert::catalog_file::read(&text).unwrap(), types);
    }
}
