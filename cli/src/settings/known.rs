//! Names of settings (docs/settings.md).

/// Keys that `settings` of a registry entry may have.
pub(crate) const KNOWN: &[&str] = &[
    "awsFeatureGates",
    "clusterDNS",
    "disableDryRun",
    "enableDRA",
    "enableZonalShift",
    "featureGates",
    "guards",
    "ignoreDRARequests",
    "isolatedVPC",
    "kubernetesVersion",
    "launchTimeout",
    "legacyNodeRepair",
    "minValuesPolicy",
    "nodePrice",
    "nodeTerminationHandler",
    "notifications",
    "optimize",
    "preferencePolicy",
    "preferenceWorth",
    "registrationTimeout",
    "reservedENIs",
    "schedulerConfig",
    "serviceCIDR",
    "vmMemoryOverheadPercent",
];

/// Keys of Karpenter's chart that have no effect in an entry, and the reason.
pub(crate) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "amiRefreshInterval",
        "it is asked anew whenever an EC2NodeClass is looked at",
    ),
    ("batchIdleDuration", "a value of the relay's chart"),
    ("batchMaxDuration", "a value of the relay's chart"),
    (
        "clusterCABundle",
        "certificateAuthority of the entry, or EKS",
    ),
    ("clusterEndpoint", "endpoint of the entry, or EKS"),
    ("clusterName", "the name of the entry"),
    (
        "disableClusterStateObservability",
        "a turn tells what it saw",
    ),
    ("eksControlPlane", "type of the entry"),
    ("interruptionQueue", "the stack has its own queue"),
    (
        "securityGroupRefreshInterval",
        "they are asked anew whenever an EC2NodeClass is looked at",
    ),
    (
        "subnetRefreshInterval",
        "it is asked anew whenever an EC2NodeClass is looked at",
    ),
];
