use api::names::label;
use model::InstanceType;

use crate::resource;

/// Whether the type has a GPU or another accelerator; a fraction of one counts (docs/spec/aws.md#fractional-gpus).
pub fn is_accelerated(instance_type: &InstanceType) -> bool {
    const ACCELERATORS: [&str; 5] = [
        resource::NVIDIA_GPU,
        resource::AMD_GPU,
        resource::GAUDI,
        resource::NEURON,
        resource::NEURON_CORE,
    ];
    let has_fraction = || {
        let count = instance_type.requirements.get(label::INSTANCE_GPU_COUNT);
        count.is_some_and(|count| !count.values.is_empty())
    };
    ACCELERATORS
        .iter()
        .any(|name| instance_type.capacity.get(name) > 0)
        || has_fraction()
}
