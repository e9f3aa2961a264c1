//! Kubelet settings as command-line flags, for the families that start the kubelet with flags (docs/spec/aws.md#kubelet-flags).

use std::collections::BTreeMap;

use api::{duration::parse_go_duration, karpenter::KubeletSettings};
use jiff::SignedDuration;

use super::{UserDataInput, effect_text};

/// The flags `--node-labels=… --register-with-taints=…` and the rest, in a fixed order, absent settings left out.
pub(super) fn flags(boot: &UserDataInput<'_>, settings: &KubeletSettings) -> String {
    let taints: Vec<_> = boot
        .node_taints()
        .iter()
        .map(|taint| {
            let value = if taint.value.is_empty() {
                String::new()
            } else {
                format!("={}", taint.value)
            };
            format!("{}{value}:{}", taint.key, effect_text(taint.effect))
        })
        .collect();
    let mut flags = vec![
        format!("--node-labels=\"{}\"", boot.node_labels_text()),
        format!("--register-with-taints=\"{}\"", taints.join(",")),
        format!("--max-pods={}", boot.max_pods(settings)),
    ];
    let mut number = |name: &str, value: Option<String>| {
        flags.extend(value.map(|value| format!("--{name}={value}")));
    };
    let text = |value: Option<i32>| value.map(|value| value.to_string());
    number("pods-per-core", text(settings.pods_per_core));
    number("system-reserved", map(&settings.system_reserved, "="));
    number("kube-reserved", map(&settings.kube_reserved, "="));
    number("eviction-hard", map(&settings.eviction_hard, "<"));
    number("eviction-soft", map(&settings.eviction_soft, "<"));
    number(
        "eviction-soft-grace-period",
        map(&grace_periods(settings), "="),
    );
    number(
        "eviction-max-pod-grace-period",
        text(settings.eviction_max_pod_grace_period),
    );
    number(
        "image-gc-high-threshold",
        text(settings.image_gc_high_threshold_percent),
    );
    number(
        "image-gc-low-threshold",
        text(settings.image_gc_low_threshold_percent),
    );
    number(
        "cpu-cfs-quota",
        settings.cpu_cfs_quota.map(|quota| quota.to_string()),
    );
    flags.join(" ")
}

fn map(entries: &BTreeMap<String, String>, between: &str) -> Option<String> {
    let entries: Vec<_> = entries
        .iter()
        .map(|(key, value)| format!("{key}{between}{value}"))
        .collect();
    (!entries.is_empty()).then(|| format!("\"{}\"", entries.join(",")))
}

/// Signal → duration in Go's format, which every kubelet parses.
pub(super) fn grace_periods(settings: &KubeletSettings) -> BTreeMap<String, String> {
    let periods = settings.eviction_soft_grace_period.iter();
    periods
        .map(|(signal, text)| {
            let period = parse_go_duration(text).map_or_else(|| text.clone(), duration_text);
            (signal.clone(), period)
        })
        .collect()
}

/// A duration in Go's format: `1m30s`.
fn duration_text(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = match duration.subsec_nanos() {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}
