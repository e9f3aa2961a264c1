//! Versions, and the annotations and labels that earlier ones left behind (docs/spec/migrate.md#v1beta1-names).

pub(super) const NODE_POOL_V1: &str = "karpenter.sh/v1";
pub(super) const NODE_POOL_V1BETA1: &str = "karpenter.sh/v1beta1";
pub(super) const PROVISIONER_V1ALPHA5: &str = "karpenter.sh/v1alpha5";
pub(super) const NODE_CLASS_V1: &str = "karpenter.k8s.aws/v1";
pub(super) const NODE_CLASS_V1BETA1: &str = "karpenter.k8s.aws/v1beta1";
pub(super) const NODE_TEMPLATE_V1ALPHA1: &str = "karpenter.k8s.aws/v1alpha1";

/// Kinds of Karpenter with their versions, newest first.
const KINDS: &[(&str, &[&str])] = &[
    ("AWSNodeTemplate", &[NODE_TEMPLATE_V1ALPHA1]),
    ("EC2NodeClass", &[NODE_CLASS_V1, NODE_CLASS_V1BETA1]),
    ("Machine", &[PROVISIONER_V1ALPHA5]),
    ("NodeClaim", &[NODE_POOL_V1, NODE_POOL_V1BETA1]),
    ("NodeOverlay", &["karpenter.sh/v1alpha1"]),
    ("NodePool", &[NODE_POOL_V1, NODE_POOL_V1BETA1]),
    ("Provisioner", &[PROVISIONER_V1ALPHA5]),
];

/// The versions of a kind of Karpenter; empty for other kinds.
pub(super) fn versions_of(kind: &str) -> &'static [&'static str] {
    let found = KINDS.iter().find(|(known, _)| *known == kind);
    found.map(|(_, versions)| *versions).unwrap_or_default()
}

/// Whether the kind exists in the version, as far as Karpenter's groups are concerned.
pub(super) fn is_known(kind: &str, version: &str) -> bool {
    let (group, _) = version.split_once('/').unwrap_or_default();
    let is_karpenters = ["karpenter.sh", "karpenter.k8s.aws"].contains(&group);
    !is_karpenters || versions_of(kind).contains(&version)
}

/// Label with the name of the Provisioner that made a node, and its replacement.
pub(super) const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";
pub(super) const NODE_POOL_LABEL: &str = "karpenter.sh/nodepool";

pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
pub(super) const DO_NOT_EVICT: &str = "karpenter.sh/do-not-evict";
pub(super) const DO_NOT_CONSOLIDATE: &str = "karpenter.sh/do-not-consolidate";
pub(super) const KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
pub(super) const UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
pub(super) const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";

/// Annotations without a meaning in v1: they are computed again, or were for conversion webhooks.
pub(super) const DROPPED_ANNOTATIONS: &[&str] = &[
    "compatibility.karpenter.k8s.aws/kubelet-drift-hash",
    "compatibility.karpenter.sh/provider",
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.sh/emptiness-timestamp",
    "karpenter.sh/linked",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/stored-version-migrated",
];
/// Annotation that kubectl and the API server add.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
pub(super) const OWN_FINALIZERS: &[&str] =
    &["karpenter.k8s.aws/termination", "karpenter.sh/termination"];
pub(super) const SERVER_METADATA: &[&str] = &[
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Labels that nodes no longer have, and their replacements.
pub(super) const GONE_LABELS: &[(&str, &str)] = &[
    (
        "karpenter.k8s.aws/instance-ami-id",
        "select the image in an EC2NodeClass of its own",
    ),
    (
        "karpenter.k8s.aws/instance-pods",
        "ask for karpenter.k8s.aws/instance-size, or set kubelet.maxPods in the EC2NodeClass",
    ),
];

/// Label keys of old Kubernetes versions, which Kubernetes' scheduler no longer knows.
pub(super) const LABEL_ALIASES: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
];
