//! The keys under `settings.kubernetes` that are handed on, and what they hold. Bottlerocket refuses to boot with a wrong
//! one, so a wrong one is refused here, where the user can see it.

use toml::{Table, Value};

#[derive(Clone, Copy)]
enum Holds {
    Text,
    Number,
    Switch,
    Texts,
    Settings,
    TextMap,
    TextsMap,
    SwitchMap,
}

const KEYS: &[(&str, Holds)] = &[
    ("allowed-unsafe-sysctls", Holds::Texts),
    ("api-server", Holds::Text),
    ("cloud-provider", Holds::Text),
    ("cluster-certificate", Holds::Text),
    ("cluster-dns-ip", Holds::Text),
    ("cluster-domain", Holds::Text),
    ("cluster-name", Holds::Text),
    ("container-log-max-files", Holds::Number),
    ("container-log-max-size", Holds::Text),
    ("container-log-max-workers", Holds::Number),
    ("container-log-monitor-interval", Holds::Text),
    ("cpu-cfs-quota-enforced", Holds::Switch),
    ("cpu-manager-policy", Holds::Text),
    ("cpu-manager-policy-options", Holds::Texts),
    ("cpu-manager-reconcile-period", Holds::Text),
    ("credential-providers", Holds::Settings),
    ("device-ownership-from-security-context", Holds::Switch),
    ("event-burst", Holds::Number),
    ("event-qps", Holds::Number),
    ("eviction-hard", Holds::TextMap),
    ("eviction-max-pod-grace-period", Holds::Number),
    ("eviction-soft", Holds::TextMap),
    ("eviction-soft-grace-period", Holds::TextMap),
    ("hostname-override-source", Holds::Text),
    ("ids-per-pod", Holds::Number),
    ("image-gc-high-threshold-percent", Holds::Text),
    ("image-gc-low-threshold-percent", Holds::Text),
    ("kube-api-burst", Holds::Number),
    ("kube-api-qps", Holds::Number),
    ("kube-reserved", Holds::TextMap),
    ("log-level", Holds::Number),
    ("max-pods", Holds::Number),
    ("memory-manager-policy", Holds::Text),
    ("memory-manager-reserved-memory", Holds::Settings),
    ("node-labels", Holds::TextMap),
    ("node-taints", Holds::TextsMap),
    ("pod-pids-limit", Holds::Number),
    ("registry-burst", Holds::Number),
    ("registry-qps", Holds::Number),
    ("seccomp-default", Holds::Switch),
    ("server-tls-bootstrap", Holds::Switch),
    ("shutdown-grace-period", Holds::Text),
    ("shutdown-grace-period-for-critical-pods", Holds::Text),
    ("single-process-oom-kill", Holds::Switch),
    ("static-pods", Holds::Settings),
    ("system-reserved", Holds::TextMap),
    ("topology-manager-policy", Holds::Text),
    ("topology-manager-policy-options", Holds::SwitchMap),
    ("topology-manager-scope", Holds::Text),
];

/// Drops keys that are not known, as upstream does, and names one that holds the wrong kind of value.
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

impl Holds {
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
