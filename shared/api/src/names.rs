//! Keys and values that are part of the interface: labels, annotations, taints, finalizers and tags. Upstream's keep their names;
//! ours begin with `whittle.sh/` (docs/spec/scheduling.md#names, docs/spec/lifecycle.md#names, docs/spec/aws.md#names,
//! docs/spec/aws.md#labels).

/// Label keys.
pub mod label {
    pub const NODE_POOL: &str = "karpenter.sh/nodepool";
    pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
    /// `true` on a Node whose registration is complete.
    pub const REGISTERED: &str = "karpenter.sh/registered";
    /// `true` on a Node whose initialization is complete.
    pub const INITIALIZED: &str = "karpenter.sh/initialized";
    /// `true` on a Node keeps its taints as the kubelet registered them.
    pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
    /// The name of the EC2NodeClass, on NodeClaims and Nodes: what makes a Node managed.
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

    /// Well-known keys: instance types supply them, so pods may ask for any value of them even where the NodePool is silent
    /// (docs/spec/scheduling.md#well-known-labels, docs/spec/scheduling.md#custom-labels).
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

    /// The well-known keys that the AWS provider adds besides those in [`WELL_KNOWN_IN_AWS_DOMAIN`].
    pub const WELL_KNOWN_AWS: &[&str] = &[ZONE_ID];

    /// The well-known keys under `karpenter.k8s.aws`, in the order in which the CRDs' rules list them.
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

    /// Domains whose keys users may not set, the well-known ones excepted.
    pub const RESTRICTED_DOMAINS: &[&str] = &["karpenter.sh", "karpenter.k8s.aws"];

    /// Whether users may not use `key` as a label or requirement (docs/spec/scheduling.md#restricted-keys). Well-known keys are
    /// never restricted.
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

    /// The current name of a requirement key: old spellings are rewritten wherever requirements are built
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
    /// On a Node or NodeClaim: `true` keeps it from being repaired, and from nothing else.
    pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
    pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
    pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
    /// RFC 3339 instant after which everything on the node may be removed by force.
    pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
    pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
    pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
    /// On an EC2NodeClass: how claims share its nodes' GPUs of NVIDIA.
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
    /// `true` once the instance carries its NodeClaim's name and its own.
    pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
    pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

    /// On a NodeClaim that is to reboot: how long its pods may take to leave, as a Go duration; without it they may take for ever.
    pub const REBOOT_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
    /// On a NodeClaim that reboots: the id of the boot before.
    pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
    /// On a NodeClaim: instants of its reboots of the last 24 hours, separated by commas.
    pub const REBOOTS: &str = "whittle.sh/reboots";
    /// On a NodeClaim that is to reboot: when EC2 was asked first, and last.
    pub const REBOOT_FIRST_CALL: &str = "whittle.sh/reboot-first-call";
    pub const REBOOT_LAST_CALL: &str = "whittle.sh/reboot-last-call";
    /// On a NodeClaim whose reboot failed and that is to be deleted for it: how it failed.
    pub const REBOOT_FAILED: &str = "whittle.sh/reboot-failed";
    /// On a NodeClaim that a plan committed: its own name, so that a copy under another name is told from it.
    pub const COMMITTED: &str = "whittle.sh/committed";
    /// On a NodeClaim: digest of the pods on its node that count as activity.
    pub const PODS_DIGEST: &str = "whittle.sh/pods-digest";
    /// On a Node that is to reboot: the id of the boot before.
    pub const BOOT_ID: &str = "whittle.sh/boot-id";
    /// On a NodePool: what became of its last registrations.
    pub const REGISTRATIONS: &str = "whittle.sh/registrations";
    /// On a NodePool: `shadow` only says what would be done for it; `active` is the default.
    pub const MODE: &str = "whittle.sh/mode";
    /// On a NodePool: what becomes of its nodes when EC2 recommends to rebalance them, `ignore` (as upstream, and the
    /// default), `replace`, `drain` or `cordon`.
    pub const REBALANCE: &str = "whittle.sh/rebalance";
    /// On a NodePool: what becomes of its nodes when AWS announces their end, `drain` (as upstream, and the default) or
    /// `cordon`.
    pub const INTERRUPTION: &str = "whittle.sh/interruption";
    /// On a NodePool: what a consolidation saves within this time must pay for it, `24h` by default.
    pub const CONSOLIDATION_HORIZON: &str = "whittle.sh/consolidation-horizon";
    /// On a NodePool: what the eviction of a pod is taken to cost, in dollars.
    pub const EVICTION_PRICE: &str = "whittle.sh/eviction-price";

