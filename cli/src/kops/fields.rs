//! Names of kOps: labels, tags, and the fields of an InstanceGroup.

/// Set on what is made, so that pruning by it never reaches kOps' own objects.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "whittle-kops");
pub(super) const CLUSTER_LABEL: &str = "whittle.sh/kops-cluster";

pub(super) const CLUSTER_TAG: &str = "KubernetesCluster";
/// On the subnets of a group, with its name after it.
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

/// Fields that kOps has no use for in groups of Karpenter.
pub(super) const IGNORED: &[&str] = &[
    "instanceInterruptionBehavior",
    "maxInstanceLifetime",
    "mixedInstancesPolicy/onDemandBase",
    "mixedInstancesPolicy/spotAllocationStrategy",
    "mixedInstancesPolicy/spotInstancePools",
    "rootVolume/optimization",
    "rootVolumeOptimization",
    "suspendProcesses",
    "tenancy",
    "volumeMounts",
    "volumes",
    "warmPool",
];
pub(super) const KUBELET: &[&str] = &["kubeReserved", "maxPods", "systemReserved"];
