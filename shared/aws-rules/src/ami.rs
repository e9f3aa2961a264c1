//! Which image an instance type boots (spec/aws §9.3).

use api::karpenter::{Ami, AmiRequirement};
use model::{
    InstanceType,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use crate::compatibility::agree;

/// The first image, in the order of the status, that runs on this type.
pub fn first_that_fits<'a>(images: &'a [Ami], instance_type: &InstanceType) -> Option<&'a Ami> {
    images
        .iter()
        .find(|image| agree(&instance_type.requirements, &requirements(image)))
}

fn requirements(image: &Ami) -> Requirements {
    let mut requirements = Requirements::default();
    for entry in &image.requirements {
        requirements.add(requirement(entry));
    }
    requirements
}

/// An operator nobody knows admits nothing.
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
