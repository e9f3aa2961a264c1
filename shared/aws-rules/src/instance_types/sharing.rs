//! How claims share GPUs of NVIDIA: an annotation of EC2NodeClasses (docs/spec/v1.15.md#gpu-sharing).

use std::str::FromStr;

use api::{karpenter::EC2NodeClass, names::annotation::NVIDIA_CONSUMABLE_CAPACITY};
use thiserror::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One claim has a GPU.
    #[default]
    None,
    /// Claims have its memory, all of it unless they say how much.
    Memory,
    /// Any number of claims.
    Unlimited,
    /// A GPU has this many shares, of which a claim takes one unless it says more.
    Shares(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "annotation {NVIDIA_CONSUMABLE_CAPACITY} is \"{0}\": expected disabled, memory, unlimited or a number from 1"
)]
pub struct SharingError(String);

impl Sharing {
    /// The one that a NodeClass asks for.
    ///
    /// # Errors
    ///
    /// The annotation has a value that is none.
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
