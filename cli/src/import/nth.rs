//! Options of the AWS Node Termination Handler as settings of a cluster's registry entry (docs/spec/migrate.md#nth-options).

mod environment;
mod webhook;

use std::{collections::BTreeMap, fs, io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::convert::edit::Refusal;

#[derive(Args)]
pub(super) struct Arguments {
    /// Values of NTH's chart, as printed by `helm get values`
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// SecureString parameter with the webhook's URL, which replaces a Secret
    #[arg(long, value_name = "PARAMETER")]
    webhook_parameter: Option<String>,
}

/// Prints the settings, and reports the outcome of each option; exits with 1 where one is refused.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let name = arguments.file.display();
    let text = fs::read_to_string(&arguments.file);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let conversion = convert(&text, arguments.webhook_parameter.as_deref());
    let conversion = conversion.with_context(|| name.to_string())?;
    for note in &conversion.notes {
        eprintln!("{note}");
    }
    for refusal in &conversion.refusals {
        eprintln!("whittle: {refusal}");
    }
    if !conversion.refusals.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let entry = conversion.entry()?;
    writeln!(
        std::io::stdout().lock(),
        "{}",
        serde_json::to_string_pretty(&entry)?
    )?;
    eprintln!(
        "put these into the cluster's registry entry; docs/node-termination-handler.md has the way over"
    );
    Ok(ExitCode::SUCCESS)
}

/// Converts a chart's values.
pub(crate) fn convert(text: &str, webhook_parameter: Option<&str>) -> Result<Conversion> {
    // helm prints a title above the values, and `null` where none differs from the defaults.
    let text = TITLES
        .iter()
        .find_map(|title| text.trim_start().strip_prefix(title))
        .unwrap_or(text);
    let values = match text.trim() {
        "" => Value::Null,
        text => serde_saphyr::from_str(text).context("it is not YAML")?,
    };
    let values = match values {
        Value::Object(values) => values,
        Value::Null => Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            bail!("expected values of the chart, a mapping of options")
        }
    };
    refuse_other_documents(&values)?;
    let mut conversion = Conversion::default();
    let values = environment::applied(&values, &mut conversion);
    let read = Options {
        values: &values,
        webhook_parameter,
        conversion,
    };
    Ok(read.convert())
}

/// Refuses manifests, and values of a chart that has NTH's as a part: taking their fields out would lose all options.
fn refuse_other_documents(values: &Map<String, Value>) -> Result<()> {
    if let Some(kind) = values.get("kind").and_then(Value::as_str)
        && values.contains_key("apiVersion")
    {
        bail!(
            "it is a {kind}, not values of NTH's chart: give what `helm get values aws-node-termination-handler --namespace kube-system` prints"
        );
    }
    // Names such as `image` and `tolerations` are values of many charts.
    let is_of_nth = |key: &str| known().any(|option| option == key) && !NOT_NEEDED.contains(&key);
    let has_options = |values: &Map<String, Value>| values.keys().any(|key| is_of_nth(key));
    if has_options(values) {
        return Ok(());
    }
    let part = values
        .iter()
        .find(|(_, part)| part.as_object().is_some_and(has_options));
    match part {
        Some((name, _)) => bail!(
            "it has the values of NTH's chart below {name}: give what is below {name} alone, as a file of its own"
        ),
        None => Ok(()),
    }
}

/// Titles that `helm get values` prints in the first line.
const TITLES: [&str; 2] = ["USER-SUPPLIED VALUES:", "COMPUTED VALUES:"];

