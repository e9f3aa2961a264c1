//! Names that are part of the interface: labels, annotations, taints, finalizers and tags. Karpenter's keep their
//! names; Whittle's begin with `whittle.sh/` (docs/spec/scheduling.md#names, docs/spec/lifecycle.md#names,
//! docs/spec/aws.md#names, docs/spec/aws.md#labels).

/// Label keys.
pub mod label {
    pub const NODE_POOL: &str = "karpenter.sh/nodepool";
    pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
    /// `true` on a Node whose registration is complete.
    pub const REGISTERED: &str = "karpenter.sh/registered";
    /// `true` on a Node whose initialization is complete.
    pub const INITIALIZED: &str = "karpenter.sh/initialized";
    /// `true` on a Node: its taints are not synchronized with its NodeClaim.
    pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
    /// Name of the EC2NodeClass, on NodeClaims and Nodes. Nodes with this label are managed.
    pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";

    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    pub const ARCH: &str = "kubernetes.io/arch";
    pub const OS: &str = "kubernetes.io/os";
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    pub const REGION: &str = "topology.kubernetes.io/region";
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
    /// Set to `karpenter` when draining begins.
    pub const EXCLUDE_FROM_LOAD_BALANCERS: &str =
        "node.kubernetes.io/exclude-from-external-load-balancers";

    pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
    pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
    pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
    pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str =
        "karpenter.k8s.aws/capacity-reservation-interruptible";
    pub const INSTANCE_ENCRYPTION_IN_TRANSIT: &str =
        "karpenter.k8s.aws/instance-encryption-in-transit-supported";
    pub const NITRO_SANDBOX: &str = "karpenter.k8s.aws/nitro-sandbox";
    pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
    pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
    pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
    pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
    pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
    pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
    pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
    pub const INSTANCE_CPU_CLOCK_SPEED: &str =
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
    pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
    pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
    pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
    pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
    pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
    pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
    pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
    pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
    pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str =
        "karpenter.k8s.aws/instance-accelerator-manufacturer";
    pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
    pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
    pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
    pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

    /// Well-known keys. Instance types supply these labels, so pods may require any value even if the NodePool does not
    /// mention the key (docs/spec/scheduling.md#well-known-labels, docs/spec/scheduling.md#custom-labels).
    pub const WELL_KNOWN: &[&str] = &[
        NODE_POOL,
        ZONE,
        REGION,
        INSTANCE_TYPE,
        ARCH,
        OS,
        CAPACITY_TYPE,
        WINDOWS_BUILD,
    ];

    /// Well-known keys that the AWS provider adds to those in [`WELL_KNOWN_IN_AWS_DOMAIN`].
    pub const WELL_KNOWN_AWS: &[&str] = &[ZONE_ID];

    /// Well-known keys under `karpenter.k8s.aws`, in the order of the CRDs' rules.
    pub const WELL_KNOWN_IN_AWS_DOMAIN: &[&str] = &[
        INSTANCE_TENANCY,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        EC2_NODE_CLASS,
        INSTANCE_ENCRYPTION_IN_TRANSIT,
        NITRO_SANDBOX,
        INSTANCE_CATEGORY,
        INSTANCE_HYPERVISOR,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_LOCAL_NVME,
        INSTANCE_SIZE,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_CLOCK_SPEED,
        INSTANCE_MEMORY,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_GPU_NAME,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_COUNT,
        INSTANCE_CAPABILITY_FLEX,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    ];

    pub fn is_well_known(key: &str) -> bool {
        WELL_KNOWN.contains(&key)
            || WELL_KNOWN_AWS.contains(&key)
            || WELL_KNOWN_IN_AWS_DOMAIN.contains(&key)
    }

    /// Domains whose keys users may not set, except for well-known ones.
    pub const RESTRICTED_DOMAINS: &[&str] = &["karpenter.sh", "karpenter.k8s.aws"];

    /// Whether users may not use `key` as a label or requirement (docs/spec/scheduling.md#restricted-keys). Well-known
    /// keys are never restricted.
    pub fn is_restricted(key: &str) -> bool {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let in_domain = |restricted: &str| {
            domain
                .strip_suffix(restricted)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !is_well_known(key)
            && (key == HOSTNAME || RESTRICTED_DOMAINS.iter().any(|domain| in_domain(domain)))
    }

    /// The current form of a label key. Deprecated keys are rewritten wherever requirements are built
    /// (docs/spec/scheduling.md#normalization, docs/spec/aws.md#names).
    pub fn normalized(key: &str) -> &str {
        match key {
            "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => ZONE,
            "failure-domain.beta.kubernetes.io/region" => REGION,
            "beta.kubernetes.io/arch" => ARCH,
            "beta.kubernetes.io/os" => OS,
            "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
            other => other,
        }
    }
}

/// Values of [`label::CAPACITY_TYPE`].
pub mod capacity_type {
    pub const SPOT: &str = "spot";
    pub const ON_DEMAND: &str = "on-demand";
    pub const RESERVED: &str = "reserved";

