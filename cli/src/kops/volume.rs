//! The root volume of a group's nodes: kOps' defaults and EC2's floors.

use serde_json::{Map, Value, json};

use crate::convert::edit::Edit;

const SIZE: u64 = 128;
const GP3_IOPS: u64 = 3000;
const GP3_THROUGHPUT: u64 = 125;
const IO_IOPS: u64 = 100;

/// A field of the root volume: `spec.rootVolume` of one version of kOps' API, `spec.rootVolume…` of the other.
fn field<'a>(edit: &'a Edit, name: &str) -> Option<&'a Value> {
    let mut capital = name.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let flat = match name {
        "iops" => vec!["rootVolumeIops".to_owned(), "rootVolumeIOPS".to_owned()],
        _ => vec![format!("rootVolume{capital}")],
    };
    let nested = edit.get(&format!("/spec/rootVolume/{name}"));
    nested.or_else(|| {
        flat.iter()
            .find_map(|name| edit.get(&format!("/spec/{name}")))
    })
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
