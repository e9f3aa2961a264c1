//! Hash of the part of an EC2NodeClass that is fixed when a node is launched: a change of it drifts the node
//! (docs/spec/aws.md#node-class-hash).

use api::karpenter::EC2NodeClass;
use model::quantity::Quantity;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::families::{Family, FamilyError};

/// Version of the hash, written beside it: hashes of other versions are not compared. Upstream's are `v5` and `v6`, so taking over a
/// cluster drifts nothing.
pub const STATIC_HASH_VERSION: &str = "whittle-v2";

/// Fields that drift by the resources they select, or not at all.
const NOT_STATIC: [&str; 6] = [
    "amiFamily",
    "amiSelectorTerms",
    "capacityReservationSelectorTerms",
    "ipPrefixCount",
    "securityGroupSelectorTerms",
    "subnetSelectorTerms",
];

/// The hash of a NodeClass and of the cluster's CA bundle, which is part of every node's user data.
pub fn static_hash(
    class: &EC2NodeClass,
    certificate_authority: &str,
) -> Result<String, FamilyError> {
    let family = Family::of(&class.spec)?;
    // A spec of plain data always has a JSON form.
    let mut spec = serde_json::to_value(&class.spec).unwrap_or_default();
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|name, _| !NOT_STATIC.contains(&name.as_str()));
        block_devices(fields);
        kubelet(fields);
    }
    sort(&mut spec);
    let hashed = json!({
        "spec": spec,
        "family": format!("{family:?}"),
        "certificateAuthority": certificate_authority,
    });
    let digest = Sha256::digest(hashed.to_string());
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or(0));
    Ok(u64::from_be_bytes(first).to_string())
}

/// Normalizes volumes: sizes compare by value, and `rootVolume: false` is the default.
fn block_devices(spec: &mut Map<String, Value>) {
    let mappings = spec
        .get_mut("blockDeviceMappings")
        .and_then(Value::as_array_mut);
    for mapping in mappings.into_iter().flatten() {
        if let Some(fields) = mapping.as_object_mut()
            && fields.get("rootVolume") == Some(&Value::Bool(false))
        {
            fields.remove("rootVolume");
        }
        if let Some(size) = mapping.pointer_mut("/ebs/volumeSize") {
            by_value(size);
        }
    }
}

/// Normalizes kubelet settings: amounts compare by value, and empty settings count as absent.
fn kubelet(spec: &mut Map<String, Value>) {
    let Some(Value::Object(settings)) = spec.get_mut("kubelet") else {
        return;
    };
    for name in [
        "kubeReserved",
        "systemReserved",
        "evictionHard",
        "evictionSoft",
    ] {
        let amounts = settings.get_mut(name).and_then(Value::as_object_mut);
        amounts
            .into_iter()
            .flatten()
            .for_each(|(_, amount)| by_value(amount));
    }
    if settings.is_empty() {
        spec.remove("kubelet");
    }
}

fn by_value(text: &mut Value) {
    let parsed = text.as_str().and_then(|text| text.parse::<Quantity>().ok());
    if let Some(quantity) = parsed {
        *text = json!(quantity.milli());
    }
}

/// Sorts lists, whose order has no meaning.
fn sort(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort);
            items.sort_by_cached_key(Value::to_string);
        }
        Value::Object(fields) => fields.values_mut().for_each(sort),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
