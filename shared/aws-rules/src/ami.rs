//! The images that a NodeClass selects, and the one that an instance type boots (docs/spec/aws.md#amis).

mod alias;
mod query;

use std::collections::BTreeMap;

use api::{
    karpenter::{Ami, AmiRequirement},
    names::label,
};
use jiff::Timestamp;
use model::{InstanceType, node_pool::BootImage};

pub use alias::{AliasParameter, UnsupportedAlias, Variant, parameters};
pub use query::{ImageQuery, queries};

use crate::compatibility::are_compatible;

/// An image as DescribeImages shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub id: String,
    pub name: String,
    /// `x86_64` or `arm64`; no instance type boots any other.
    pub architecture: String,
    pub created: Option<Timestamp>,
    pub deprecated: Option<Timestamp>,
}

/// The image id in the value of an SSM parameter; `None` if the value is something else, such as a list of images.
pub fn image_id(value: &str) -> Option<&str> {
    let is_digit = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
    let digits = value.trim().strip_prefix("ami-")?;
    let is_id = (1..=DIGITS_MAX).contains(&digits.len()) && digits.chars().all(is_digit);
    is_id.then_some(value.trim())
}

/// Upper bound on the hexadecimal digits of an image id. EC2's ids have 8 or 17; emulators generate others.
const DIGITS_MAX: usize = 32;

/// The images to use, newest first. Of several for the same instance types only the newest that its publisher has not deprecated is kept.
/// `variants` maps an image of an alias to its instance types.
pub fn select(
    images: &[Image],
    variants: &BTreeMap<String, Vec<Variant>>,
    now: Timestamp,
) -> Vec<Ami> {
    let rank = |image: &Image| {
        (
            !is_deprecated(image, now),
            image.created,
            image.name.clone(),
        )
    };
    let mut best: BTreeMap<Vec<AmiRequirementKey>, &Image> = BTreeMap::new();
    for image in images {
        let Some(architecture) = architecture(image) else {
            continue;
        };
        let known = variants.get(&image.id).map(Vec::as_slice);
        for variant in known.unwrap_or(&[Variant::Any]) {
            let requirements = variant.requirements(architecture);
            let chosen = best.entry(requirements).or_insert(image);
            if rank(image) > rank(chosen) {
                *chosen = image;
            }
        }
    }
    let mut selected: Vec<_> = best.into_iter().collect();
    selected.sort_by(|(for_a, a), (for_b, b)| {
        b.created
            .cmp(&a.created)
            .then_with(|| (&a.id, for_a).cmp(&(&b.id, for_b)))
    });
    let ami = |(requirements, image): (Vec<AmiRequirementKey>, &Image)| Ami {
        id: image.id.clone(),
        deprecated: is_deprecated(image, now).then_some(true),
        name: Some(image.name.clone()),
        requirements: requirements
            .into_iter()
            .map(|(key, operator, values)| AmiRequirement {
                key,
                operator: operator.to_owned(),
                values,
            })
            .collect(),
    };
    selected.into_iter().map(ami).collect()
}

/// Key, operator and values of an [`AmiRequirement`], as a tuple that can be ordered.
type AmiRequirementKey = (String, &'static str, Vec<String>);

fn is_deprecated(image: &Image, now: Timestamp) -> bool {
    image.deprecated.is_some_and(|deprecated| deprecated <= now)
}

fn architecture(image: &Image) -> Option<&'static str> {
    match image.architecture.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

impl Variant {
    /// Requirements of the variant, shorter keys first, as upstream writes them.
    fn requirements(self, architecture: &str) -> Vec<AmiRequirementKey> {
        let entry = |key: &str, operator, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            (key.to_owned(), operator, values)
        };
        let mut requirements = vec![entry(label::ARCH, "In", &[architecture])];
        match self {
            Self::Any => {}
            Self::Standard => requirements.extend([
                entry(label::INSTANCE_GPU_COUNT, "DoesNotExist", &[]),
                entry(label::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", &[]),
            ]),
            Self::Nvidia => requirements.push(entry(label::INSTANCE_GPU_COUNT, "Exists", &[])),
            Self::Neuron => {
                requirements.push(entry(label::INSTANCE_ACCELERATOR_COUNT, "Exists", &[]));
            }
            Self::Windows(build) => requirements.extend([
                entry(label::OS, "In", &["windows"]),
                entry(label::WINDOWS_BUILD, "In", &[build]),
            ]),
        }
        requirements.sort_by(|(a, ..), (b, ..)| (a.len(), a).cmp(&(b.len(), b)));
        requirements
    }
}

/// The first image, in the order of the status, that runs on this instance type.
pub fn first_that_fits<'a>(images: &'a [Ami], instance_type: &InstanceType) -> Option<&'a Ami> {
    images.iter().find(|image| {
        are_compatible(
            &instance_type.requirements,
            &BootImage::from(*image).requirements,
        )
    })
}
