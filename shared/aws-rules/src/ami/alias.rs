//! The SSM parameters in which AWS publishes the images of an alias.

use thiserror::Error;

use crate::{
    cluster::KubernetesVersion,
    families::{Alias, Family},
};

/// The class of instance types of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    Any,
    /// Instance types without accelerators.
    Standard,
    Nvidia,
    Neuron,
    /// Windows, with its build number.
    Windows(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasParameter {
    pub name: String,
    /// The variants of the parameter's image.
    pub variants: Vec<Variant>,
}

/// AWS publishes no images of the alias for this Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnsupportedAlias {
    #[error(
        "AWS publishes no AL2 images for EKS 1.33 and newer, and the cluster runs {0}: use another alias"
    )]
    Al2(KubernetesVersion),
    #[error(
        "AWS publishes no Windows 2025 images for EKS before 1.35, and the cluster runs {0}: use another alias"
    )]
    Windows2025(KubernetesVersion),
}

/// The parameters of an alias, one for each variant of the family.
pub fn parameters(
    alias: &Alias<'_>,
    cluster: KubernetesVersion,
) -> Result<Vec<AliasParameter>, UnsupportedAlias> {
    match alias.family {
        Family::Al2 if cluster.minor >= 33 => Err(UnsupportedAlias::Al2(cluster)),
        Family::Al2 => Ok(al2(alias, cluster)),
        Family::Al2023 => Ok(al2023(alias, cluster)),
        Family::Bottlerocket => Ok(bottlerocket(alias, cluster)),
        Family::Windows2025 if cluster.minor < 35 => Err(UnsupportedAlias::Windows2025(cluster)),
        Family::Windows2019 => Ok(windows("2019", alias.family, cluster)),
        Family::Windows2022 => Ok(windows("2022", alias.family, cluster)),
        Family::Windows2025 => Ok(windows("2025", alias.family, cluster)),
        Family::Custom => Ok(Vec::new()),
    }
}

fn al2(alias: &Alias<'_>, cluster: KubernetesVersion) -> Vec<AliasParameter> {
    let kinds: [(&str, &str, &[Variant]); 3] = [
        ("", "", &[Variant::Standard]),
        ("-arm64", "-arm64", &[Variant::Standard]),
        ("-gpu", "-gpu", &[Variant::Neuron, Variant::Nvidia]),
    ];
    let parameter = |(folder, infix, variants): (&str, &str, &[Variant])| {
        let image = match alias.is_latest() {
            true => "recommended".to_owned(),
            false => format!("amazon-eks{infix}-node-{cluster}-{}", alias.version),
        };
        AliasParameter {
            name: format!(
                "/aws/service/eks/optimized-ami/{cluster}/amazon-linux-2{folder}/{image}/image_id"
            ),
            variants: variants.to_vec(),
        }
    };
    kinds.into_iter().map(parameter).collect()
}

fn al2023(alias: &Alias<'_>, cluster: KubernetesVersion) -> Vec<AliasParameter> {
    let kinds = [
        ("x86_64", "standard", Variant::Standard),
        ("x86_64", "nvidia", Variant::Nvidia),
        ("x86_64", "neuron", Variant::Neuron),
        ("arm64", "standard", Variant::Standard),
        ("arm64", "nvidia", Variant::Nvidia),
    ];
    let parameter = |(arch, kind, variant)| {
        let image = match alias.is_latest() {
            true => "recommended".to_owned(),
            false => format!(
                "amazon-eks-node-al2023-{arch}-{kind}-{cluster}-{}",
                alias.version
            ),
        };
        AliasParameter {
            name: format!(
                "/aws/service/eks/optimized-ami/{cluster}/amazon-linux-2023/{arch}/{kind}/{image}/image_id"
            ),
            variants: vec![variant],
        }
    };
    kinds.into_iter().map(parameter).collect()
}

fn bottlerocket(alias: &Alias<'_>, cluster: KubernetesVersion) -> Vec<AliasParameter> {
    let kinds: [(&str, &str, &[Variant]); 4] = [
        ("", "x86_64", &[Variant::Standard, Variant::Neuron]),
        ("", "arm64", &[Variant::Standard]),
        ("-nvidia", "x86_64", &[Variant::Nvidia]),
        ("-nvidia", "arm64", &[Variant::Nvidia]),
    ];
    let version = alias.version.strip_prefix('v').unwrap_or(alias.version);
    let parameter = |(suffix, arch, variants): (&str, &str, &[Variant])| AliasParameter {
        name: format!(
            "/aws/service/bottlerocket/aws-k8s-{cluster}{suffix}/{arch}/{version}/image_id"
        ),
        variants: variants.to_vec(),
    };
    kinds.into_iter().map(parameter).collect()
}

fn windows(year: &str, family: Family, cluster: KubernetesVersion) -> Vec<AliasParameter> {
    vec![AliasParameter {
        name: format!(
            "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{cluster}/image_id"
        ),
        variants: family
            .windows_build()
            .map(Variant::Windows)
            .into_iter()
            .collect(),
    }]
}
