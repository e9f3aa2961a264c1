//! Kubernetes' own objects, with only the fields that planning uses. All other fields are skipped during
//! deserialization, so that lists of tens of thousands of pods decode fast (docs/spec/scheduling.md#resources,
//! docs/spec/lifecycle.md#termination, docs/spec/lifecycle.md#eligibility).

mod admission;
mod affinity;
mod cluster;
mod defaults;
mod devices;
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
pub use devices::{
    AllocatedDevice, AllocatedDevices, AllocationResult, CapacityRange, CapacityRequestPolicy,
    CapacityRequirements, CelSelector, ClaimConsumer, CounterConsumption, Device, DeviceAttribute,
    DeviceCapacity, DeviceClaim, DeviceClass, DeviceClassSpec, DeviceConstraint, DeviceRequest,
    DeviceSelector, DeviceSubRequest, DeviceTaint, ResourceClaim, ResourceClaimSpec,
    ResourceClaimStatus, ResourceClaimTemplate, ResourceClaimTemplateSpec, ResourcePool,
    ResourceSlice, ResourceSliceSpec,
};
pub use disruption::{
    IntOrString, PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
pub use pod::{
    Container, ContainerClaim, ContainerPort, ContainerStatus, EphemeralVolume,
    PersistentVolumeClaimReference, Pod, PodCondition, PodPhase, PodResourceClaim,
    PodResourceClaimStatus, PodSchedulingGate, PodSpec, PodStatus, PodTemplateSpec,
    ResourceRequirements, Toleration, TolerationOperator, Volume, VolumeClaimTemplate,
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