/// Options that are not needed: Whittle has no pods on nodes, and a queue of its own.
const NOT_NEEDED: &[&str] = &[
    "affinity",
    "assumeAsgTagPropagation",
    "awsEndpoint",
    "awsRegion",
    "commonLabels",
    "containerSecurityContext",
    "customLabels",
    "deleteSqsMsgIfNodeNotFound",
    "dnsConfig",
    "dnsPolicy",
    "enableProbesServer",
    "enablePrometheusServer",
    "extraLabels",
    "extraVolumeMounts",
    "extraVolumes",
    "fullnameOverride",
    "global",
    "hostNetwork",
    "image",
    "imagePullSecrets",
    "initContainers",
    "instanceMetadataURL",
    "jsonLogging",
    "kubeAPIBurst",
    "kubeApiBurst",
    "kubeAPIQPS",
    "kubeApiQps",
    "livenessProbe",
    "logFormatVersion",
    "logLevel",
    "metadataTries",
    "nameOverride",
    "namespaceOverride",
    "nodeSelector",
    "nodeSelectorTermsArch",
    "nodeSelectorTermsOs",
    "nodeTerminationGracePeriod",
    "podAnnotations",
    "podDisruptionBudget",
    "podLabels",
    "podMonitor",
    "podSecurityContext",
    "priorityClassName",
    "probes",
    "probesServerEndpoint",
    "probesServerPort",
    "procUptimeFile",
    "prometheusServerPort",
    "pspEnabled",
    "queueURL",
    "rbac",
    "readinessProbe",
    "replicas",
    "resources",
    "revisionHistoryLimit",
    "securityContext",
    "serviceAccount",
    "serviceMonitor",
    "sqsMsgVisibilityTimeoutSec",
    "strategy",
    "targetNodeOs",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "updateStrategy",
    "uptimeFile",
    "useApiServerCache",
    "useAPIServerCacheToListPods",
    "useHostNetwork",
    "workers",
];
/// Options that are always on here.
const ALWAYS_ON: &[&str] = &[
    "emitKubernetesEvents",
    "enableASGLifecycleDraining",
    "enableScheduledEventDraining",
    "enableSpotInterruptionDraining",
    "excludeFromLoadBalancers",
    "useProviderId",
];
const NOT_NEEDED_PREFIXES: &[&str] = &["daemonset", "linux", "windows"];

/// Options whose feature does not exist here; the rest works without it.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "completeLifecycleActionDelaySeconds",
        "hooks are completed when the node is drained and its volumes are detached",
    ),
    (
        "kubernetesEventsExtraAnnotations",
        "events have no annotations",
    ),
    (
        "kubernetesExtraEventsAnnotations",
        "events have no annotations",
    ),
    (
        "webhookProxy",
        "functions have their own way out: attach them to a VPC whose routes go through a proxy",
    ),
];

const OPT_IN: &str = "nodes of groups are opted in one by one, by tag or label: tag the groups whose nodes NTH drains";

/// Options with a fixed value here: another value would have no effect.
const FIXED: &[(&str, bool, &str)] = &[
    ("checkASGTagBeforeDraining", true, OPT_IN),
    ("checkTagBeforeDraining", true, OPT_IN),
    (
        "ignoreDaemonsSets",
        true,
        "pods of DaemonSets never keep a node: take the option out",
    ),
    (
        "ignoreDaemonSets",
        true,
        "pods of DaemonSets never keep a node: take the option out",
    ),
    (
        "deleteLocalData",
        true,
        "local data never keeps a node: take the option out",
    ),
];

/// Options that become settings.
const SUPPORTED: &[&str] = &[
    "cordonOnly",
    "dryRun",
    "enableOutOfServiceTaint",
    "enableRebalanceDraining",
    "enableRebalanceMonitoring",
    "enableSqsTerminationDraining",
    "extraEnv",
    "gracePeriod",
    "heartbeatInterval",
    "heartbeatUntil",
    "managedAsgTag",
    "managedTag",
    "podTerminationGracePeriod",
    "taintEffect",
    "taintNode",
];

/// Upper bound on a pod's grace period in seconds: a day.
const GRACE_PERIOD_MAX: i64 = 86_400;

/// All options by name.
fn known() -> impl Iterator<Item = &'static str> {
    let missed = UNSUPPORTED.iter().map(|(key, _)| key);
    let fixed = FIXED.iter().map(|(key, ..)| key);
    let lists = [SUPPORTED, webhook::OPTIONS, NOT_NEEDED, ALWAYS_ON];
    lists
        .into_iter()
        .flatten()
        .chain(missed)
        .chain(fixed)
        .copied()
}

#[derive(Default)]
pub(crate) struct Conversion {
    handler: Map<String, Value>,
    notifications: Vec<Value>,
    notes: Vec<String>,
    refusals: Vec<Refusal>,
}

impl Conversion {
    /// The registry entry with the settings that replace NTH's options.
    pub(crate) fn entry(&self) -> Result<Value> {
        let entry = json!({"settings": self.settings()});
        turns::Entry::read(&entry).context("what came out is no registry entry")?;
        Ok(entry)
    }

