//! AMI families: the differences between kinds of image (docs/spec/aws.md#user-data, docs/spec/aws.md#overhead).

use api::karpenter::{AmiFamily, EC2NodeClassSpec};
use model::launch::BlockDevice;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Al2,
    Al2023,
    Bottlerocket,
    Windows2019,
    Windows2022,
    Windows2025,
    Custom,
}

/// An image that AWS publishes for EKS: `family@version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias<'a> {
    pub family: Family,
    /// `latest`, or as AWS writes it, such as `v20240807` or `1.50.0`.
    pub version: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FamilyError {
    #[error(
        "spec.amiSelectorTerms alias \"{0}\" is not an image: expected family@version, such as al2023@latest or bottlerocket@v1.50.0"
    )]
    Alias(String),
    #[error("spec.amiFamily \"{0}\" is not known: expected one of {allowed}", allowed = AmiFamily::ALLOWED.join(", "))]
    Unknown(String),
    #[error(
        "spec.amiFamily is not set, and no alias in spec.amiSelectorTerms names the family of the images"
    )]
    Missing,
}

impl Family {
    /// The family of a NodeClass: the one it names, else the one of its alias.
    pub fn of(spec: &EC2NodeClassSpec) -> Result<Self, FamilyError> {
        match &spec.ami_family {
            Some(AmiFamily::Al2) => Ok(Self::Al2),
            Some(AmiFamily::Al2023) => Ok(Self::Al2023),
            Some(AmiFamily::Bottlerocket) => Ok(Self::Bottlerocket),
            Some(AmiFamily::Windows2019) => Ok(Self::Windows2019),
            Some(AmiFamily::Windows2022) => Ok(Self::Windows2022),
            Some(AmiFamily::Windows2025) => Ok(Self::Windows2025),
            Some(AmiFamily::Custom) => Ok(Self::Custom),
            Some(AmiFamily::Other(name)) => Err(FamilyError::Unknown(name.clone())),
            None => Ok(Alias::of(spec)?.ok_or(FamilyError::Missing)?.family),
        }
    }

    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// The value of `node.kubernetes.io/windows-build`.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            Self::Al2 | Self::Al2023 | Self::Bottlerocket | Self::Custom => None,
        }
    }

    /// Whether the VPC CNI gives every pod an address of an interface, which bounds the number of pods.
    pub(crate) fn limits_pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    pub(crate) fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Whether memory is reserved for as many pods as the interfaces could serve, even if fewer may run.
    pub(crate) fn reserves_memory_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// The device on which the kubelet and containers keep their files.
    pub(crate) fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// The volumes of an instance whose NodeClass names none; empty leaves the choice to the image.
    pub fn default_block_devices(self) -> Vec<BlockDevice> {
        let volume = |device: &str, gib| BlockDevice {
            device_name: device.to_owned(),
            volume_gib: Some(gib),
            volume_type: Some("gp3".to_owned()),
            encrypted: Some(true),
            ..BlockDevice::default()
        };
        match self {
            Self::Al2 | Self::Al2023 => vec![volume("/dev/xvda", 20)],
            Self::Bottlerocket => vec![volume("/dev/xvda", 4), volume("/dev/xvdb", 20)],
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => {
                vec![volume("/dev/sda1", 50)]
            }
            Self::Custom => Vec::new(),
        }
    }
}

impl<'a> Alias<'a> {
    /// The alias of a NodeClass, if it selects its images by one.
    pub fn of(spec: &'a EC2NodeClassSpec) -> Result<Option<Self>, FamilyError> {
        let mut aliases = spec
            .ami_selector_terms
            .iter()
            .filter_map(|term| term.alias.as_deref());
        aliases.next().map(Self::parse).transpose()
    }

    /// Stricter than the CRD's rule, which lets spaces and a second `@` pass (docs/spec/aws.md#alias-syntax): the version becomes
    /// part of a parameter's name.
    pub fn parse(text: &'a str) -> Result<Self, FamilyError> {
        let wrong = || FamilyError::Alias(text.to_owned());
        let (family, version) = text.split_once('@').ok_or_else(wrong)?;
        let family = match family {
            "al2" => Family::Al2,
            "al2023" => Family::Al2023,
            "bottlerocket" => Family::Bottlerocket,
            "windows2019" => Family::Windows2019,
            "windows2022" => Family::Windows2022,
            "windows2025" => Family::Windows2025,
            _ => return Err(wrong()),
        };
        let is_version_character =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let only_latest = family.is_windows() && version != Self::LATEST;
        if version.is_empty() || !version.chars().all(is_version_character) || only_latest {
            return Err(wrong());
        }
        Ok(Self { family, version })
    }

    pub const LATEST: &'static str = "latest";

    pub fn is_latest(&self) -> bool {
        self.version == Self::LATEST
    }
}

#[cfg(test)]
mod tests {
    use api::karpenter::AmiSelectorTerm;

    use super::*;

    fn spec(alias: Option<&str>, family: Option<AmiFamily>) -> EC2NodeClassSpec {
        EC2NodeClassSpec {
            ami_selector_terms: vec![AmiSelectorTerm {
                alias: alias.map(str::to_owned),
                ..AmiSelectorTerm::default()
            }],
            ami_family: family,
            ..EC2NodeClassSpec::default()
        }
    }

    #[test]
    fn family_follows_from_the_alias_unless_specified() {
        assert_eq!(
            Family::of(&spec(Some("bottlerocket@latest"), None)),
            Ok(Family::Bottlerocket)
        );
        assert_eq!(
            Family::of(&spec(Some("al2023@latest"), Some(AmiFamily::Custom))),
            Ok(Family::Custom)
        );
        assert_eq!(Family::of(&spec(None, None)), Err(FamilyError::Missing));
    }

    #[test]
    fn invalid_alias_is_refused_by_name() {
        for text in [
            "al2023",
            "al2023@",
            "al2023@lat est",
            "al2@latest@x",
            "ubuntu@latest",
            "windows2022@v1",
        ] {
            let error = Alias::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\"")), "{error}");
        }
        assert_eq!(
            Alias::parse("al2023@v20240807"),
            Ok(Alias {
                family: Family::Al2023,
                version: "v20240807"
            })
        );
    }
}
