//! Kubelet settings: stored as the user wrote them, parsed for scheduling and bootstrap.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::parse_go_duration;
use crate::validation::Problem;

/// Fields of `KubeletConfiguration`, any of them. Bad ones are reported in a condition rather than refused on admission, so
/// this holds whatever was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KubeletConfiguration(pub Map<String, Value>);

impl JsonSchema for KubeletConfiguration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "KubeletConfiguration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

/// The settings that scheduling or the bootstrap of every AMI family uses (docs/spec/aws.md#kubelet). All others are
/// passed to the node unchanged, if its AMI family supports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletSettings {
    pub cluster_dns: Vec<String>,
    pub max_pods: Option<MaxPods>,
    pub pods_per_core: Option<i32>,
    /// Resource → quantity, or a CEL expression if it is not a quantity.
    pub system_reserved: BTreeMap<String, String>,
    /// Resource → quantity, or a CEL expression if it is not a quantity.
    pub kube_reserved: BTreeMap<String, String>,
    /// Signal → quantity or percentage.
    pub eviction_hard: BTreeMap<String, String>,
    pub eviction_soft: BTreeMap<String, String>,
    /// Signal → duration.
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    pub eviction_max_pod_grace_period: Option<i32>,
    pub image_gc_high_threshold_percent: Option<i32>,
    pub image_gc_low_threshold_percent: Option<i32>,
    pub cpu_cfs_quota: Option<bool>,
    /// Names of other fields that are set.
    pub unmanaged: Vec<String>,
}

/// A number of pods, or a CEL expression for the number on each instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaxPods {
    Count(i32),
    Expression(String),
}

