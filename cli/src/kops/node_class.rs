//! The EC2NodeClass of a group (docs/spec/migrate.md#kops-node-class).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Inputs, cluster::Cluster, fields, image, manifest, volume};
use crate::convert::edit::Edit;

/// Tags that v1 reserves.
const RESTRICTED_TAGS: &[&str] = &[
    "",
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
];

pub(super) fn convert(
    edit: &mut Edit,
    cluster: &Cluster,
    inputs: &Inputs,
    labels: &BTreeMap<String, String>,
) -> Edit {
    let mut spec = Map::new();
    let mut set = |field: &str, value: Value| spec.insert(field.to_owned(), value);
    set("amiFamily", "Custom".into());
    let image = edit.text_at("/spec/image").unwrap_or_default().to_owned();
    let term = image::term(&image);
    match &term {
        Ok(term) => {
            set("amiSelectorTerms", json!([term]));
        }
        Err(remedy) => edit.refuse("/spec/image", &image, *remedy),
    }
    if let Some(public) = public_addresses(edit, cluster) {
        set("associatePublicIPAddress", public.into());
    }
    match &inputs.root_device {
        Some(device) => {
            set("blockDeviceMappings", volume::mapping(edit, device));
        }
        // The image has to be corrected first.
        None if term.is_err() => {}
        None => {
            let command = image::root_device_command(&term.unwrap_or_default());
            let remedy = format!(
                "the root volume is made for the image's root device: give --root-device with what `{command}` prints"
            );
            edit.refuse("/spec/image", &image, remedy);
        }
    }
    set("instanceProfile", profile(edit, cluster).into());
    if let Some(kubelet) = kubelet(edit) {
        set("kubelet", kubelet);
    }
    set("securityGroupSelectorTerms", security_groups(edit, cluster));
    let name = manifest::name(edit).to_owned();
    let mut subnet_tags = Map::new();
    subnet_tags.insert(fields::CLUSTER_TAG.to_owned(), cluster.name.as_str().into());
    subnet_tags.insert(format!("{}{name}", fields::SUBNET_TAG), "true".into());
    set("subnetSelectorTerms", json!([{ "tags": subnet_tags }]));
    set("tags", Value::Object(tags(edit, cluster, labels)));
    let script = inputs.user_data.of(&name, &cluster.name);
    match script {
        Some(script) => {
            set("userData", script.into());
        }
        None => {
            let remedy = format!(
                "the script that joins instances to the cluster is in the state store: give --user-data {name}=<file> with \
                 igconfig/node/{name}/nodeupscript.sh, or --launch-template with a template {name}.{}",
                cluster.name
            );
            edit.refuse("", "", remedy);
        }
    }
    let mut class = manifest::object(
        edit,
        cluster,
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        Value::Object(spec),
    );
    class.comment("", format!("of InstanceGroup {name}"));
    if script.is_some_and(|script| {
        !script.contains("karpenter.sh/unregistered") && !script.contains("nodeup")
    }) {
        class.warn(
            "its user data neither names nodeup nor the taint karpenter.sh/unregistered:NoExecute, with which kubelets must \
             register",
        );
    }
    for (field, instead) in fields::IGNORED {
        let says_something = match edit.get(&format!("/spec/{field}")) {
            None | Some(Value::Null) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => true,
        };
        if says_something {
            let instead = match instead.is_empty() {
                true => String::new(),
                false => format!(": {instead}"),
            };
            class.warn(format!(
                "spec.{} has no effect in groups of Karpenter, as in kOps{instead}",
                field.replace('/', ".")
            ));
        }
    }
    for text in volume::remarks(edit)
        .into_iter()
        .chain(address_remark(edit, cluster))
    {
        class.warn(text);
    }
    for (field, value) in &cluster.kubelet {
        if edit.get(&format!("/spec/kubelet/{field}")).is_none() {
            class.warn(format!(
                "spec.kubelet.{field} {value} of the Cluster reaches nodes by nodeup alone, as in kOps: set it in the InstanceGroup, \
                 too, and planning knows of it"
            ));
        }
    }
    let others = edit.get("/spec/kubelet").and_then(Value::as_object);
    for field in others.into_iter().flat_map(Map::keys) {
        if field != "nodeLabels" && !fields::KUBELET.contains(&field.as_str()) {
            class.warn(format!("spec.kubelet.{field} reaches nodes by nodeup alone: planning does not know of it, as in kOps"));
        }
    }
    class
}

