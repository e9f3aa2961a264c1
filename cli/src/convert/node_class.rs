//! EC2NodeClasses of v1beta1 (docs/spec/migrate.md#v1beta1-node-class).

use serde_json::{Value, json};

use super::{
    edit::{Edit, escaped},
    names,
    unknown::{self, KnownFields},
};

const FAMILY: &str = "/spec/amiFamily";
const TERMS: &str = "/spec/amiSelectorTerms";
const FAMILIES: &str =
    "expected AL2, AL2023, Bottlerocket, Ubuntu, Custom, Windows2019 or Windows2022";

/// Tags besides those that begin with kubernetes.io/cluster.
const OWN_TAGS: &[&str] = &[
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
];

const KNOWN: KnownFields = &[
    (
        "/spec",
        &[
            "amiFamily",
            "amiSelectorTerms",
            "associatePublicIPAddress",
            "blockDeviceMappings",
            "context",
            "detailedMonitoring",
            "instanceProfile",
            "instanceStorePolicy",
            "metadataOptions",
            "role",
            "securityGroupSelectorTerms",
            "subnetSelectorTerms",
            "tags",
            "userData",
        ],
    ),
    ("/spec/amiSelectorTerms/*", &["id", "name", "owner", "tags"]),
    ("/spec/subnetSelectorTerms/*", &["id", "tags"]),
    (
        "/spec/securityGroupSelectorTerms/*",
        &["id", "name", "tags"],
    ),
    (
        "/spec/blockDeviceMappings/*",
        &["deviceName", "ebs", "rootVolume"],
    ),
    ("/spec/blockDeviceMappings/*/ebs", EBS_FIELDS),
    ("/spec/metadataOptions", METADATA_OPTIONS),
];

pub(super) const EBS_FIELDS: &[&str] = &[
    "deleteOnTermination",
    "encrypted",
    "iops",
    "kmsKeyID",
    "snapshotID",
    "throughput",
    "volumeSize",
    "volumeType",
];
pub(super) const METADATA_OPTIONS: &[&str] = &[
    "httpEndpoint",
    "httpProtocolIPv6",
    "httpPutResponseHopLimit",
    "httpTokens",
];

pub(super) fn convert(edit: &mut Edit, allow_unknown: bool) {
    unknown::check(edit, KNOWN, allow_unknown);
    edit.set("/apiVersion", names::NODE_CLASS_V1.into());
    edit.clean_metadata();
    let version = edit.take_annotation(names::ALIAS_VERSION);
    images(edit, version.as_deref().unwrap_or("latest"));
    metadata_options(edit);
    addresses_and_tags(edit);
}

/// Drops settings that v1 applies by itself or no longer supports.
pub(super) fn addresses_and_tags(edit: &mut Edit) {
    if edit.get("/spec/associatePublicIPAddress").is_none() {
        edit.warn(
            "v1 leaves associatePublicIPAddress to the subnet, where v1beta1 set false in private ones: set it if that matters",
        );
    }
    let managed_by = format!("/spec/tags/{}", escaped("karpenter.sh/managed-by"));
    if edit.take(&managed_by).is_some() {
        edit.comment(
            "/spec",
            "tag karpenter.sh/managed-by is left out: v1 tags instances with eks:eks-cluster-name",
        );
    }
    refuse_own_tags(edit);
}

/// Refuses tags that every instance gets anyway, and that v1 reserves.
fn refuse_own_tags(edit: &mut Edit) {
    let tags = edit.get("/spec/tags").and_then(Value::as_object);
    let own = tags.into_iter().flatten().filter(|(key, _)| {
        key.starts_with("kubernetes.io/cluster") || OWN_TAGS.contains(&key.as_str())
    });
    let own: Vec<(String, String)> = own
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect();
    for (key, value) in own {
        edit.refuse(
            &format!("/spec/tags/{}", escaped(&key)),
            &value,
            "v1 does not allow it: instances get this tag anyway: remove it",
        );
    }
}

