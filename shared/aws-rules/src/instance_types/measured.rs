//! Memory measured on nodes, which replaces the estimate (docs/spec/aws.md#measured-memory).

use std::collections::BTreeMap;

use api::karpenter::Ami;
use model::{InstanceType, experience::MeasuredMemory, resources::MEMORY};

use super::ResolveInput;
use crate::ami;

/// The measurements of the images that the NodeClass has now.
pub(super) struct Measured<'a> {
    images: &'a [Ami],
    by_type: BTreeMap<&'a str, Vec<&'a MeasuredMemory>>,
}

impl<'a> Measured<'a> {
    pub(super) fn of(through: ResolveInput<'a>) -> Self {
        let status = through.node_class.status.as_ref();
        let images = status.and_then(|status| status.amis.as_deref());
        let mut by_type: BTreeMap<&str, Vec<&MeasuredMemory>> = BTreeMap::new();
        for measured in through.measured_memory {
            let of_type = by_type.entry(&measured.instance_type).or_default();
            of_type.push(measured);
        }
        Self {
            images: images.unwrap_or_default(),
            by_type,
        }
    }

    /// Applies the measurement of the image that the type's next node gets, if there is one.
    pub(super) fn apply(&self, instance_type: &mut InstanceType) {
        let Some(of_type) = self.by_type.get(instance_type.name.as_str()) else {
            return;
        };
        let image = ami::first_that_fits(self.images, instance_type);
        let bytes = of_type
            .iter()
            .filter(|measured| image.is_some_and(|image| image.id == measured.image))
            .map(|measured| measured.bytes)
            .min();
        if let Some(bytes) = bytes {
            instance_type.capacity.set(MEMORY, bytes);
        }
    }
}