    /// Refuses the option whose value the registry entry does not allow.
    fn refuse_invalid_settings(&mut self, values: &Map<String, Value>) {
        if !self.refusals.is_empty() {
            return;
        }
        let Err(error) = turns::Entry::read(&json!({"settings": self.settings()})) else {
            return;
        };
        let error = error.to_string();
        let (field, rest) = error.split_once(" is ").unwrap_or((&error, ""));
        let remedy = rest.rsplit_once(": expected ").map_or_else(
            || error.clone(),
            |(_, expected)| format!("expected {expected}"),
        );
        let last = field.rsplit('.').next().unwrap_or(field);
        let (option, remedy) = match field.strip_prefix("settings.notifications[0]") {
            Some(".template") => ("webhookTemplate", webhook::NO_FIELD.to_owned()),
            Some(".to") => ("webhookURL", remedy),
            Some(headers) if headers.starts_with(".headers") => ("webhookHeaders", remedy),
            _ => (last, remedy),
        };
        let value = values.get(option).cloned().unwrap_or_default();
        self.refuse(option, &value, remedy);
    }

    fn settings(&self) -> Value {
        let mut settings = Map::new();
        settings.insert(
            "nodeTerminationHandler".to_owned(),
            Value::Object(self.handler.clone()),
        );
        if !self.notifications.is_empty() {
            settings.insert("notifications".to_owned(), json!(self.notifications));
        }
        Value::Object(settings)
    }

    fn refuse(&mut self, field: &str, value: &Value, remedy: impl Into<String>) {
        self.refusals.push(Refusal {
            object: "Node Termination Handler".to_owned(),
            field: field.to_owned(),
            value: shown(value),
            remedy: remedy.into(),
        });
    }
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

struct Options<'a> {
    values: &'a Map<String, Value>,
    webhook_parameter: Option<&'a str>,
    conversion: Conversion,
}

