//! The supported keys under `settings.kubernetes` and the types of their values. Bottlerocket refuses to boot with a wrong one, so a wrong
//! one is refused here, where the user can see it.

use toml::{Table, Value};

#[derive(Clone, Copy)]
enum ValueType {
    Text,
    Number,
    Switch,
    Texts,
    Settings,
    TextMap,
    TextsMap,
    SwitchMap,
}

const KEYS: &[(&str, ValueType)] = &[
    ("allowed-unsafe-sysctls", ValueType::Texts),
    ("api-server", ValueType::Text),
    ("cloud-provider", ValueType::Text),
    ("cluster-certificate", ValueType::Text),
    ("cluster-dns-ip", ValueType::Text),
    ("cluster-domain", ValueType::Text),
    ("cluster-name", ValueType::Text),
    ("container-log-max-files", ValueType::Number),
    ("container-log-max-size", ValueType::Text),
    ("container-log-max-workers", ValueType::Number),
    ("container-log-monitor-interval", ValueType::Text),
    ("cpu-cfs-quota-enforced", ValueType::Switch),
    ("cpu-manager-policy", ValueType::Text),
    ("cpu-manager-policy-options", ValueType::Texts),
    ("cpu-manager-reconcile-period", ValueType::Text),
    ("credential-providers", ValueType::Settings),
    ("device-ownership-from-security-context", ValueType::Switch),
    ("event-burst", ValueType::Number),
    ("event-qps", ValueType::Number),
    ("eviction-hard", ValueType::TextMap),
    ("eviction-max-pod-grace-period", ValueType::Number),
    ("eviction-soft", ValueType::TextMap),
    ("eviction-soft-grace-period", ValueType::TextMap),
    ("hostname-override-source", ValueType::Text),
    ("ids-per-pod", ValueType::Number),
    ("image-gc-high-threshold-percent", ValueType::Text),
    ("image-gc-low-threshold-percent", ValueType::Text),
    ("kube-api-burst", ValueType::Number),
    ("kube-api-qps", ValueType::Number),
    ("kube-reserved", ValueType::TextMap),
    ("log-level", ValueType::Number),
    ("max-pods", ValueType::Number),
    ("memory-manager-policy", ValueType::Text),
    ("memory-manager-reserved-memory", ValueType::Settings),
    ("node-labels", ValueType::TextMap),
    ("node-taints", ValueType::TextsMap),
    ("pod-pids-limit", ValueType::Number),
    ("registry-burst", ValueType::Number),
    ("registry-qps", ValueType::Number),
    ("seccomp-default", ValueType::Switch),
    ("server-tls-bootstrap", ValueType::Switch),
    ("shutdown-grace-period", ValueType::Text),
    ("shutdown-grace-period-for-critical-pods", ValueType::Text),
    ("single-process-oom-kill", ValueType::Switch),
    ("static-pods", ValueType::Settings),
    ("system-reserved", ValueType::TextMap),
    ("topology-manager-policy", ValueType::Text),
    ("topology-manager-policy-options", ValueType::SwitchMap),
    ("topology-manager-scope", ValueType::Text),
];

/// Drops unknown keys, as upstream does. The error names a key whose value has the wrong type.
pub(super) fn keep_known(kubernetes: &mut Table) -> Result<(), String> {
    kubernetes.retain(|key, _| KEYS.iter().any(|(known, _)| *known == key));
    for (key, holds) in KEYS {
        if let Some(value) = kubernetes.get(*key)
            && !holds.admits(value)
        {
            return Err(format!(
                "settings.kubernetes.{key} is {}, expected {}",
                value.type_str(),
                holds.text()
            ));
        }
    }
    Ok(())
}

impl ValueType {
    fn admits(self, value: &Value) -> bool {
        let all = |value: &Value, holds: Self| {
            let table = value.as_table();
            table.is_some_and(|table| table.values().all(|value| holds.admits(value)))
        };
        match self {
            Self::Text => value.is_str(),
            Self::Number => value.is_integer(),
            Self::Switch => value.is_bool(),
            Self::Texts => value
                .as_array()
                .is_some_and(|items| items.iter().all(Value::is_str)),
            Self::Settings => value
                .as_table()
                .is_some_and(|table| table.values().all(Value::is_table)),
            Self::TextMap => all(value, Self::Text),
            Self::TextsMap => all(value, Self::Texts),
            Self::SwitchMap => all(value, Self::Switch),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "an integer",
            Self::Switch => "a boolean",
            Self::Texts => "an array of strings",
            Self::Settings => "a table of tables",
            Self::TextMap => "a table of strings",
            Self::TextsMap => "a table of arrays of strings",
            Self::SwitchMap => "a table of booleans",
        }
    }
}
