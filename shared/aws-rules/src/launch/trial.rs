//! A trial launch for dry runs: the same template and tags as a real launch, of one instance type that the NodeClass is used for
//! (docs/spec/aws.md#dry-runs).

use std::collections::BTreeMap;

use api::names::label;
use model::{
    InstanceType,
    launch::LaunchTemplate,
    node_claim::NodeClaimSpec,
    node_pool::NodePool,
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
};

use super::{Claim, LaunchInput, LaunchRefusal, not_ready, tags, templates};
use crate::{
    ami,
    compatibility::{admits, are_compatible},
    families::Family,
    instance_types::is_accelerated,
};

/// Instance types of the trial where NodePools do not determine one.
const DEFAULT_INSTANCE_TYPES: [&str; 2] = ["m5.large", "m6g.large"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub template: LaunchTemplate,
    pub instance_type: String,
    /// The subnets of the status, in their order.
    pub subnets: Vec<String>,
    pub tags: BTreeMap<String, String>,
}

/// The trial launch of `input.node_class`, whether or not the NodeClass is ready.
pub fn trial(input: &LaunchInput<'_>, node_pools: &[NodePool]) -> Result<Trial, LaunchRefusal> {
    let class = input.node_class;
    let family = Family::of(&class.spec).map_err(|error| not_ready(error.to_string()))?;
    let linked: Vec<Requirements> = node_pools
        .iter()
        .filter(|pool| pool.template.node_class.name.0 == class.metadata.name)
        .map(requirements)
        .collect();
    let chosen = candidate(input, family, &linked)?;
    let labels = BTreeMap::new();
    let spec = NodeClaimSpec {
        requirements: tenancy(&linked).into_iter().collect(),
        ..NodeClaimSpec::default()
    };
    let claim = Claim {
        labels: &labels,
        annotations: &labels,
        spec: &spec,
    };
    let tags = tags(input, claim)?;
    let status = class.status.as_ref();
    let subnets = status.and_then(|status| status.subnets.as_deref());
    let subnets = subnets.unwrap_or_default().iter();
    Ok(Trial {
        template: templates::of_one(input, claim, family, chosen, &tags).map_err(by_name)?,
        instance_type: chosen.name.clone(),
        subnets: subnets.map(|subnet| subnet.id.clone()).collect(),
        tags,
    })
}

/// Names the field of a refusal. The NodeClass is resolved, so only the user's own user data can fail to render.
fn by_name(problem: LaunchRefusal) -> LaunchRefusal {
    match problem {
        LaunchRefusal::Create {
            reason: templates::LAUNCH_FAILED,
            message,
        } => LaunchRefusal::Create {
            reason: "InvalidUserData",
            message,
        },
        other @ (LaunchRefusal::InsufficientCapacity { .. }
        | LaunchRefusal::NodeClassNotReady { .. }
        | LaunchRefusal::Create { .. }) => other,
    }
}

fn requirements(pool: &NodePool) -> Requirements {
    let mut requirements = Requirements::from_selector(&pool.template.requirements);
    for (key, value) in &pool.template.labels {
        requirements.add(Requirement::new(key, Operator::In, [value.clone()]));
    }
    requirements
}

/// The requirement for `dedicated` where a NodePool admits it, because that tenancy needs more permissions.
fn tenancy(linked: &[Requirements]) -> Option<NodeSelectorRequirement> {
    let mut asked = linked
        .iter()
        .filter_map(|requirements| requirements.get(label::INSTANCE_TENANCY));
    asked
        .any(|tenancy| tenancy.has("dedicated"))
        .then(|| NodeSelectorRequirement {
            key: label::INSTANCE_TENANCY.to_owned(),
            operator: Operator::In,
            values: vec!["dedicated".to_owned()],
            min_values: None,
        })
}

/// An instance type that NodePools use this NodeClass for and that one of its images fits. Types without accelerators are preferred: images
/// for accelerators may need larger volumes than the NodeClass has.
fn candidate<'a>(
    input: &LaunchInput<'a>,
    family: Family,
    linked: &[Requirements],
) -> Result<&'a InstanceType, LaunchRefusal> {
    let used = |instance_type: &&InstanceType| {
        !family.is_windows()
            && linked.iter().any(|pool| {
                let mut offerings = instance_type.offerings.iter();
                are_compatible(pool, &instance_type.requirements)
                    && offerings.any(|offering| offering.available && admits(pool, offering))
            })
    };
    let usual = |instance_type: &&InstanceType| {
        DEFAULT_INSTANCE_TYPES.contains(&instance_type.name.as_str())
    };
    let all = |_: &&InstanceType| true;
    let types = input.instance_types;
    best(input, types.iter().filter(used))
        .or_else(|| best(input, types.iter().filter(usual)))
        .or_else(|| best(input, types.iter().filter(all)))
        .ok_or_else(|| LaunchRefusal::InsufficientCapacity {
            message: "no AMI that spec.amiSelectorTerms selects boots any of the instance types that EC2 offers".to_owned(),
        })
}

fn best<'a>(
    input: &LaunchInput<'_>,
    types: impl Iterator<Item = &'a InstanceType>,
) -> Option<&'a InstanceType> {
    let status = input.node_class.status.as_ref();
    let images = status.and_then(|status| status.amis.as_deref());
    let images = images.unwrap_or_default();
    types
        .filter(|instance_type| ami::first_that_fits(images, instance_type).is_some())
        .min_by_key(|instance_type| {
            let offerings = instance_type.offerings.iter();
            let prices = offerings.filter(|offering| offering.available);
            let price = prices.map(|offering| offering.price.0).min();
            (
                is_accelerated(instance_type),
                price.is_none(),
                price,
                &instance_type.name,
            )
        })
}
