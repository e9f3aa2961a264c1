//! Sharing of NVIDIA GPUs between resource claims: an annotation of EC2NodeClasses (docs/spec/v1.15.md#gpu-sharing).

use std::str::FromStr;

use api::{karpenter::EC2NodeClass, names::annotation::NVIDIA_CONSUMABLE_CAPACITY};
use thiserror::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// No sharing: a GPU serves one claim.
    #[default]
    None,
    /// Claims share the GPU's memory. A claim that does not specify an amount takes all of it.
    Memory,
    /// Any number of claims use the GPU.
    Unlimited,
    /// A GPU has this many shares. A claim that does not specify a number takes one.
    Shares(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "annotation {NVIDIA_CONSUMABLE_CAPACITY} is \"{0}\": expected disabled, memory, unlimited or a number from 1"
)]
pub struct SharingError(String);

impl Sharing {
    /// The sharing mode that a NodeClass asks for.
    ///
    /// # Errors
    ///
    /// The annotation has an invalid value.
    pub fn of(class: &EC2NodeClass) -> Result<Self, SharingError> {
        let value = class.metadata.annotations.get(NVIDIA_CONSUMABLE_CAPACITY);
        value.map_or(Ok(Self::None), |value| value.parse())
    }
}

impl FromStr for Sharing {
    type Err = SharingError;

    fn from_str(value: &str) -> Result<Self, SharingError> {
        match value {
            "" | "disabled" => Ok(Self::None),
            "memory" => Ok(Self::Memory),
            "unlimited" => Ok(Self::Unlimited),
            number => {
                let shares = number.parse().ok().filter(|shares| *shares > 0);
                let shares = shares.filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()));
                shares
                    .map(Self::Shares)
                    .ok_or_else(|| SharingError(number.to_owned()))
            }
        }
    }
}
