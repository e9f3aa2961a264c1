//! Kubernetes' own objects, with only the fields that planning uses: everything else is skipped while reading, so that lists
//! of tens of thousands of pods decode fast (spec/scheduling §8–§19, spec/lifecycle §8, §9 and §14).

mod admission;
mod affinity;
mod cluster;
mod defaults;
mod disruption;
mod pod;
mod storage;
mod workload;

pub use admission::{
    LimitRange, LimitRangeItem, LimitRangeSpec, RuntimeClass, RuntimeOverhead, RuntimeScheduling,
};
pub use affinity::{
    Affinity, LabelSelector, LabelSelectorRequirement, NodeAffinity, NodeInclusionPolicy,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinity, PodAffinityTerm,
    PreferredSchedulingTerm, SelectorOperator, TopologySpreadConstraint, UnsatisfiableAction,
    WeightedPodAffinityTerm,
};
pub use cluster::{Namespace, Node, NodeCondition, NodeSpec, NodeStatus, PriorityClass};
pub use disruption::{
    IntOrString, PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
pub use pod::{
    Container, ContainerPort, ContainerStatus, EphemeralVolume, PersistentVolumeClaimReference,
    Pod, PodCondition, PodPhase, PodResourceClaim, PodSchedulingGate, PodSpec, PodStatus,
    PodTemplateSpec, ResourceClaim, ResourceRequirements, Toleration, TolerationOperator, Volume,
    VolumeClaimTemplate,
};
pub use storage::{
    AttachedVolume, CSINode, CSINodeDriver, CSINodeSpec, ClaimPhase, ClaimReference, CsiSource,
    EbsSource, NodeDisk, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus, PersistentVolumeSpec, StorageClass, TopologySelectorRequirement,
    TopologySelectorTerm, VolumeAttachment, VolumeAttachmentSpec, VolumeAttachmentStatus,
    VolumeBindingMode, VolumeNodeAffinity, VolumeNodeResources,
};
pub use workload::{
    CronJob, CronJobSpec, DaemonSet, DaemonSetSpec, Deployment, Job, JobSpec, JobStatus,
    JobTemplateSpec, PodTemplate, ReplicaSet, ReplicatedSpec, ReplicationController,
    ReplicationControllerSpec, Rollout, RolloutSpec, Service, ServiceSpec, StatefulSet,
    StatefulSetSpec, WorkloadRef,
};