/// Selects images without terms: the family chose its newest image; `version` pins it.
pub(super) fn images(edit: &mut Edit, version: &str) {
    let family = edit.text_at(FAMILY).map(str::to_owned);
    let terms = edit.get(TERMS).and_then(Value::as_array);
    let has_terms = terms.is_some_and(|terms| !terms.is_empty());
    match (family.as_deref(), has_terms) {
        (Some("AL2" | "AL2023" | "Bottlerocket" | "Windows2019" | "Windows2022"), true) => {}
        (
            Some(family @ ("AL2" | "AL2023" | "Bottlerocket" | "Windows2019" | "Windows2022")),
            false,
        ) => {
            alias(edit, family, version);
        }
        (Some("Custom"), true) => {
            let user_data = edit.text_at("/spec/userData").unwrap_or_default();
            if !user_data.contains("karpenter.sh/unregistered") {
                edit.warn(
                    "userData does not name the taint karpenter.sh/unregistered:NoExecute, which kubelets of a Custom \
                     family must register with",
                );
            }
        }
        (Some("Ubuntu"), true) => ubuntu(edit),
        (Some(family @ ("Custom" | "Ubuntu")), false) => {
            edit.refuse(
                TERMS,
                "",
                format!("{family} has no image of its own: add terms that select one"),
            );
        }
        (Some(other), _) => edit.refuse(FAMILY, &format!("{other:?}"), FAMILIES),
        (None, _) => edit.refuse(FAMILY, "", FAMILIES),
    }
}

/// Adds the alias of a family's newest image, which was chosen without terms.
fn alias(edit: &mut Edit, family: &str, version: &str) {
    if family.starts_with("Windows") && version != "latest" {
        let remedy = format!("{family} has no versions but latest: remove the annotation");
        edit.refuse(
            &format!("/metadata/annotations/{}", escaped(names::ALIAS_VERSION)),
            &format!("{version:?}"),
            remedy,
        );
        return;
    }
    let alias = format!("{}@{version}", family.to_ascii_lowercase());
    edit.take(FAMILY);
    edit.set(TERMS, json!([{ "alias": alias }]));
    edit.comment(TERMS, format!("was amiFamily: {family}"));
    if family == "AL2" {
        edit.warn(super::NO_AL2);
    }
}

/// Ubuntu nodes boot as AL2's do; the family's additions are written out.
fn ubuntu(edit: &mut Edit) {
    const MAPPINGS: &str = "/spec/blockDeviceMappings";
    edit.set(FAMILY, "AL2".into());
    edit.comment(
        FAMILY,
        "was Ubuntu, which v1 does not have: its images boot as AL2's do",
    );
    if edit.get(MAPPINGS).is_none() {
        let root = json!([{
            "deviceName": "/dev/sda1", "rootVolume": true,
            "ebs": { "encrypted": true, "volumeSize": "20Gi", "volumeType": "gp3" },
        }]);
        edit.set(MAPPINGS, root);
        edit.comment(MAPPINGS, "was Ubuntu's default");
    }
}

/// Writes out the hop limit: v1 allows containers no hop by default; v1beta1 allowed one.
pub(super) fn metadata_options(edit: &mut Edit) {
    const OPTIONS: &str = "/spec/metadataOptions";
    const HOPS: &str = "/spec/metadataOptions/httpPutResponseHopLimit";
    let kept = "2 was the default, v1's is 1: remove to keep pods from the instance's metadata";
    if edit.get(OPTIONS).is_none() {
        let options = json!({
            "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2,
            "httpTokens": "required",
        });
        edit.set(OPTIONS, options);
        edit.comment(HOPS, kept);
    } else if edit.get(HOPS).is_none() {
        edit.set(HOPS, 2.into());
        edit.comment(HOPS, kept);
    }
}
