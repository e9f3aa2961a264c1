//! AWSNodeTemplates of v1alpha1, also inline in a Provisioner (docs/spec/migrate.md#aws-node-template).

use serde_json::{Map, Value, json};

use super::{
    Options,
    edit::{Edit, escaped},
    names, node_class,
    selector::{self, Of},
    unknown::{self, KnownFields},
};

const FAMILY: &str = "/spec/amiFamily";

/// Fields of an inline provider.
pub(super) const INLINE_FIELDS: &[&str] = &[
    "amiFamily",
    "apiVersion",
    "blockDeviceMappings",
    "context",
    "instanceProfile",
    "kind",
    "launchTemplate",
    "metadataOptions",
    "securityGroupSelector",
    "subnetSelector",
    "tags",
];

const KNOWN: KnownFields = &[
    (
        "/spec",
        &[
            "amiFamily",
            "amiSelector",
            "apiVersion",
            "blockDeviceMappings",
            "context",
            "detailedMonitoring",
            "instanceProfile",
            "kind",
            "launchTemplate",
            "metadataOptions",
            "securityGroupSelector",
            "subnetSelector",
            "tags",
            "userData",
        ],
    ),
    (
        "/spec/blockDeviceMappings/*",
        &["deviceName", "ebs", "rootVolume"],
    ),
    ("/spec/blockDeviceMappings/*/ebs", node_class::EBS_FIELDS),
    ("/spec/metadataOptions", node_class::METADATA_OPTIONS),
];

pub(super) fn convert(edit: &mut Edit, options: &Options) {
    edit.comment(
        "/kind",
        "was an AWSNodeTemplate of karpenter.k8s.aws/v1alpha1",
    );
    to_class(edit, options);
}

/// The class that a Provisioner contains inline, with the Provisioner's name. Errors in it are reported for the Provisioner.
pub(super) fn inline(provisioner: &mut Edit, provider: &Value, options: &Options) -> Option<Edit> {
    let name = provisioner
        .text_at("/metadata/name")
        .unwrap_or_default()
        .to_owned();
    let template = json!({ "metadata": { "name": name }, "spec": provider });
    let mut edit = provisioner.caused(template);
    edit.comment("/kind", format!("was spec.provider of Provisioner {name}"));
    to_class(&mut edit, options);
    if edit.refusals.is_empty() {
        return Some(edit);
    }
    for refusal in edit.refusals {
        let below = refusal.field.trim_start_matches("spec.").replace('.', "/");
        provisioner.refuse(
            &format!("/spec/provider/{below}"),
            &refusal.value,
            refusal.remedy,
        );
    }
    None
}

fn to_class(edit: &mut Edit, options: &Options) {
    unknown::check(edit, KNOWN, options.allow_unknown);
    edit.clean_metadata();
    for field in ["apiVersion", "kind"] {
        edit.take(&format!("/spec/{field}"));
    }
    if edit.take("/spec/launchTemplate").is_some() {
        let remedy = "v1 has no launch templates of one's own: `whittle import` reads their fields into an EC2NodeClass";
        edit.refuse("/spec/launchTemplate", "", remedy);
    } else {
        fields(edit, options);
    }
    edit.set("/apiVersion", names::NODE_CLASS_V1.into());
    edit.set("/kind", "EC2NodeClass".into());
}

fn fields(edit: &mut Edit, options: &Options) {
    selectors(edit);
    images(edit);
    profile(edit, options);
    metadata_options(edit, options);
    tags(edit, options);
    node_class::addresses_and_tags(edit);
}

