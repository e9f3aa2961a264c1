//! The options of NTH's chart, of all releases, by what becomes of them.

use super::webhook;

/// Options that are not needed: Whittle has no pods on nodes, and a queue of its own.
pub(super) const NOT_NEEDED: &[&str] = &[
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
pub(super) const ALWAYS_ON: &[&str] = &[
    "emitKubernetesEvents",
    "enableASGLifecycleDraining",
    "enableScheduledEventDraining",
    "enableSpotInterruptionDraining",
    "excludeFromLoadBalancers",
    "useProviderId",
];
pub(super) const NOT_NEEDED_PREFIXES: &[&str] = &["daemonset", "linux", "windows"];

/// Options whose feature does not exist here; the rest works without it.
pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
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
pub(super) const FIXED: &[(&str, bool, &str)] = &[
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
pub(super) const SUPPORTED: &[&str] = &[
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

/// All options by name.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
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
