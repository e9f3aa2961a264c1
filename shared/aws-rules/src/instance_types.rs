//! The instance types a NodeClass can launch, as the scheduler sees them: labels, capacity, overhead and offerings
//! (docs/spec/aws.md#provider-objects).

mod accelerated;
mod attachments;
mod capacity;
mod devices;
mod facts;
mod fit;
mod known;
mod labels;
mod measured;
mod offerings;
mod sharing;
mod table;
mod unavailable;

use api::karpenter::{EC2NodeClass, EC2NodeClassSpec, KubeletSettings};
use model::{InstanceType, experience::MeasuredMemory};
use thiserror::Error;

pub use accelerated::is_accelerated;
pub use devices::with_devices;
pub use facts::{
    CoreInfo, Disks, EbsInfo, EbsOptimizedInfo, EfaInfo, Gpu, GpuInfo, InferenceAccelerator,
    InferenceAcceleratorInfo, InstanceStorageInfo, InstanceTypeInfo, MemoryInfo, NetworkCard,
    NetworkInfo, NeuronDevice, NeuronInfo, PlacementGroupInfo, ProcessorInfo, RegionCatalog,
    VCpuInfo,
};
pub use fit::incompatible;
pub use known::{of_node_class, with_attach_limits};
pub use sharing::{Sharing, SharingError};
pub use unavailable::Unavailable;

use crate::{
    ProviderSettings,
    expressions::{ExpressionError, Expressions},
    families::{Family, FamilyError},
    placement::PlacementGroupFact,
};

/// Inputs, besides the catalog, that determine the instance types of a NodeClass.
#[derive(Clone, Copy, Debug)]
pub struct ResolveInput<'a> {
    pub node_class: &'a EC2NodeClass,
    pub settings: &'a ProviderSettings,
    /// Memory observed on nodes (docs/spec/aws.md#measured-memory).
    pub measured_memory: &'a [MeasuredMemory],
    /// The placement group that the NodeClass's selector was resolved to.
    pub placement_group: Option<&'a PlacementGroupFact>,
}

/// Reason why no instance type can be used through a NodeClass.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResolveError {
    #[error(transparent)]
    Family(#[from] FamilyError),
    /// The number of pods of a node cannot be determined.
    #[error(transparent)]
    MaxPods(#[from] ExpressionError),
}

/// Every instance type of the catalog. Types that the NodeClass cannot launch are included without an available offering, so that an event
/// can say why a pod stays pending.
pub fn instance_types(
    catalog: &RegionCatalog,
    through: ResolveInput<'_>,
) -> Result<Vec<InstanceType>, ResolveError> {
    let spec = &through.node_class.spec;
    let family = Family::of(spec)?;
    // Settings that cannot be parsed keep the NodeClass from being ready; here they count as absent.
    let kubelet = spec.kubelet.as_ref().and_then(|k| k.settings().ok());
    let kubelet = Expressions::of(kubelet.unwrap_or_default(), through.settings.node_class_cel);
    let measured = measured::Measured::of(through);
    let infos = catalog.instance_types.iter();
    infos
        .map(|info| {
            let mut found = instance_type(catalog, info, through, family, &kubelet)?;
            measured.apply(&mut found);
            Ok(found)
        })
        .collect()
}

fn instance_type(
    catalog: &RegionCatalog,
    info: &InstanceTypeInfo,
    through: ResolveInput<'_>,
    family: Family,
    kubelet: &Expressions,
) -> Result<InstanceType, ResolveError> {
    let class = through.node_class;
    let default_pods = default_pods(info, family, &class.spec, through.settings);
    // Entries that fail count as not set; the NodeClass's validation reports them.
    let resolved = kubelet.resolve(info, default_pods);
    resolved.max_pods?;
    let node = capacity::Node {
        info,
        family,
        spec: &class.spec,
        kubelet: &resolved.settings,
        settings: through.settings,
    };
    // An invalid value keeps the NodeClass from being ready.
    let sharing = Sharing::of(class).unwrap_or_default();
    let place = offerings::LaunchLocations::of(catalog, info, through);
    let fits = !incompatible(info, family, &class.spec, through.placement_group);
    Ok(InstanceType {
        name: info.instance_type.clone(),
        requirements: labels::requirements(info, family, &place),
        capacity: node.capacity(),
        overhead: node.overhead(),
        offerings: offerings::offerings(catalog, info, &place, fits),
        ebs_attach_limit: node.ebs_attach_limit(),
        devices: devices::of_type(&info.instance_type, sharing, through.settings),
    })
}

/// Number of pods of a type if the kubelet's settings do not set it.
pub(crate) fn default_pods(
    info: &InstanceTypeInfo,
    family: Family,
    spec: &EC2NodeClassSpec,
    settings: &ProviderSettings,
) -> i64 {
    let node = capacity::Node {
        info,
        family,
        spec,
        kubelet: &KubeletSettings::default(),
        settings,
    };
    node.pods()
}
