use std::collections::{BTreeMap, BTreeSet};

use model::{
    InstanceType, labels,
    launch::Instance,
    taint::{Taint, TaintEffect},
};
use serde_json::Value;

use crate::{controllers::NodeJoin, json};

/// EBS volumes that a node of the usual kind takes.
const VOLUMES: i64 = 25;
const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// The private DNS name, by which nodes are called.
pub(super) fn node_name(region: &str, address: &str) -> String {
    let host = format!("ip-{}", address.replace('.', "-"));
    match region {
        "us-east-1" => format!("{host}.ec2.internal"),
        region => format!("{host}.{region}.compute.internal"),
    }
}

/// The node that an instance becomes: what its type has, and what its user data tells the kubelet to register with.
pub(super) fn node(
    kind: &InstanceType,
    instance: &Instance,
    address: &str,
    user_data: &str,
) -> NodeJoin {
    let told = Told::by(user_data);
    let architecture = kind
        .requirements
        .0
        .get(labels::ARCH)
        .and_then(|requirement| requirement.values.first())
        .map_or("amd64", String::as_str);
    let mut capacity = kind.capacity.clone();
    let mut allocatable = kind.allocatable();
    for resources in [&mut capacity, &mut allocatable] {
        resources.0.retain(|_, amount| *amount > 0);
    }
    NodeJoin {
        name: instance.private_dns.clone().unwrap_or_default(),
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        instance_type: kind.name.clone(),
        zone: instance.zone.clone(),
        architecture: architecture.to_owned(),
        capacity,
        allocatable,
        labels: told.labels,
        taints: told.taints.into_iter().collect(),
        internal_ip: address.to_owned(),
        volume_limits: BTreeMap::from([(EBS_DRIVER.to_owned(), VOLUMES)]),
        ready_after: None,
    }
}

/// What user data says about the node's registration, in any of the forms that images understand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: BTreeSet<Taint>,
}

impl Told {
    pub(super) fn by(user_data: &str) -> Self {
        let mut told = Self::default();
        told.read_flags(user_data);
        told.read_node_configs(user_data);
        if let Ok(settings) = user_data.parse::<toml::Table>() {
            told.read_settings(&settings);
        }
        told
    }

    /// `--node-labels` and `--register-with-taints`, in a script or a NodeConfig.
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

    /// nodeadm's documents, which are parts of a MIME archive.
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

    /// Bottlerocket's settings.
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

/// The values of a flag, quotes taken off.
fn flags<'t>(text: &'t str, flag: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(flag).skip(1).map(|rest| {
        let rest = rest.trim_start_matches(['"', '\'', '\\']);
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    })
}

/// `key=value:Effect`.
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
    fn a_script_tells_by_flags() {
        let told = Told::by(
            "#!/bin/bash\n/etc/eks/bootstrap.sh 'demo' --kubelet-extra-args \
             '--node-labels=\"karpenter.sh/nodepool=default,team=blue\" \
             --register-with-taints=\"karpenter.sh/unregistered:NoExecute\" --max-pods=29'",
        );
        assert_eq!((told.labels, told.taints), (labels(), unregistered()));
    }

    #[test]
    fn a_node_config_tells_by_settings() {
        let told = Told::by(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
             Content-Type: application/node.eks.aws\n\n# Generated\napiVersion: node.eks.aws/v1alpha1\n\
             kind: NodeConfig\nspec:\n  kubelet:\n    config:\n      registerWithTaints:\n      - effect: NoExecute\n        key: karpenter.sh/unregistered\n    flags:\n    \
             - --node-labels=\"karpenter.sh/nodepool=default,team=blue\"\n\n--//--\n",
        );
        assert_eq!((told.labels, told.taints), (labels(), unregistered()));
    }

    #[test]
    fn bottlerocket_is_told_in_toml() {
        let told = Told::by(
            "[settings.kubernetes]\ncluster-name = \"demo\"\n\
             [settings.kubernetes.node-labels]\n\"karpenter.sh/nodepool\" = \"default\"\nteam = \"blue\"\n\
             [settings.kubernetes.node-taints]\n\"karpenter.sh/unregistered\" = [\":NoExecute\"]\n",
        );
        assert_eq!((told.labels, told.taints), (labels(), unregistered()));
    }
}
