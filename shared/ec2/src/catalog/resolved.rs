//! Instance types as NodeClasses offer them, cached while a function is warm: they are resolved again only when an input has changed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use api::EC2NodeClass;
use aws_rules::{
    ProviderSettings,
    instance_types::{RegionCatalog, ResolveError, ResolveInput, Unavailable, instance_types},
    placement::PlacementGroupFact,
};
use model::{InstanceType, experience::MeasuredMemory};

/// Upper bound on cached NodeClasses, over all clusters: the types of one take some megabytes.
const CACHED_NODE_CLASSES_MAX: usize = 8;

/// Inputs that decide which types a NodeClass offers.
#[derive(Clone)]
pub(crate) struct Inputs {
    /// The catalog, compared by address: there is only one at a time.
    pub(crate) catalog: Arc<RegionCatalog>,
    pub(crate) node_class: EC2NodeClass,
    pub(crate) settings: ProviderSettings,
    pub(crate) measured_memory: Vec<MeasuredMemory>,
    pub(crate) placement_group: Option<PlacementGroupFact>,
    pub(crate) unavailable: Unavailable,
}

impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.catalog, &other.catalog)
            && self.node_class == other.node_class
            && self.settings == other.settings
            && self.measured_memory == other.measured_memory
            && self.placement_group == other.placement_group
            && self.unavailable == other.unavailable
    }
}

/// Recently resolved types, the latest last.
#[derive(Default)]
pub(crate) struct ResolvedTypes(Mutex<VecDeque<(Inputs, Arc<Vec<InstanceType>>)>>);

impl ResolvedTypes {
    pub(crate) fn get(&self, inputs: Inputs) -> Result<Arc<Vec<InstanceType>>, ResolveError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let types = match known.iter().find(|(other, _)| *other == inputs) {
            Some((_, types)) => return Ok(types.clone()),
            None => Arc::new(resolve(&inputs)?),
        };
        // Entries of an older catalog or an older version of the NodeClass are not requested again.
        let uid = inputs.node_class.metadata.uid.clone();
        known.retain(|(other, _)| {
            Arc::ptr_eq(&other.catalog, &inputs.catalog) && other.node_class.metadata.uid != uid
        });
        known.push_back((inputs, types.clone()));
        while known.len() > CACHED_NODE_CLASSES_MAX {
            known.pop_front();
        }
        Ok(types)
    }
}

fn resolve(inputs: &Inputs) -> Result<Vec<InstanceType>, ResolveError> {
    let through = ResolveInput {
        placement_group: inputs.placement_group.as_ref(),
        node_class: &inputs.node_class,
        settings: &inputs.settings,
        measured_memory: &inputs.measured_memory,
    };
    let mut types = instance_types(&inputs.catalog, through)?;
    inputs
        .unavailable
        .mark_unavailable(&mut types, &inputs.node_class);
    Ok(types)
}
