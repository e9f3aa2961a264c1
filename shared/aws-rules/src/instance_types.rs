//! The instance types a NodeClass can launch, as the scheduler sees them: labels, capacity, overhead and offerings
//! (spec/aws §3–§7).

mod capacity;
mod facts;
mod fit;
mod labels;
mod offerings;
mod table;
mod unavailable;

use std::collections::BTreeMap;

use api::{
    karpenter::{EC2NodeClass, KubeletSettings},
    names::label,
};
use model::InstanceType;

pub use facts::*;
pub use fit::incompatible;
pub use table::{price, static_prices};
pub use unavailable::Unavailable;

use crate::{
    ProviderSettings,
    families::{Family, FamilyError},
    placement::PlacementGroupFact,
    resource,
};

/// What the types depend on besides the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Through<'a> {
    pub node_class: &'a EC2NodeClass,
    pub settings: &'a ProviderSettings,
    /// Instance type → memory that its nodes were seen to have, in bytes (spec/aws §5.4).
    pub measured_memory: &'a BTreeMap<String, i64>,
    /// What the NodeClass's selector was resolved to.
    pub placement_group: Option<&'a PlacementGroupFact>,
}

/// Every type of the catalog. Those that the NodeClass cannot launch are there too, without an available offering, so that
/// it can be said why a pod waits.
pub fn instance_types(
    catalog: &RegionCatalog,
    through: Through<'_>,
) -> Result<Vec<InstanceType>, FamilyError> {
    let spec = &through.node_class.spec;
    let family = Family::of(spec)?;
    // Settings that cannot be read keep the NodeClass from being ready; here they count as absent.
    let kubelet = spec.kubelet.as_ref().and_then(|k| k.settings().ok());
    let kubelet = kubelet.unwrap_or_default();
    let infos = catalog.instance_types.iter();
    Ok(infos
        .map(|info| instance_type(catalog, info, through, family, &kubelet))
        .collect())
}

fn instance_type(
    catalog: &RegionCatalog,
    info: &InstanceTypeInfo,
    through: Through<'_>,
    family: Family,
    kubelet: &KubeletSettings,
) -> InstanceType {
    let class = through.node_class;
    let node = capacity::Node {
        info,
        family,
        spec: &class.spec,
        kubelet,
        settings: through.settings,
    };
    let place = offerings::Place::of(catalog, info, through);
    let mut capacity = node.capacity();
    if let Some(measured) = through.measured_memory.get(&info.instance_type) {
        capacity.set(model::resources::MEMORY, *measured);
    }
    let fits = !incompatible(info, family, &class.spec, through.placement_group);
    InstanceType {
        name: info.instance_type.clone(),
        requirements: labels::requirements(info, family, &place),
        capacity,
        overhead: node.overhead(),
        offerings: offerings::offerings(catalog, info, &place, fits),
    }
}

/// Whether the type has a GPU or another accelerator, fractions of one included (spec/aws refinement 7).
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
