//! Requirements of volumes: nodes that can reach them, and free attachments (docs/spec/scheduling.md#volumes).

use std::collections::BTreeMap;

use model::{
    labels,
    pod::{Pod, PodVolume},
    requirement::{Requirement, Requirements},
    selector::Operator,
    volume::{Storage, StorageClass, Volume, VolumeClaim},
};

/// Upper bound on combinations of alternatives. No real pod has that many multi-zone volumes, and each combination costs a
/// placement check.
const COMBINATIONS_MAX: usize = 256;

/// Persistent volume claims, volumes and storage classes by name.
pub struct Volumes<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a VolumeClaim>,
    volumes: BTreeMap<&'a str, &'a Volume>,
    classes: BTreeMap<&'a str, &'a StorageClass>,
}

/// Attached volume: the CSI driver, and the claim that several pods may share.
pub(crate) type Attachment<'a> = (&'a str, (&'a str, String));

impl<'a> Volumes<'a> {
    pub fn new(storage: &'a Storage) -> Self {
        Self {
            claims: storage
                .claims
                .iter()
                .map(|c| ((c.namespace.as_str(), c.name.as_str()), c))
                .collect(),
            volumes: storage
                .volumes
                .iter()
                .map(|v| (v.name.as_str(), v))
                .collect(),
            classes: storage
                .classes
                .iter()
                .map(|c| (c.name.as_str(), c))
                .collect(),
        }
    }

    fn claims_of(&self, pod: &'a Pod) -> Result<Vec<&'a VolumeClaim>, String> {
        let named = pod.volumes.iter().map(|volume| match volume {
            PodVolume::Claim { claim } => claim.clone(),
            PodVolume::Ephemeral { volume, .. } => format!("{}-{volume}", pod.key.name),
        });
        named
            .map(|name| {
                let key = (pod.key.namespace.as_str(), name.as_str());
                self.claims.get(&key).copied().ok_or(name)
            })
            .collect()
    }

    /// Alternative requirements of a pod's volumes, of which one must hold; empty if the volumes have no requirements. The
    /// error names a claim, volume or class that does not exist.
    pub fn alternatives(&self, pod: &'a Pod) -> Result<Vec<Requirements>, String> {
        let claims = self.by_claim(pod)?;
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let agreeing = combinations(&claims, agree);
        // If no combination agrees, a conflicting one makes the placement fail with the volumes as its reason.
        Ok(match agreeing.is_empty() {
            true => combinations(&claims, |_, _| true),
            false => agreeing,
        })
    }

    /// Per claim, the requirements of its volume, if no node reaches all of the pod's volumes.
    pub(crate) fn apart(&self, pod: &'a Pod) -> Option<Vec<(String, Requirements)>> {
        let claims = self.by_claim(pod).ok()?;
        let is_apart = combinations(&claims, agree).is_empty();
        let first = claims
            .into_iter()
            .filter_map(|(claim, own)| Some((claim.name.clone(), own.into_iter().next()?)));
        is_apart.then(|| first.collect())
    }

    /// Alternatives of each claim that has any.
    fn by_claim(&self, pod: &'a Pod) -> Result<Vec<(&'a VolumeClaim, Vec<Requirements>)>, String> {
        let mut found = Vec::new();
        for claim in self.claims_of(pod)? {
            let own = self.alternatives_of(claim)?;
            if !own.is_empty() {
                found.push((claim, own));
            }
        }
        Ok(found)
    }

    fn alternatives_of(&self, claim: &'a VolumeClaim) -> Result<Vec<Requirements>, String> {
        if let Some(name) = &claim.volume {
            let volume = self
                .volumes
                .get(name.as_str())
                .ok_or_else(|| name.clone())?;
            let terms = volume.node_affinity.iter();
            return Ok(terms
                .filter(|term| !term.match_expressions.is_empty())
                .map(|term| {
                    let kept = term.match_expressions.iter();
                    let kept = kept.filter(|e| !(volume.local && e.key == labels::HOSTNAME));
                    Requirements::from_selector(kept)
                })
                .collect());
        }
        let Some(class) = claim
            .storage_class
            .as_deref()
            .filter(|name| !name.is_empty())
        else {
            return Ok(Vec::new());
        };
        let class = self.classes.get(class).ok_or_else(|| class.to_owned())?;
        let terms = class
            .allowed_topologies
            .iter()
            .filter(|term| !term.is_empty());
        Ok(terms
            .map(|term| {
                let mut requirements = Requirements::default();
                for (key, values) in term {
                    let values = values.iter().cloned();
                    requirements.add(Requirement::new(key, Operator::In, values));
                }
                requirements
            })
            .collect())
    }

    /// Attachments of a pod. Volumes without a CSI driver take none.
    pub(crate) fn attachments(&self, pod: &'a Pod) -> Vec<Attachment<'a>> {
        let claims = pod.volumes.iter().filter_map(|volume| {
            let name = match volume {
                PodVolume::Claim { claim } => claim.clone(),
                PodVolume::Ephemeral { volume, .. } => format!("{}-{volume}", pod.key.name),
            };
            let key = (pod.key.namespace.as_str(), name.as_str());
            self.claims.get(&key).copied()
        });
        let mut attachments: Vec<Attachment<'a>> = claims
            .filter_map(|claim| {
                let driver = self.driver(claim)?;
                Some((driver, (claim.namespace.as_str(), claim.name.clone())))
            })
            .collect();
        attachments.sort_unstable();
        attachments.dedup();
        attachments
    }

    fn driver(&self, claim: &'a VolumeClaim) -> Option<&'a str> {
        if let Some(name) = &claim.volume {
            let volume = self.volumes.get(name.as_str())?;
            return match (&volume.driver, volume.in_tree.as_deref()) {
                (Some(driver), _) => Some(driver),
                (None, Some(plugin)) if is_ebs(plugin) => Some(EBS),
                (None, _) => None,
            };
        }
        let class = self.classes.get(claim.storage_class.as_deref()?)?;
        Some(csi_name(&class.provisioner))
    }
}

pub(crate) const EBS: &str = "ebs.csi.aws.com";

fn is_ebs(plugin: &str) -> bool {
    matches!(plugin, "kubernetes.io/aws-ebs" | "awsElasticBlockStore")
}

/// CSI driver that replaced an in-tree provisioner, under which its volumes count.
fn csi_name(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => EBS,
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        other => other,
    }
}

/// Combinations of one alternative per claim, each of which must be compatible with the previous ones.
fn combinations(
    claims: &[(&VolumeClaim, Vec<Requirements>)],
    may_join: fn(&Requirements, &Requirements) -> bool,
) -> Vec<Requirements> {
    let none = vec![Requirements::default()];
    claims.iter().fold(none, |known, (_, own)| {
        let pairs = known.iter().flat_map(|a| own.iter().map(move |b| (a, b)));
        let kept = pairs.filter(|(a, b)| may_join(a, b));
        let merged = kept.map(|(a, b)| merge(a, b));
        merged.take(COMBINATIONS_MAX).collect()
    })
}

fn agree(a: &Requirements, b: &Requirements) -> bool {
    a.0.values().all(|requirement| {
        b.get(&requirement.key)
            .is_none_or(|other| requirement.intersects(other))
    })
}

fn merge(a: &Requirements, b: &Requirements) -> Requirements {
    let mut both = a.clone();
    for requirement in b.0.values() {
        both.add(requirement.clone());
    }
    both
}

#[cfg(test)]
mod tests;