    /// On a PersistentVolumeClaim: binding is finished.
    pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// On a Pod: the `controller.kubernetes.io/pod-deletion-cost` that Whittle wrote last, which tells it from an owner's.
    pub const DELETION_COST_WRITTEN: &str = "whittle.sh/pod-deletion-cost";
    /// On a Pod: how dear its eviction is, a whole number of 32 bits; it counts instead of the pod-deletion-cost.
    pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
    pub const IS_DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
}

/// Taints.
pub mod taint {
    /// `NoExecute`, present when the kubelet registers and removed when registration is complete.
    pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
    /// `NoSchedule`, put on nodes that are about to be replaced or drained.
    pub const DISRUPTED: &str = "karpenter.sh/disrupted";
    /// `NoSchedule`, on nodes that are rebooted in place.
    pub const REBOOTING: &str = "karpenter.sh/rebooting";

    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// `NoSchedule` with value `true`, until the cloud controller has seen the node.
    pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
    /// Any taint whose key begins so is expected to go away by itself.
    pub const READINESS_PREFIX: &str = "readiness.k8s.io/";
}

/// Extended resources.
pub mod resource {
    /// Asks for Nitro Enclaves; no type has it unless a NodeOverlay adds it.
    pub const ENCLAVES: &str = "eks.amazonaws.com/nitro-sandbox";
}

/// Finalizers.
pub mod finalizer {
    /// On NodeClaims and Nodes.
    pub const TERMINATION: &str = "karpenter.sh/termination";
    /// On EC2NodeClasses.
    pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/termination";
}

/// Marks of the AWS Node Termination Handler, for nodes that no NodePool made (docs/spec/migrate.md#nth-marks).
pub mod nth {
    pub const NAME: &str = "aws-node-termination-handler";
    /// Labels of a Node that is of use again after a reboot: what is to be done then, since when (seconds since 1970), and the
    /// id of the event.
    pub const ACTION: &str = "aws-node-termination-handler/action";
    pub const ACTION_TIME: &str = "aws-node-termination-handler/action-time";
    pub const EVENT_ID: &str = "aws-node-termination-handler/event-id";
    pub const UNCORDON_AFTER_REBOOT: &str = "UncordonAfterReboot";
    /// The key of the taint by which Kubernetes detaches volumes by force.
    pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
    /// The tag of an instance that it looks after.
    pub const MANAGED: &str = "aws-node-termination-handler/managed";

    /// The key of its taint for a kind of announcement, as [`model::InterruptionKind::as_str`] names it.
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

    /// The reason of its event on the Node.
    pub fn reason(kind: &str) -> &'static str {
        match kind {
            "spot_interrupted" | "capacity_reservation_interrupted" => "SpotInterruption",
            "rebalance_recommendation" => "RebalanceRecommendation",
            "scheduled_change" => "ScheduledEvent",
            "group_terminating" => "ASGLifecycle",
            // NTH knows none of these.
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
    /// The cluster of an instance that a managed node group, or kOps, made.
    pub const OF_GROUPS: &[&str] = &[
        "eks:cluster-name",
        "aws:eks:cluster-name",
        "KubernetesCluster",
    ];
    /// Followed by the cluster's name; the value is `owned`.
    pub const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
    /// The token of the launch call that made the instance.
    pub const LAUNCH: &str = "whittle.sh/launch";
    /// The uid of the namespace `kube-system` of the cluster that the instance was launched for: names of clusters are given twice.
    pub const CLUSTER_UID: &str = "whittle.sh/cluster-uid";

    /// Tags that users may not set on an EC2NodeClass, besides all that begin with [`CLUSTER_PREFIX`].
    pub const RESTRICTED: &[&str] = &[NODE_POOL, NODE_CLAIM, EC2_NODE_CLASS, EKS_CLUSTER];
}

/// Kinds, groups and versions of Karpenter's API.
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
    fn a_restricted_domain_covers_its_sub_domains_only() {
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
    fn old_keys_get_their_current_name() {
        assert_eq!(normalized("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(normalized("topology.ebs.csi.aws.com/zone"), ZONE);
        assert_eq!(
            normalized("beta.kubernetes.io/instance-type"),
            INSTANCE_TYPE
        );
        assert_eq!(normalized("team"), "team");
    }
}