/// Whether nodes get public addresses, by the type of the group's first subnet.
fn public_addresses(edit: &mut Edit, cluster: &Cluster) -> Option<bool> {
    const SUBNETS: &str = "/spec/subnets";
    let first = edit
        .get("/spec/subnets/0")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let Some(first) = first else {
        edit.refuse(SUBNETS, "", "expected the names of subnets of the cluster");
        return None;
    };
    match cluster.subnets.get(&first).map(String::as_str) {
        Some("Public" | "Utility") => {
            let said = edit
                .get("/spec/associatePublicIp")
                .or_else(|| edit.get("/spec/associatePublicIP"));
            Some(said.and_then(Value::as_bool).unwrap_or(true))
        }
        Some("Private" | "DualStack") => Some(false),
        Some(other) => {
            let remedy = format!(
                "subnet {first} is of type {other:?}: expected Public, Utility, Private or DualStack"
            );
            edit.refuse(SUBNETS, &first, remedy);
            None
        }
        None => {
            edit.refuse(SUBNETS, &first, "the Cluster has no subnet of this name");
            None
        }
    }
}

/// The remark that a wish for public addresses has no effect in the group's subnets.
fn address_remark(edit: &Edit, cluster: &Cluster) -> Option<String> {
    let (field, said) = ["associatePublicIp", "associatePublicIP"]
        .into_iter()
        .find_map(|field| Some((field, edit.get(&format!("/spec/{field}"))?)))?;
    let subnet = edit.text_at("/spec/subnets/0")?;
    let kind = cluster.subnets.get(subnet)?;
    let is_dropped =
        *said == Value::Bool(true) && ["Private", "DualStack"].contains(&kind.as_str());
    is_dropped.then(|| {
        format!("spec.{field} true has no effect, as in kOps: subnet {subnet} is of type {kind}, so nodes get no public addresses")
    })
}

/// The profile: `nodes.<cluster>`, or the one that the group names by its ARN.
fn profile(edit: &Edit, cluster: &Cluster) -> String {
    let own = edit
        .text_at("/spec/iam/profile")
        .filter(|arn| !arn.is_empty());
    let own = own.and_then(|arn| arn.rsplit('/').next());
    own.map_or_else(|| format!("nodes.{}", cluster.name), str::to_owned)
}

/// The group's kubelet settings that planning needs.
fn kubelet(edit: &Edit) -> Option<Value> {
    let kubelet = edit.get("/spec/kubelet").and_then(Value::as_object)?;
    let kept: Map<String, Value> = kubelet
        .iter()
        .filter(|(field, _)| fields::KUBELET.contains(&field.as_str()))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

fn security_groups(edit: &Edit, cluster: &Cluster) -> Value {
    let own = match edit.text_at("/spec/securityGroupOverride") {
        Some(id) => json!({ "id": id }),
        None => {
            let name = format!("nodes.{}", cluster.name);
            json!({ "tags": { fields::CLUSTER_TAG: cluster.name, "Name": name } })
        }
    };
    let more = edit
        .get("/spec/additionalSecurityGroups")
        .and_then(Value::as_array);
    let more = more.into_iter().flatten().map(|id| json!({ "id": id }));
    [own].into_iter().chain(more).collect()
}

/// The tags that kOps gives a group's instances; those by which kOps recognizes them override the user's.
fn tags(edit: &Edit, cluster: &Cluster, labels: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut tags = Map::new();
    let name = manifest::name(edit);
    tags.insert(fields::CLUSTER_TAG.to_owned(), cluster.name.as_str().into());
    tags.insert("Name".to_owned(), format!("{name}.{}", cluster.name).into());
    tags.extend(cluster.cloud_labels.clone());
    let own = edit.get("/spec/cloudLabels").and_then(Value::as_object);
    tags.extend(own.cloned().unwrap_or_default());
    for (key, value) in labels {
        tags.insert(
            format!("{}{key}", fields::NODE_TEMPLATE_LABEL),
            value.as_str().into(),
        );
    }
    let taints = edit.get("/spec/taints").and_then(Value::as_array);
    for taint in taints.into_iter().flatten().filter_map(Value::as_str) {
        if let Some((key, rest)) = taint.split_once('=') {
            tags.insert(format!("{}{key}", fields::NODE_TEMPLATE_TAINT), rest.into());
        }
    }
    tags.insert(fields::ROLE_TAG.to_owned(), "1".into());
    tags.insert(fields::GROUP_TAG.to_owned(), name.into());
    tags.retain(|key, _| {
        !RESTRICTED_TAGS.contains(&key.as_str()) && !key.starts_with("kubernetes.io/cluster")
    });
    tags
}