    pub const ALL: &[&str] = &[ON_DEMAND, SPOT, RESERVED];
}

/// Annotation keys.
pub mod annotation {
    pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
    /// On a Node or NodeClaim: `true` prevents repair, but no other disruption.
    pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
    pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
    pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
    /// RFC 3339 time after which all pods on the node may be removed by force.
    pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
    pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
    pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
    /// On an EC2NodeClass: sharing of its nodes' NVIDIA GPUs among claims.
    pub const NVIDIA_CONSUMABLE_CAPACITY: &str = "karpenter.k8s.aws/nvidia-consumable-capacity";
    pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
    pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
    pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
    pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
    pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";
    pub const PROVIDER_COMPATIBILITY: &str = "compatibility.karpenter.sh/provider";

    pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
    pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
    pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
    /// `true` once the instance has the tags `Name` and NodeClaim name.
    pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
    pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

    /// On a NodeClaim to be rebooted: time for its pods to leave, as a Go duration; unlimited if absent.
    pub const REBOOT_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
    /// On a NodeClaim that reboots: id of the previous boot.
    pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
    /// On a NodeClaim: times of its reboots within the last 24 hours, separated by commas.
    pub const REBOOTS: &str = "whittle.sh/reboots";
    /// On a NodeClaim to be rebooted: times of the first and the last call to EC2.
    pub const REBOOT_FIRST_CALL: &str = "whittle.sh/reboot-first-call";
    pub const REBOOT_LAST_CALL: &str = "whittle.sh/reboot-last-call";
    /// On a NodeClaim to be deleted because its reboot failed: the failure.
    pub const REBOOT_FAILED: &str = "whittle.sh/reboot-failed";
    /// On a NodeClaim of a committed plan: the name that it was committed with, which differs from the name of a copy.
    pub const COMMITTED: &str = "whittle.sh/committed";
    /// On a NodeClaim: digest of the pods on its node that count as activity.
    pub const PODS_DIGEST: &str = "whittle.sh/pods-digest";
    /// On a Node to be rebooted: id of the previous boot.
    pub const BOOT_ID: &str = "whittle.sh/boot-id";
    /// On a NodePool: results of its latest registrations.
    pub const REGISTRATIONS: &str = "whittle.sh/registrations";
    /// On a NodePool: `shadow` only records decisions for it; `active` is the default.
    pub const MODE: &str = "whittle.sh/mode";
    /// On a NodePool: response to rebalance recommendations for its nodes: `ignore` (Karpenter's behavior, and the
    /// default), `replace`, `drain` or `cordon`.
    pub const REBALANCE: &str = "whittle.sh/rebalance";
    /// On a NodePool: response to interruptions of its nodes: `drain` (Karpenter's behavior, and the default) or
    /// `cordon`.
    pub const INTERRUPTION: &str = "whittle.sh/interruption";
    /// On a NodePool: time within which the savings of a consolidation must pay for it; `24h` by default.
    pub const CONSOLIDATION_HORIZON: &str = "whittle.sh/consolidation-horizon";
    /// On a NodePool: assumed cost of evicting a pod, in dollars.
    pub const EVICTION_PRICE: &str = "whittle.sh/eviction-price";

    /// On a PersistentVolumeClaim: the binding is complete.
    pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// On a Pod: the last `controller.kubernetes.io/pod-deletion-cost` that Whittle wrote, which distinguishes it from
    /// a user's.
    pub const DELETION_COST_WRITTEN: &str = "whittle.sh/pod-deletion-cost";
    /// On a Pod: cost of its eviction, a 32-bit integer; overrides the pod-deletion-cost.
    pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
    pub const IS_DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
}

/// Taints.
pub mod taint {
    /// `NoExecute`; present from the kubelet's registration until registration is complete.
    pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
    /// `NoSchedule`; set on nodes that are about to be replaced or drained.
    pub const DISRUPTED: &str = "karpenter.sh/disrupted";
    /// `NoSchedule`; set on nodes that are rebooted in place.
    pub const REBOOTING: &str = "karpenter.sh/rebooting";

    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// `NoSchedule` with value `true`, until the cloud controller has initialized the node.
    pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
    /// Prefix of taint keys that are expected to be removed.
    pub const READINESS_PREFIX: &str = "readiness.k8s.io/";
}

/// Extended resources.
pub mod resource {
    /// Requests Nitro Enclaves. Instance types have it only if a NodeOverlay adds it.
    pub const ENCLAVES: &str = "eks.amazonaws.com/nitro-sandbox";
}

/// Finalizers.
pub mod finalizer {
    /// On NodeClaims and Nodes.
    pub const TERMINATION: &str = "karpenter.sh/termination";
    /// On EC2NodeClasses.
    pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/termination";
}

/// Labels, taints and tags of the AWS Node Termination Handler, for nodes without a NodePool
/// (docs/spec/migrate.md#nth-marks).
pub mod nth {
    pub const NAME: &str = "aws-node-termination-handler";
    /// Labels of a Node that returns after a reboot: the action to take then, the start time (seconds since 1970), and
    /// the id of the event.
    pub const ACTION: &str = "aws-node-termination-handler/action";
    pub const ACTION_TIME: &str = "aws-node-termination-handler/action-time";
    pub const EVENT_ID: &str = "aws-node-termination-handler/event-id";
    pub const UNCORDON_AFTER_REBOOT: &str = "UncordonAfterReboot";
    /// Key of the taint by which Kubernetes force-detaches volumes.
    pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
    /// Tag of instances that the Node Termination Handler manages.
    pub const MANAGED: &str = "aws-node-termination-handler/managed";

