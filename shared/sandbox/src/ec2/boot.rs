use std::collections::{BTreeMap, BTreeSet};

use model::{
    InstanceType, labels,
    launch::Instance,
    taint::{Taint, TaintEffect},
};
use serde_json::Value;

use crate::{controllers::NodeJoin, json};

/// EBS volumes that a node can attach: the limit of most Nitro types.
const VOLUMES: i64 = 25;
const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// Private DNS name of an instance, which is the name of its node.
pub(super) fn node_name(region: &str, address: &str) -> String {
    let host = format!("ip-{}", address.replace('.', "-"));
    match region {
        "us-east-1" => format!("{host}.ec2.internal"),
        region => format!("{host}.{region}.compute.internal"),
    }
}

/// Node of an instance: its type's resources, and the labels and taints that its user data passes to the kubelet.
pub(super) fn node(
    instance_type: &InstanceType,
    instance: &Instance,
    address: &str,
    user_data: &str,
) -> NodeJoin {
    let registration = KubeletRegistration::parse(user_data);
    let architecture = instance_type
        .requirements
        .0
        .get(labels::ARCH)
        .and_then(|requirement| requirement.values.first())
        .map_or("amd64", String::as_str);
    let mut capacity = instance_type.capacity.clone();
    let mut allocatable = instance_type.allocatable();
    for resources in [&mut capacity, &mut allocatable] {
        resources.0.retain(|_, amount| *amount > 0);
    }
    NodeJoin {
        name: instance.private_dns.clone().unwrap_or_default(),
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        instance_type: instance_type.name.clone(),
        zone: instance.zone.clone(),
        architecture: architecture.to_owned(),
        capacity,
        allocatable,
        labels: registration.labels,
        taints: registration.taints.into_iter().collect(),
        internal_ip: address.to_owned(),
        volume_limits: BTreeMap::from([(EBS_DRIVER.to_owned(), VOLUMES)]),
        ready_after: None,
    }
}

/// Labels and taints for registration, parsed from user data in any of the formats that images read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KubeletRegistration {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: BTreeSet<Taint>,
}

impl KubeletRegistration {
    pub(super) fn parse(user_data: &str) -> Self {
        let mut registration = Self::default();
        registration.read_flags(user_data);
        registration.read_node_configs(user_data);
        if let Ok(settings) = user_data.parse::<toml::Table>() {
            registration.read_settings(&settings);
        }
        registration
    }

    /// Reads `--node-labels` and `--register-with-taints`, in a script or a NodeConfig.
    fn read_flags(&mut self, text: &str) {
        for list in flags(text, "--node-labels=") {
            let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
            self.labels
                .extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        for list in flags(text, "--register-with-taints=") {
            self.taints.extend(list.split(',').filter_map(taint));
        }
    }

    /// Reads nodeadm's NodeConfig documents, which are parts of a MIME archive.
    fn read_node_configs(&mut self, text: &str) {
        for document in text.split("\n--").flat_map(|part| part.split("\n\n")) {
            let Ok(config) = serde_saphyr::from_str::<Value>(document) else {
                continue;
            };
            let path = ["spec", "kubelet", "config", "registerWithTaints"];
            for taint in json::items(&config, &path) {
                self.taints
                    .extend(effect(json::text(taint, &["effect"])).map(|effect| Taint {
                        key: json::text(taint, &["key"]).to_owned(),
                        value: json::text(taint, &["value"]).to_owned(),
                        effect,
                    }));
            }
        }
    }

    /// Reads Bottlerocket's settings.
    fn read_settings(&mut self, settings: &toml::Table) {
        let kubernetes = settings
            .get("settings")
            .and_then(|settings| settings.get("kubernetes"));
        let table = |name: &str| kubernetes.and_then(|kubernetes| kubernetes.get(name)?.as_table());
        for (key, value) in table("node-labels").into_iter().flatten() {
            self.labels
                .extend(value.as_str().map(|value| (key.clone(), value.to_owned())));
        }
        for (key, values) in table("node-taints").into_iter().flatten() {
            let values = values.as_array().into_iter().flatten();
            let texts = values.filter_map(toml::Value::as_str);
            self.taints
                .extend(texts.filter_map(|text| taint(&format!("{key}={text}"))));
        }
    }
}

/// Values of a flag, without quotes.
fn flags<'t>(text: &'t str, flag: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(flag).skip(1).map(|rest| {
        let rest = rest.trim_start_matches(['"', '\'', '\\']);
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    })
}

/// Parses `key=value:Effect`.
fn taint(text: &str) -> Option<Taint> {
    let (rest, name) = text.rsplit_once(':')?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Some(Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect(name)?,
    })
}

fn effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unregistered() -> BTreeSet<Taint> {
        BTreeSet::from([Taint {
            key: "karpenter.sh/unregistered".to_owned(),
            value: String::new(),
            effect: TaintEffect::NoExecute,
        }])
    }

    fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([
            ("karpenter.sh/nodepool".to_owned(), "default".to_owned()),
            ("team".to_owned(), "blue".to_owned()),
        ])
    }

    #[test]
    fn script_flags_are_parsed() {
        let registration = KubeletRegistration::parse(
            "#!/bin/bash\n/etc/eks/bootstrap.sh 'demo' --kubelet-extra-args \
             '--node-labels=\"karpenter.sh/nodepool=default,team=blue\" \
             --register-with-taints=\"karpenter.sh/unregistered:NoExecute\" --max-pods=29'",
        );
        assert_eq!(
            (registration.labels, registration.taints),
            (labels(), unregistered())
        );
    }

    #[test]
    fn node_config_is_parsed() {
        let registration = KubeletRegistration::parse(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
             Content-Type: application/node.eks.aws\n\n# Generated\napiVersion: node.eks.aws/v1alpha1\n\
             kind: NodeConfig\nspec:\n  kubelet:\n    config:\n      registerWithTaints:\n      - effect: NoExecute\n        key: karpenter.sh/unregistered\n    flags:\n    \
             - --node-labels=\"karpenter.sh/nodepool=default,team=blue\"\n\n--//--\n",
        );
        assert_eq!(
            (registration.labels, registration.taints),
            (labels(), unregistered())
        );
    }

    #[test]
    fn bottlerocket_settings_are_parsed() {
        let registration = KubeletRegistration::parse(
            "[settings.kubernetes]\ncluster-name = \"demo\"\n\
             [settings.kubernetes.node-labels]\n\"karpenter.sh/nodepool\" = \"default\"\nteam = \"blue\"\n\
             [settings.kubernetes.node-taints]\n\"karpenter.sh/unregistered\" = [\":NoExecute\"]\n",
        );
        assert_eq!(
            (registration.labels, registration.taints),
            (labels(), unregistered())
        );
    }
}