fn selectors(edit: &mut Edit) {
    let all = [
        ("subnetSelector", Of::Subnets),
        ("securityGroupSelector", Of::SecurityGroups),
        ("amiSelector", Of::Images),
    ];
    for (field, of) in all {
        let old = format!("/spec/{field}");
        let Some(selector) = edit.take(&old) else {
            if of != Of::Images {
                edit.refuse(&old, "", "expected tags or ids: v1 needs them, too");
            }
            continue;
        };
        let empty = Map::new();
        match selector::terms(selector.as_object().unwrap_or(&empty), of) {
            Ok(terms) => {
                let new = format!("/spec/{field}Terms");
                if of == Of::Images && terms.iter().any(|term| term.get("tags").is_some()) {
                    edit.warn(
                        "tags of images whose keys are well-known labels no longer narrow what runs on them: where that \
                         matters, one EC2NodeClass per image and a NodePool for it with the requirement",
                    );
                }
                edit.set(&new, Value::Array(terms));
                edit.comment(&new, format!("was spec.{field}: {selector}"));
            }
            Err(wrong) => edit.refuse(&old, &selector.to_string(), wrong.to_string()),
        }
    }
}

fn images(edit: &mut Edit) {
    if edit.get(FAMILY).is_none() {
        edit.set(FAMILY, "AL2".into());
        let place = match edit.get("/spec/amiSelectorTerms") {
            Some(_) => FAMILY,
            None => "/spec/amiSelectorTerms",
        };
        edit.comment(place, "spec.amiFamily was not set: AL2 was the default");
    }
    if edit.text_at(FAMILY) == Some("AL2023") {
        let remedy = "v1alpha1 did not have it: write an EC2NodeClass for AL2023";
        edit.refuse(FAMILY, "AL2023", remedy);
        return;
    }
    node_class::images(edit, "latest");
}

/// Sets the role or the profile, one of which v1 requires; with the nodes' profile they keep their permissions.
fn profile(edit: &mut Edit, options: &Options) {
    const PROFILE: &str = "/spec/instanceProfile";
    let own = edit.text_at(PROFILE).map(str::to_owned);
    if let Some(role) = &options.role {
        edit.take(PROFILE);
        edit.set("/spec/role", role.as_str().into());
        let was = own.map_or_else(String::new, |own| {
            format!("was spec.instanceProfile: {own}; ")
        });
        edit.comment("/spec/role", format!("{was}set by --role"));
    } else if own.is_some() {
        edit.comment(
            PROFILE,
            "a role instead lets Whittle keep the profile itself: --role <name>",
        );
    } else if let Some(default) = &options.settings.instance_profile {
        edit.set(PROFILE, default.as_str().into());
        edit.comment(PROFILE, "was setting aws.defaultInstanceProfile");
    } else {
        let remedy = "v1 needs a role or a profile: give --role <name of the nodes' role>, or convert the ConfigMap \
                      karpenter-global-settings together with it";
        edit.refuse(PROFILE, "", remedy);
    }
}

/// Writes out metadata options: fields that a block left out had EC2's defaults, not Karpenter's.
fn metadata_options(edit: &mut Edit, options: &Options) {
    const OPTIONS: &str = "/spec/metadataOptions";
    if edit.get(OPTIONS).is_none() {
        node_class::metadata_options(edit);
        if options.ipv6 {
            edit.set("/spec/metadataOptions/httpProtocolIPv6", "enabled".into());
            edit.comment(
                "/spec/metadataOptions/httpProtocolIPv6",
                "enabled was the default in IPv6 clusters",
            );
        }
        return;
    }
    let defaults = [
        ("httpEndpoint", Value::from("enabled")),
        ("httpProtocolIPv6", Value::from("disabled")),
        ("httpPutResponseHopLimit", Value::from(1)),
        ("httpTokens", Value::from("optional")),
    ];
    for (field, default) in defaults {
        let place = format!("{OPTIONS}/{field}");
        if edit.get(&place).is_some() {
            continue;
        }
        let weak = match field {
            "httpTokens" => {
                ", and lets requests without a session read credentials: required is safer"
            }
            _ => "",
        };
        edit.set(&place, default);
        edit.comment(&place, format!("was not set: it is EC2's default{weak}"));
    }
}

/// Adds the tags from the global settings; the template's own tags win.
fn tags(edit: &mut Edit, options: &Options) {
    for (key, value) in &options.settings.tags {
        let place = format!("/spec/tags/{}", escaped(key));
        if edit.get(&place).is_none() {
            edit.set(&place, value.as_str().into());
            edit.comment(&place, "was in setting aws.tags");
        }
    }
}