    /// Key of the taint for a kind of announcement, as [`model::InterruptionKind::as_str`] names it.
    pub fn taint(kind: &str) -> Option<&'static str> {
        Some(match kind {
            "spot_interrupted" | "capacity_reservation_interrupted" => {
                "aws-node-termination-handler/spot-itn"
            }
            "rebalance_recommendation" => "aws-node-termination-handler/rebalance-recommendation",
            "scheduled_change" => "aws-node-termination-handler/scheduled-maintenance",
            "group_terminating" => "aws-node-termination-handler/asg-lifecycle-termination",
            _ => return None,
        })
    }

    /// Reason of the event on the Node.
    pub fn reason(kind: &str) -> &'static str {
        match kind {
            "spot_interrupted" | "capacity_reservation_interrupted" => "SpotInterruption",
            "rebalance_recommendation" => "RebalanceRecommendation",
            "scheduled_change" => "ScheduledEvent",
            "group_terminating" => "ASGLifecycle",
            // The Node Termination Handler does not know these kinds.
            "capacity_block_expiring" => "CapacityBlockExpiring",
            _ => "UnknownInterruption",
        }
    }
}

/// Tags on EC2 resources (docs/spec/aws.md#resource-tags).
pub mod tag {
    pub const NODE_POOL: &str = "karpenter.sh/nodepool";
    pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";
    pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
    pub const EKS_CLUSTER: &str = "eks:eks-cluster-name";
    pub const NAME: &str = "Name";
    /// Tags with the cluster's name on instances of managed node groups or kOps.
    pub const OF_GROUPS: &[&str] = &[
        "eks:cluster-name",
        "aws:eks:cluster-name",
        "KubernetesCluster",
    ];
    /// Followed by the cluster's name; the value is `owned`.
    pub const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
    /// Token of the launch call that created the instance.
    pub const LAUNCH: &str = "whittle.sh/launch";
    /// Uid of the namespace `kube-system` of the cluster that the instance was launched for. Necessary because cluster
    /// names can be reused.
    pub const CLUSTER_UID: &str = "whittle.sh/cluster-uid";

    /// Tags that users may not set on an EC2NodeClass, in addition to those with [`CLUSTER_PREFIX`].
    pub const RESTRICTED: &[&str] = &[NODE_POOL, NODE_CLAIM, EC2_NODE_CLASS, EKS_CLUSTER];
}

/// API groups of Karpenter's objects and of CapacityBuffers.
pub mod group {
    pub const KARPENTER: &str = "karpenter.sh";
    pub const KARPENTER_AWS: &str = "karpenter.k8s.aws";
    pub const AUTOSCALING: &str = "autoscaling.x-k8s.io";
}

#[cfg(test)]
mod tests {
    use super::label::*;

    #[test]
    fn well_known_keys_are_never_restricted() {
        for key in WELL_KNOWN
            .iter()
            .chain(WELL_KNOWN_AWS)
            .chain(WELL_KNOWN_IN_AWS_DOMAIN)
        {
            assert!(!is_restricted(key), "{key}");
        }
    }

    #[test]
    fn restricted_domain_covers_only_its_subdomains() {
        for key in [
            "karpenter.sh/x",
            "a.karpenter.sh/x",
            REGISTERED,
            "karpenter.k8s.aws/x",
            "b.karpenter.k8s.aws/x",
            HOSTNAME,
        ] {
            assert!(is_restricted(key), "{key}");
        }
        for key in [
            "notkarpenter.sh/x",
            "karpenter.sh",
            "kubernetes.io/x",
            "node.k8s.io/x",
            "team",
            "example.com/team",
        ] {
            assert!(!is_restricted(key), "{key}");
        }
    }

    #[test]
    fn deprecated_keys_are_normalized() {
        assert_eq!(normalized("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(normalized("topology.ebs.csi.aws.com/zone"), ZONE);
        assert_eq!(
            normalized("beta.kubernetes.io/instance-type"),
            INSTANCE_TYPE
        );
        assert_eq!(normalized("team"), "team");
    }
}