/// Signals of eviction thresholds.
const SIGNALS: &[&str] = &[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

/// Resources that can be reserved.
const RESERVABLE: &[&str] = &["cpu", "memory", "ephemeral-storage", "pid"];

impl KubeletConfiguration {
    /// Parses the managed settings, or returns all problems.
    pub fn settings(&self) -> Result<KubeletSettings, Vec<Problem>> {
        let mut reader = Reader {
            fields: &self.0,
            problems: Vec::new(),
        };
        let settings = KubeletSettings {
            cluster_dns: reader.cluster_dns(),
            max_pods: reader.max_pods(),
            pods_per_core: reader.integer("podsPerCore", 0, i32::MAX),
            system_reserved: reader.reserved("systemReserved"),
            kube_reserved: reader.reserved("kubeReserved"),
            eviction_hard: reader.thresholds("evictionHard"),
            eviction_soft: reader.thresholds("evictionSoft"),
            eviction_soft_grace_period: reader.grace_periods("evictionSoftGracePeriod"),
            eviction_max_pod_grace_period: reader.integer("evictionMaxPodGracePeriod", 0, i32::MAX),
            image_gc_high_threshold_percent: reader.integer("imageGCHighThresholdPercent", 0, 100),
            image_gc_low_threshold_percent: reader.integer("imageGCLowThresholdPercent", 0, 100),
            cpu_cfs_quota: reader.boolean("cpuCFSQuota"),
            unmanaged: self
                .0
                .keys()
                .filter(|name| !MANAGED.contains(&name.as_str()))
                .cloned()
                .collect(),
        };
        reader.thresholds("evictionMinimumReclaim");
        reader.check_together(&settings);
        if reader.problems.is_empty() {
            Ok(settings)
        } else {
            Err(reader.problems)
        }
    }
}

const MANAGED: &[&str] = &[
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];

struct Reader<'a> {
    fields: &'a Map<String, Value>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// A field's value; `null` counts as unset.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn problem(&mut self, field: &str, value: impl ToString, allowed: impl Into<String>) {
        self.problems.push(Problem::new(
            format!("spec.kubelet.{field}"),
            value.to_string(),
            allowed,
        ));
    }

    /// Reports a value of the wrong type.
    fn mistyped(&mut self, field: &str, value: &Value, allowed: &str) {
        match value.as_str() {
            Some(text) => self.problem(field, text, format!("{allowed}, not text")),
            None => self.problem(field, value, allowed),
        }
    }

    fn integer(&mut self, name: &str, least: i32, most: i32) -> Option<i32> {
        let value = self.get(name)?;
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.mistyped(name, value, &format!("an integer from {least} to {most}"));
        }
        number
    }

    fn boolean(&mut self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        if !value.is_boolean() {
            self.mistyped(name, value, "true or false");
        }
        value.as_bool()
    }

    fn max_pods(&mut self) -> Option<MaxPods> {
        match self.get("maxPods")?.as_str() {
            Some(expression) => Some(MaxPods::Expression(expression.to_owned())),
            None => self.integer("maxPods", 0, i32::MAX).map(MaxPods::Count),
        }
    }

    fn cluster_dns(&mut self) -> Vec<String> {
        let Some(value) = self.get("clusterDNS") else {
            return Vec::new();
        };
        let texts: Option<Vec<_>> = value.as_array().and_then(|items| {
            items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect()
        });
        if texts.is_none() {
            self.mistyped("clusterDNS", value, "a list of IP addresses");
        }
        texts.unwrap_or_default()
    }

    /// Parses a map with keys among `keys` and text values that satisfy `good`.
    fn map(
        &mut self,
        name: &str,
        keys: &[&str],
        good: impl Fn(&str) -> bool,
        allowed: &str,
    ) -> BTreeMap<String, String> {
        let Some(value) = self.get(name) else {
            return BTreeMap::new();
        };
        let Some(entries) = value.as_object() else {
            self.mistyped(name, value, "a map");
            return BTreeMap::new();
        };
        let mut read = BTreeMap::new();
        for (key, value) in entries {
            if !keys.contains(&key.as_str()) {
                self.problem(name, key, format!("the keys {}", keys.join(", ")));
            }
            match value.as_str() {
                Some(text) if good(text) => {
                    read.insert(key.clone(), text.to_owned());
                }
                Some(text) => self.problem(&format!("{name}[{key}]"), text, allowed),
                None => self.problem(&format!("{name}[{key}]"), value, allowed),
            }
        }
        read
    }

    fn reserved(&mut self, name: &str) -> BTreeMap<String, String> {
        self.map(
            name,
            RESERVABLE,
            |text| !text.starts_with('-'),
            "a quantity, as text, that is not negative",
        )
    }

    fn thresholds(&mut self, name: &str) -> BTreeMap<String, String> {
        self.map(
            name,
            SIGNALS,
            is_threshold,
            "a percentage from 0% to 100%, or a quantity that is not negative",
        )
    }

    fn grace_periods(&mut self, name: &str) -> BTreeMap<String, String> {
        let good =
            |text: &str| parse_go_duration(text).is_some_and(|duration| !duration.is_negative());
        self.map(
            name,
            SIGNALS,
            good,
            "a duration such as 30s or 1m30s that is not negative",
        )
    }

    fn check_together(&mut self, settings: &KubeletSettings) {
        if let Some(taints) = self.get("registerWithTaints") {
            self.problem(
                "registerWithTaints",
                taints,
                "nothing: taints come from the NodePool",
            );
        }
        if let (Some(high), Some(low)) = (
            settings.image_gc_high_threshold_percent,
            settings.image_gc_low_threshold_percent,
        ) && high <= low
        {
            self.problem(
                "imageGCHighThresholdPercent",
                high,
                format!("more than imageGCLowThresholdPercent, which is {low}"),
            );
        }
        let keys = |name: &str| -> Vec<&str> {
            self.get(name)
                .and_then(Value::as_object)
                .map(|map| map.keys().map(String::as_str).collect())
                .unwrap_or_default()
        };
        let (soft, grace) = (keys("evictionSoft"), keys("evictionSoftGracePeriod"));
        let alone = |some: &[&'a str], others: &[&str]| -> Vec<&'a str> {
            some.iter()
                .filter(|key| !others.contains(key))
                .copied()
                .collect()
        };
        let (soft_alone, grace_alone) = (alone(&soft, &grace), alone(&grace, &soft));
        for key in soft_alone {
            self.problem("evictionSoft", key, "the keys of evictionSoftGracePeriod");
        }
        for key in grace_alone {
            self.problem("evictionSoftGracePeriod", key, "the keys of evictionSoft");
        }
    }
}

fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(number) => is_percentage(number),
        None => !text.starts_with('-') && crate::quantity::is_quantity(text),
    }
}

