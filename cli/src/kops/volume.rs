//! The root volume of a group's nodes: kOps' defaults and EC2's floors.

use serde_json::{Map, Value, json};

use crate::convert::edit::Edit;

const SIZE: u64 = 128;
const GP3_IOPS: u64 = 3000;
const GP3_THROUGHPUT: u64 = 125;
const IO_IOPS: u64 = 100;

/// A field of the root volume: `spec.rootVolume` of one version of kOps' API, `spec.rootVolume…` of the other.
fn field<'a>(edit: &'a Edit, name: &str) -> Option<&'a Value> {
    Some(named_field(edit, name)?.1)
}

/// A field of the root volume, with its name in the version of the API.
fn named_field<'a>(edit: &'a Edit, name: &str) -> Option<(String, &'a Value)> {
    let mut capital = name.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let flat = match name {
        "iops" => vec!["rootVolumeIops".to_owned(), "rootVolumeIOPS".to_owned()],
        _ => vec![format!("rootVolume{capital}")],
    };
    let nested = edit.get(&format!("/spec/rootVolume/{name}"));
    nested
        .map(|value| (format!("spec.rootVolume.{name}"), value))
        .or_else(|| {
            flat.iter().find_map(|name| {
                Some((format!("spec.{name}"), edit.get(&format!("/spec/{name}"))?))
            })
        })
}

/// The fields of the root volume that have no effect beside the others, in kOps as here.
pub(super) fn remarks(edit: &Edit) -> Vec<String> {
    let kind = field(edit, "type").and_then(Value::as_str).unwrap_or("gp3");
    let is_encrypted = field(edit, "encryption").and_then(Value::as_bool) == Some(true);
    let has_iops = ["gp3", "io1", "io2"].contains(&kind);
    let of_type = || format!("volumes of type {kind} have no such setting");
    let mut remarks = Vec::new();
    for (name, has_effect, why) in [
        ("iops", has_iops, of_type()),
        ("throughput", kind == "gp3", of_type()),
        (
            "encryptionKey",
            is_encrypted,
            "a key is used only where encryption of the root volume is set to true".to_owned(),
        ),
    ] {
        if let Some((name, value)) = named_field(edit, name)
            && !has_effect
            && !value.is_null()
            && value.as_str() != Some("")
        {
            remarks.push(format!("{name} has no effect, as in kOps: {why}"));
        }
    }
    remarks
}

pub(super) fn mapping(edit: &Edit, device: &str) -> Value {
    let number = |name: &str| field(edit, name).and_then(Value::as_u64);
    let flag = |name: &str| field(edit, name).and_then(Value::as_bool);
    let kind = field(edit, "type").and_then(Value::as_str).unwrap_or("gp3");
    let size = number("size").filter(|size| *size > 0).unwrap_or(SIZE);
    let mut ebs = Map::new();
    let mut set = |name: &str, value: Value| ebs.insert(name.to_owned(), value);
    set("deleteOnTermination", true.into());
    set("encrypted", flag("encryption").unwrap_or(true).into());
    set("volumeSize", format!("{size}Gi").into());
    set("volumeType", kind.into());
    match kind {
        "gp3" => {
            set("iops", number("iops").unwrap_or(0).max(GP3_IOPS).into());
            set(
                "throughput",
                number("throughput").unwrap_or(0).max(GP3_THROUGHPUT).into(),
            );
        }
        "io1" | "io2" => {
            set("iops", number("iops").unwrap_or(0).max(IO_IOPS).into());
        }
        _ => {}
    }
    // A key is used only where encryption is set explicitly.
    let key = field(edit, "encryptionKey")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if flag("encryption") == Some(true) && !key.is_empty() {
        set("kmsKeyID", key.into());
    }
    json!([{ "deviceName": device, "ebs": ebs, "rootVolume": true }])
}
