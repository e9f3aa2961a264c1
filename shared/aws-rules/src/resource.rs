//! Extended resources of EC2 instances (docs/spec/aws.md#capacity).

pub use api::names::resource::ENCLAVES;

pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
pub const AMD_GPU: &str = "amd.com/gpu";
pub const GAUDI: &str = "habana.ai/gaudi";
pub const NEURON: &str = "aws.amazon.com/neuron";
pub const NEURON_CORE: &str = "aws.amazon.com/neuroncore";
pub const EFA: &str = "vpc.amazonaws.com/efa";
pub const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
pub const PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