/// Whether the text is a number from 0 to 100, with or without decimals.
fn is_percentage(number: &str) -> bool {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && match whole.parse::<u32>() {
            Ok(100) => fraction.bytes().all(|byte| byte == b'0'),
            Ok(percent) => percent < 100,
            Err(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<KubeletSettings, Vec<String>> {
        let kubelet: KubeletConfiguration = serde_json::from_value(value).unwrap();
        kubelet
            .settings()
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn managed_settings_are_parsed_and_others_named() {
        let settings = read(json!({
            "clusterDNS": ["10.0.1.100"], "maxPods": 20, "podsPerCore": 2, "cpuCFSQuota": true,
            "systemReserved": { "cpu": "100m" }, "kubeReserved": { "memory": "200Mi" },
            "evictionHard": { "memory.available": "5.5%" }, "evictionSoft": { "nodefs.available": "1Gi" },
            "evictionSoftGracePeriod": { "nodefs.available": "1m30s" }, "evictionMaxPodGracePeriod": 60,
            "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "podPidsLimit": 4096,
        }))
        .unwrap();
        assert_eq!(settings.max_pods, Some(MaxPods::Count(20)));
        assert_eq!(settings.kube_reserved["memory"], "200Mi");
        assert_eq!(
            settings.eviction_soft_grace_period["nodefs.available"],
            "1m30s"
        );
        assert_eq!(settings.unmanaged, ["podPidsLimit"]);
    }

    #[test]
    fn max_pods_may_be_an_expression() {
        let settings = read(json!({ "maxPods": "max(110, default_enis * 2)" })).unwrap();
        assert_eq!(
            settings.max_pods,
            Some(MaxPods::Expression("max(110, default_enis * 2)".into()))
        );
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let problems = read(json!({
            "maxPods": -1, "podsPerCore": "2", "cpuCFSQuota": "yes", "clusterDNS": "10.0.1.100",
            "systemReserved": { "cpu": "-1", "disk": "1" }, "kubeReserved": { "cpu": 1 },
            "evictionHard": { "memory.available": "101%" }, "evictionSoft": { "nodefs.available": "1Gi" },
            "evictionSoftGracePeriod": { "pid.available": "soon" },
            "imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 80,
            "registerWithTaints": [], "evictionMinimumReclaim": { "inodes": "5%" },
        }))
        .unwrap_err();
        expect_test::expect![[r#"
            spec.kubelet.clusterDNS: "10.0.1.100" is not allowed: expected a list of IP addresses, not text
            spec.kubelet.maxPods: "-1" is not allowed: expected an integer from 0 to 2147483647
            spec.kubelet.podsPerCore: "2" is not allowed: expected an integer from 0 to 2147483647, not text
            spec.kubelet.systemReserved[cpu]: "-1" is not allowed: expected a quantity, as text, that is not negative
            spec.kubelet.systemReserved: "disk" is not allowed: expected the keys cpu, memory, ephemeral-storage, pid
            spec.kubelet.kubeReserved[cpu]: "1" is not allowed: expected a quantity, as text, that is not negative
            spec.kubelet.evictionHard[memory.available]: "101%" is not allowed: expected a percentage from 0% to 100%, or a quantity that is not negative
            spec.kubelet.evictionSoftGracePeriod[pid.available]: "soon" is not allowed: expected a duration such as 30s or 1m30s that is not negative
            spec.kubelet.cpuCFSQuota: "yes" is not allowed: expected true or false, not text
            spec.kubelet.evictionMinimumReclaim: "inodes" is not allowed: expected the keys memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available
            spec.kubelet.registerWithTaints: "[]" is not allowed: expected nothing: taints come from the NodePool
            spec.kubelet.imageGCHighThresholdPercent: "70" is not allowed: expected more than imageGCLowThresholdPercent, which is 80
            spec.kubelet.evictionSoft: "nodefs.available" is not allowed: expected the keys of evictionSoftGracePeriod
            spec.kubelet.evictionSoftGracePeriod: "pid.available" is not allowed: expected the keys of evictionSoft
        "#]]
        .assert_eq(&(problems.join("\n") + "\n"));
    }

    #[test]
    fn percentages_are_at_most_a_hundred() {
        for text in ["0%", "5.5%", "100%", "100.00%", "99.99%"] {
            assert!(is_threshold(text), "{text}");
        }
        for text in ["100.1%", "-1%", "%", "5.%", ".5%", "1e1%", "+5%"] {
            assert!(!is_threshold(text), "{text}");
        }
    }
}