impl Options<'_> {
    fn convert(mut self) -> Conversion {
        self.handler();
        self.heartbeat();
        webhook::convert(self.values, self.webhook_parameter, &mut self.conversion);
        self.others();
        self.conversion.refuse_invalid_settings(self.values);
        self.conversion
    }

    /// A value that is set; charts write empty values for unset ones.
    fn given(&self, key: &str) -> Option<&Value> {
        given(self.values, key)
    }

    fn switch(&mut self, key: &str) -> Option<bool> {
        let value = self.given(key)?.clone();
        let read = switch(&value);
        if read.is_none() {
            self.conversion
                .refuse(key, &value, "expected true or false");
        }
        read
    }

    fn handler(&mut self) {
        for key in [
            "dryRun",
            "cordonOnly",
            "taintNode",
            "enableOutOfServiceTaint",
        ] {
            if let Some(on) = self.switch(key) {
                self.conversion.handler.insert(key.to_owned(), json!(on));
            }
        }
        // The older name is used where the newer one is not set.
        let tag = self
            .given("managedTag")
            .or_else(|| self.given("managedAsgTag"));
        if let Some(tag) = tag.cloned() {
            self.conversion.handler.insert("managedTag".to_owned(), tag);
        }
        if let Some(effect) = self.given("taintEffect").cloned() {
            self.conversion
                .handler
                .insert("taintEffect".to_owned(), effect);
        }
        self.grace_period();
        // In queue mode NTH drains for every message.
        let queue = self.switch("enableSqsTerminationDraining") == Some(true);
        let drains = self.switch("enableRebalanceDraining") == Some(true);
        let watches = self.switch("enableRebalanceMonitoring") == Some(true);
        let rebalance = match (queue || drains, watches) {
            (true, _) => "drain",
            (false, true) => "cordon",
            (false, false) => "ignore",
        };
        self.conversion
            .handler
            .insert("rebalance".to_owned(), json!(rebalance));
        for (key, fixed, remedy) in FIXED {
            // The older name is used where the newer one is not set, as for the tag itself.
            if *key == "checkASGTagBeforeDraining" && self.given("checkTagBeforeDraining").is_some()
            {
                continue;
            }
            if let Some(on) = self.switch(key)
                && on != *fixed
            {
                self.conversion.refuse(key, &json!(on), *remedy);
            }
        }
        for key in ALWAYS_ON {
            let note = match self.switch(key) {
                Some(false) => "cannot be turned off here",
                Some(true) => "not needed",
                None => continue,
            };
            self.conversion.notes.push(format!("{key}: {note}"));
        }
    }

    /// The maximum grace period of a pod in seconds, by its newer or its older name.
    fn grace_period(&mut self) {
        let keys = ["podTerminationGracePeriod", "gracePeriod"];
        let Some((key, value)) = keys
            .into_iter()
            .find_map(|key| Some((key, self.given(key)?.clone())))
        else {
            return;
        };
        match whole(&value) {
            Some(..0) => {}
            Some(seconds @ 0..=GRACE_PERIOD_MAX) => {
                self.conversion
                    .handler
                    .insert("podTerminationGracePeriod".to_owned(), json!(seconds));
                self.conversion.notes.push(format!(
                    "{key}: for pods on nodes of groups: those of NodePools have their own, cut only to what is left of their node's time"
                ));
            }
            Some(_) | None => {
                let remedy = format!(
                    "expected seconds, at most {GRACE_PERIOD_MAX}, or -1 for each pod's own"
                );
                self.conversion.refuse(key, &value, remedy);
            }
        }
    }

    /// Heartbeats of lifecycle hooks. Hooks are extended as long as EC2 Auto Scaling allows; values that NTH itself refuses are refused
    /// here too.
    fn heartbeat(&mut self) {
        let mut seconds = BTreeMap::new();
        for (key, least, most) in [
            ("heartbeatInterval", 30, 3600),
            ("heartbeatUntil", 60, 172_800),
        ] {
            let Some(value) = self
                .given(key)
                .cloned()
                .filter(|value| whole(value) != Some(-1))
            else {
                continue;
            };
            match whole(&value).filter(|value| (least..=most).contains(value)) {
                Some(value) => drop(seconds.insert(key, value)),
                None => {
                    let remedy = format!("expected seconds from {least} to {most}, or -1 for none");
                    self.conversion.refuse(key, &value, remedy);
                }
            }
        }
        match (seconds.get("heartbeatInterval"), seconds.get("heartbeatUntil")) {
            (None, Some(until)) => self.conversion.refuse(
                "heartbeatUntil",
                &json!(until),
                "it says nothing without heartbeatInterval: take it out",
            ),
            (Some(interval), Some(until)) if interval > until => self.conversion.refuse(
                "heartbeatInterval",
                &json!(interval),
                "expected no more than heartbeatUntil",
            ),
            (Some(_), _) => self.conversion.notes.push(
                "heartbeatInterval: not needed: hooks are extended while pods leave, until EC2 Auto Scaling allows no more".to_owned(),
            ),
            (None, None) => {}
        }
    }

    fn others(&mut self) {
        for (key, value) in self.values {
            let key = key.as_str();
            let is_read = SUPPORTED.contains(&key)
                || webhook::OPTIONS.contains(&key)
                || ALWAYS_ON.contains(&key)
                || FIXED.iter().any(|(fixed, ..)| *fixed == key);
            if is_read || given(self.values, key).is_none() {
                continue;
            }
            let is_missed = |(missed, _): &&(&str, &str)| *missed == key;
            let not_needed = NOT_NEEDED.contains(&key)
                || NOT_NEEDED_PREFIXES
                    .iter()
                    .any(|prefix| key.starts_with(prefix));
            if let Some((_, why)) = UNSUPPORTED.iter().find(is_missed) {
                if whole(value) != Some(-1) {
                    self.conversion
                        .notes
                        .push(format!("{key}: not here: {why}"));
                }
            } else if ["awsAccessKeyID", "awsSecretAccessKey"].contains(&key) {
                let remedy = "keys are not taken over: functions have roles, and this one should be withdrawn";
                self.conversion.refuse(key, &json!("***"), remedy);
            } else if not_needed {
                self.conversion.notes.push(format!("{key}: not needed"));
            } else {
                let remedy = match api::syntax::nearest(key, known()) {
                    Some(meant) => format!(
                        "no chart has this option (did you mean {meant}?): correct it or take it out"
                    ),
                    None => "no chart has this option: take it out".to_owned(),
                };
                self.conversion.refuse(key, value, remedy);
            }
        }
    }
}

fn given<'v>(values: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    let is_said = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    values.get(key).filter(is_said)
}

/// A boolean. Values of `--set-string` are text, which NTH parses.
fn switch(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(on) => Some(*on),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_i64() {
            Some(1) => Some(true),
            Some(0) => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A whole number, or a text of one.
fn whole(value: &Value) -> Option<i64> {
    let text = || value.as_str()?.trim().parse().ok();
    value.as_i64().or_else(text)
}
