use model::{
    node_pool::BootImage,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use crate::{
    EC2NodeClass,
    karpenter::{Ami, AmiRequirement},
};

impl EC2NodeClass {
    /// AMIs that nodes of the class boot, in the order of the status; empty if it is not resolved.
    pub fn boot_images(&self) -> Vec<BootImage> {
        let status = self.status.as_ref();
        let images = status.and_then(|status| status.amis.as_deref());
        images
            .unwrap_or_default()
            .iter()
            .map(BootImage::from)
            .collect()
    }
}

impl From<&Ami> for BootImage {
    fn from(image: &Ami) -> Self {
        let mut requirements = Requirements::default();
        for entry in &image.requirements {
            requirements.add(requirement(entry));
        }
        Self {
            id: image.id.clone(),
            requirements,
        }
    }
}

/// An unknown operator matches nothing.
fn requirement(entry: &AmiRequirement) -> Requirement {
    let operator = match entry.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => Operator::DoesNotExist,
    };
    Requirement::new(&entry.key, operator, entry.values.iter().cloned())
}
