//! Parses user data as a machine does: labels, taints and pod limit that its kubelet registers with.
//!
//! Each AMI family has its own format. User data that starts no kubelet (a script of the family Custom that does not
//! mention the cluster) makes a machine that never joins, as on EC2.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Labels, taints and pod limit that a kubelet registers with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registration {
    pub labels: BTreeMap<String, String>,
    /// Taints in the form of a Node's `spec.taints`.
    pub taints: Vec<Value>,
    pub max_pods: Option<u64>,
}

/// Registration that user data requests; `None` if nothing in it starts a kubelet.
pub(crate) fn registration(user_data: &str) -> Option<Registration> {
    if let Ok(settings) = user_data.parse::<toml::Table>()
        && settings.contains_key("settings")
    {
        return Some(bottlerocket(&settings));
    }
    let mut found = None;
    for part in parts(user_data) {
        let here = match part {
            text if text.contains("node.eks.aws/") => node_config(text),
            text if text.contains("bootstrap.sh") || text.contains("Start-EKSBootstrap") => {
                Some(flags(text))
            }
            _ => None,
        };
        if let Some(here) = here {
            merge(found.get_or_insert_default(), here);
        }
    }
    found
}

/// Parts of a MIME archive without their headers, or the text itself.
fn parts(text: &str) -> Vec<&str> {
    let boundary = text
        .lines()
        .find_map(|line| line.split_once("boundary=\"")?.1.split_once('"'))
        .map(|(boundary, _)| format!("--{boundary}"));
    let Some(boundary) = boundary else {
        return vec![text];
    };
    let parts = text.split(boundary.as_str()).skip(1);
    parts
        .filter_map(|part| part.split_once("\n\n"))
        .map(|(_, content)| content)
        .collect()
}

/// Merges documents in order: a later one takes precedence.
fn merge(all: &mut Registration, later: Registration) {
    all.labels.extend(later.labels);
    if !later.taints.is_empty() {
        all.taints = later.taints;
    }
    all.max_pods = later.max_pods.or(all.max_pods);
}

/// Parses nodeadm's NodeConfig (AL2023).
fn node_config(text: &str) -> Option<Registration> {
    let document: Value = serde_saphyr::from_str(text).ok()?;
    let kubelet = &document["spec"]["kubelet"];
    let given = kubelet["flags"].as_array().into_iter().flatten();
    let given: Vec<&str> = given.filter_map(Value::as_str).collect();
    let mut registration = flags(&given.join(" "));
    let config = &kubelet["config"];
    if let Some(taints) = config["registerWithTaints"].as_array() {
        registration.taints.clone_from(taints);
    }
    registration.max_pods = config["maxPods"].as_u64().or(registration.max_pods);
    Some(registration)
}

/// Parses Bottlerocket's settings: `"key" = ["value:Effect"]`.
fn bottlerocket(settings: &toml::Table) -> Registration {
    let empty = toml::Table::new();
    let kubernetes = settings
        .get("settings")
        .and_then(|settings| settings.get("kubernetes"))
        .and_then(toml::Value::as_table)
        .unwrap_or(&empty);
    let table = |key: &str| kubernetes.get(key).and_then(toml::Value::as_table);
    let labels = table("node-labels").into_iter().flatten();
    let taints = table("node-taints").into_iter().flatten();
    let taints = taints.flat_map(|(key, values)| {
        let values = values.as_array().into_iter().flatten();
        let texts = values.filter_map(toml::Value::as_str);
        texts.filter_map(move |text| {
            let (value, effect) = text.rsplit_once(':')?;
            Some(taint(key, value, effect))
        })
    });
    Registration {
        labels: labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        taints: taints.collect(),
        max_pods: kubernetes
            .get("max-pods")
            .and_then(toml::Value::as_integer)
            .and_then(|pods| u64::try_from(pods).ok()),
    }
}

/// Parses the kubelet's flags anywhere in a text.
fn flags(text: &str) -> Registration {
    let pairs = |flag: &str| -> Vec<String> {
        let list = value(text, flag).unwrap_or_default();
        let entries = list.split(',').filter(|entry| !entry.is_empty());
        entries.map(str::to_owned).collect()
    };
    let labels = pairs("--node-labels=");
    let taints = pairs("--register-with-taints=");
    let taints = taints.iter().filter_map(|entry| {
        let (key, effect) = entry.rsplit_once(':')?;
        let (key, value) = key.split_once('=').unwrap_or((key, ""));
        Some(taint(key, value, effect))
    });
    Registration {
        labels: labels
            .iter()
            .filter_map(|entry| entry.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        taints: taints.collect(),
        max_pods: value(text, "--max-pods=").and_then(|pods| pods.parse().ok()),
    }
}

/// Value of a flag, with or without quotes.
fn value<'t>(text: &'t str, flag: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(flag)?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest
            .split(|end: char| end.is_whitespace() || end == '\'' || end == '"')
            .next(),
    }
}

fn taint(key: &str, value: &str, effect: &str) -> Value {
    match value {
        "" => json!({"key": key, "effect": effect}),
        value => json!({"key": key, "value": value, "effect": effect}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(registration: &Registration) -> String {
        let labels = registration.labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        labels.join(",")
    }

    #[test]
    fn last_node_config_of_an_archive_wins() {
        let archive = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {maxPods: 20}
    flags: ["--node-labels=team=a,tier=web"]
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: 29
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
    flags: ['--node-labels="team=b,karpenter.sh/nodepool=default"']
--//--
"#;
        let found = registration(archive).unwrap();
        assert_eq!(
            labels(&found),
            "karpenter.sh/nodepool=default,team=b,tier=web"
        );
        assert_eq!(found.max_pods, Some(29));
        assert_eq!(found.taints[0]["key"], "karpenter.sh/unregistered");
    }

    #[test]
    fn bootstrap_script_names_labels_and_taints() {
        let script = r#"#!/bin/bash -xe
/etc/eks/bootstrap.sh 'demo' --kubelet-extra-args '--node-labels="a=1,b=2" --register-with-taints="dedicated=gpu:NoSchedule,x:NoExecute" --max-pods=110'
"#;
        let found = registration(script).unwrap();
        assert_eq!(labels(&found), "a=1,b=2");
        assert_eq!(found.max_pods, Some(110));
        let expected = [
            json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}),
            json!({"key": "x", "effect": "NoExecute"}),
        ];
        assert_eq!(found.taints, expected);
    }

    #[test]
    fn bottlerocket_settings_name_labels_and_taints() {
        let settings = r#"
[settings.kubernetes]
max-pods = 58
[settings.kubernetes.node-labels]
'karpenter.sh/nodepool' = 'default'
[settings.kubernetes.node-taints]
'karpenter.sh/unregistered' = [':NoExecute']
"#;
        let found = registration(settings).unwrap();
        assert_eq!(labels(&found), "karpenter.sh/nodepool=default");
        assert_eq!(found.max_pods, Some(58));
        let expected = [json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"})];
        assert_eq!(found.taints, expected);
    }

    #[test]
    fn script_that_starts_no_kubelet_registers_nothing() {
        assert_eq!(registration("#!/bin/bash\necho hello\n"), None);
        assert_eq!(registration(""), None);
    }
}
