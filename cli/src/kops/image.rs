//! Formats of an InstanceGroup's image.

use serde_json::{Value, json};

/// Names of owners, and their accounts.
const OWNERS: &[(&str, &str)] = &[
    ("amazon", "137112412989"),
    ("amazon.com", "137112412989"),
    ("debian", "136693071363"),
    ("debian11", "136693071363"),
    ("flatcar", "075585003325"),
    ("redhat", "309956199498"),
    ("redhat.com", "309956199498"),
    ("rocky", "792107900819"),
    ("rockylinux", "792107900819"),
    ("ubuntu", "099720109477"),
];

const FORMS: &str = "expected ami-<id>, ssm:<parameter>, <name> or <owner>/<name>";

/// The selector term, or an error.
pub(super) fn term(image: &str) -> Result<Value, &'static str> {
    let image = image.trim();
    if image.is_empty() {
        return Err(
            "the default image of a cluster is chosen by kOps: name the image, as `kops get ig -o yaml` of kOps shows it",
        );
    }
    if image.contains("://") {
        return Err(FORMS);
    }
    if let Some(parameter) = image.strip_prefix("ssm:") {
        return match parameter {
            "" => Err(FORMS),
            _ => Ok(json!({ "ssmParameter": parameter })),
        };
    }
    if image.starts_with("ami-") {
        return Ok(json!({ "id": image }));
    }
    match image.split_once('/') {
        None => Ok(json!({ "name": image, "owner": "self" })),
        Some(("", _) | (_, "")) => Err(FORMS),
        Some((owner, name)) => {
            let alias = OWNERS.iter().find(|(alias, _)| *alias == owner);
            let owner = alias.map_or(owner, |(_, account)| account);
            Ok(json!({ "name": name, "owner": owner }))
        }
    }
}
