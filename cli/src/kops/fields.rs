//! Names of kOps: labels, tags, and the fields of an InstanceGroup.

/// Label of generated objects, so that pruning by it never affects kOps' own objects.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "whittle-kops");
pub(super) const CLUSTER_LABEL: &str = "whittle.sh/kops-cluster";

pub(super) const CLUSTER_TAG: &str = "KubernetesCluster";
/// Prefix of the tag on a group's subnets; the group's name follows.
pub(super) const SUBNET_TAG: &str = "kops.k8s.io/instance-group/";
pub(super) const GROUP_TAG: &str = "kops.k8s.io/instancegroup";
pub(super) const ROLE_TAG: &str = "k8s.io/role/node";
pub(super) const NODE_TEMPLATE_LABEL: &str = "k8s.io/cluster-autoscaler/node-template/label/";
pub(super) const NODE_TEMPLATE_TAINT: &str = "k8s.io/cluster-autoscaler/node-template/taint/";
pub(super) const NODE_ROLE_LABEL: &str = "node-role.kubernetes.io/node";

/// Fields of `spec`, of both versions of kOps' API.
pub(super) const SPEC: &[&str] = &[
    "additionalSecurityGroups",
    "additionalUserData",
    "associatePublicIP",
    "associatePublicIp",
    "autoscale",
    "autoscalePriority",
    "capacityRebalance",
    "cloudLabels",
    "compressUserData",
    "containerd",
    "cpuCredits",
    "detailedInstanceMonitoring",
    "externalLoadBalancers",
    "fileAssets",
    "gcpProvisioningModel",
    "guestAccelerators",
    "hooks",
    "iam",
    "image",
    "instanceInterruptionBehavior",
    "instanceMetadata",
    "instanceProtection",
    "kubelet",
    "machineType",
    "manager",
    "maxInstanceLifetime",
    "maxPrice",
    "maxSize",
    "minSize",
    "mixedInstancesPolicy",
    "nodeLabels",
    "packages",
    "role",
    "rollingUpdate",
    "rootVolume",
    "rootVolumeDeleteOnTermination",
    "rootVolumeEncryption",
    "rootVolumeEncryptionKey",
    "rootVolumeIOPS",
    "rootVolumeIops",
    "rootVolumeOptimization",
    "rootVolumeSize",
    "rootVolumeThroughput",
    "rootVolumeType",
    "securityGroupOverride",
    "spotDurationInMinutes",
    "subnets",
    "suspendProcesses",
    "sysctlParameters",
    "taints",
    "tenancy",
    "updatePolicy",
    "volumeMounts",
    "volumes",
    "warmPool",
    "zones",
];

/// Fields that kOps ignores in groups of Karpenter, and their replacements.
pub(super) const IGNORED: &[(&str, &str)] = &[
    (
        "additionalUserData",
        "add it to the script that --user-data gives",
    ),
    ("autoscale", ""),
    (
        "autoscalePriority",
        "spec.weight of the NodePool orders NodePools",
    ),
    (
        "capacityRebalance",
        "the NodePool's annotation whittle.sh/rebalance sets the reaction to recommendations to rebalance",
    ),
    ("compressUserData", ""),
    (
        "cpuCredits",
        "burstable instances have the account's default credits",
    ),
    (
        "detailedInstanceMonitoring",
        "set spec.detailedMonitoring of the EC2NodeClass",
    ),
    (
        "externalLoadBalancers",
        "let the AWS Load Balancer Controller register nodes",
    ),
    ("gcpProvisioningModel", ""),
    ("guestAccelerators", ""),
    ("instanceInterruptionBehavior", ""),
    (
        "instanceMetadata",
        "set spec.metadataOptions of the EC2NodeClass",
    ),
    (
        "instanceProtection",
        "the annotation karpenter.sh/do-not-disrupt keeps nodes",
    ),
    (
        "maxInstanceLifetime",
        "set spec.template.spec.expireAfter of the NodePool",
    ),
    ("mixedInstancesPolicy/onDemandAllocationStrategy", ""),
    ("mixedInstancesPolicy/onDemandBase", ""),
    ("mixedInstancesPolicy/spotAllocationStrategy", ""),
    ("mixedInstancesPolicy/spotInstancePools", ""),
    (
        "rollingUpdate",
        "spec.disruption.budgets of the NodePool bound how many nodes are replaced at once",
    ),
    ("rootVolume/optimization", ""),
    ("rootVolumeDeleteOnTermination", ""),
    ("rootVolumeOptimization", ""),
    ("suspendProcesses", ""),
    (
        "tenancy",
        "add a requirement for karpenter.k8s.aws/instance-tenancy to the NodePool",
    ),
    (
        "volumeMounts",
        "the script that --user-data gives may mount them",
    ),
    (
        "volumes",
        "add them to spec.blockDeviceMappings of the EC2NodeClass",
    ),
    ("warmPool", "a CapacityBuffer reserves capacity"),
    ("zones", "the group's subnets decide its zones"),
];
pub(super) const KUBELET: &[&str] = &["kubeReserved", "maxPods", "systemReserved"];
