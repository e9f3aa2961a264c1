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

/// The command that prints the root device of the images of a term.
pub(super) fn root_device_command(term: &Value) -> String {
    let part = |field: &str| {
        let part = term.get(field).and_then(Value::as_str).unwrap_or_default();
        shlex::try_quote(part).unwrap_or_default().into_owned()
    };
    let images = match term.get("ssmParameter") {
        Some(_) => format!(
            "--image-ids $(aws ssm get-parameter --name {} --query Parameter.Value --output text)",
            part("ssmParameter")
        ),
        None if term.get("id").is_some() => format!("--image-ids {}", part("id")),
        None => {
            let name = term.get("name").and_then(Value::as_str).unwrap_or_default();
            let filter = format!("Name=name,Values={name}");
            let filter = shlex::try_quote(&filter).unwrap_or_default();
            format!("--owners {} --filters {filter}", part("owner"))
        }
    };
    format!("aws ec2 describe-images {images} --query 'Images[].RootDeviceName' --output text")
}
