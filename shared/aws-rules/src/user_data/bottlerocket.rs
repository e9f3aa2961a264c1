//! Bottlerocket: settings in TOML, merged over the user's own (docs/spec/aws.md#user-data-bottlerocket).

mod keys;
mod version;

use std::collections::BTreeMap;

use api::karpenter::KubeletSettings;
use toml::{Table, Value};

use super::{UserDataError, UserDataInput, effect_text, kubelet};

pub(super) fn render(boot: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let mut document: Table = boot
        .custom()
        .parse()
        .map_err(|error: toml::de::Error| wrong(error.message()))?;
    // Bottlerocket reads settings alone; as upstream, other tables are dropped.
    document.retain(|key, _| key == "settings");
    let settings = table(&mut document, "settings")?;
    if boot.joins_disks() {
        let commands = table(settings, "bootstrap-commands")?;
        commands.insert(
            "000-mount-instance-storage".to_owned(),
            mount_instance_storage(boot),
        );
    }
    let kubernetes = table(settings, "kubernetes")?;
    keys::keep_known(kubernetes).map_err(|problem| wrong(&problem))?;
    merge(kubernetes, boot)?;
    toml::to_string(&document).map_err(|error| wrong(&error.to_string()))
}

/// Sets the keys that the cluster, the claim and the NodeClass decide; all others stay the user's.
fn merge(kubernetes: &mut Table, boot: &UserDataInput<'_>) -> Result<(), UserDataError> {
    let settings = boot.kubelet()?;
    let cluster = boot.cluster;
    let mut set = |key: &str, value: Value| kubernetes.insert(key.to_owned(), value);
    set("cluster-name", cluster.name.to_string().into());
    set("api-server", cluster.endpoint.clone().into());
    if !cluster.certificate_authority.is_empty() {
        let authority = cluster.certificate_authority.clone();
        set("cluster-certificate", authority.into());
    }
    if let Some(dns) = boot.cluster_dns(&settings).into_iter().next() {
        set("cluster-dns-ip", dns.into());
    }
    set("max-pods", boot.max_pods(&settings).into());
    set("node-taints", taints(boot).into());
    for (key, entries) in maps(&settings) {
        if !entries.is_empty() {
            set(key, strings(entries).into());
        }
    }
    for (key, value) in scalars(&settings) {
        if let Some(value) = value {
            set(key, value);
        }
    }
    let labels = table(kubernetes, "node-labels")?;
    labels.extend(strings(boot.node_labels()));
    Ok(())
}

fn maps(settings: &KubeletSettings) -> [(&'static str, BTreeMap<String, String>); 5] {
    [
        ("system-reserved", settings.system_reserved.clone()),
        ("kube-reserved", settings.kube_reserved.clone()),
        ("eviction-hard", settings.eviction_hard.clone()),
        ("eviction-soft", settings.eviction_soft.clone()),
        (
            "eviction-soft-grace-period",
            kubelet::grace_periods(settings),
        ),
    ]
}

fn scalars(settings: &KubeletSettings) -> [(&'static str, Option<Value>); 4] {
    let percent = |value: Option<i32>| value.map(|value| Value::from(value.to_string()));
    [
        (
            "eviction-max-pod-grace-period",
            settings.eviction_max_pod_grace_period.map(Value::from),
        ),
        (
            "image-gc-high-threshold-percent",
            percent(settings.image_gc_high_threshold_percent),
        ),
        (
            "image-gc-low-threshold-percent",
            percent(settings.image_gc_low_threshold_percent),
        ),
        (
            "cpu-cfs-quota-enforced",
            settings.cpu_cfs_quota.map(Value::from),
        ),
    ]
}

/// Taint key → `value:Effect`, in the order of the taints.
fn taints(boot: &UserDataInput<'_>) -> Table {
    let mut taints: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for taint in boot.node_taints() {
        let entry = format!("{}:{}", taint.value, effect_text(taint.effect));
        taints.entry(taint.key).or_default().push(entry.into());
    }
    let entries = taints.into_iter();
    entries.map(|(key, values)| (key, values.into())).collect()
}

fn mount_instance_storage(boot: &UserDataInput<'_>) -> Value {
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if !version::binds_by_default(boot.node_class) {
        bind.extend([
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods",
        ]);
    }
    let init = vec!["apiclient", "ephemeral-storage", "init"];
    let command = |words: Vec<&str>| Value::from(words);
    Table::from_iter([
        (
            "commands".to_owned(),
            Value::from(vec![command(init), command(bind)]),
        ),
        ("mode".to_owned(), "always".into()),
        ("essential".to_owned(), true.into()),
    ])
    .into()
}

fn strings(entries: BTreeMap<String, String>) -> Table {
    let entries = entries.into_iter();
    entries.map(|(key, value)| (key, value.into())).collect()
}

/// The table under `key`, created if there is none.
fn table<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Table, UserDataError> {
    let entry = parent
        .entry(key)
        .or_insert_with(|| Value::Table(Table::new()));
    entry
        .as_table_mut()
        .ok_or_else(|| wrong(&format!("{key} is not a table")))
}

fn wrong(problem: &str) -> UserDataError {
    UserDataError::Toml(problem.to_owned())
}
