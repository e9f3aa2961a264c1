//! NodePools of manifests, resolved through their EC2NodeClasses as functions resolve them.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    DeviceSettings, EC2NodeClass,
    karpenter::{AmiFamily, EC2NodeClassSpec, NodeClassReference},
    manifests::Object,
    meta::ObjectMeta,
    names::group,
};
use aws_rules::{
    ProviderSettings,
    instance_types::{self, Sharing},
    prices,
};
use model::{InstanceType, NanosPerHour, Snapshot, snapshot::Settings, spelling};

use crate::live;

/// Removes NodePools of other providers. Returns warnings for the user.
pub(crate) fn without_other_providers(objects: &mut Vec<Object>) -> Vec<String> {
    let mut notes = Vec::new();
    objects.retain(|object| {
        let Object::NodePool(pool) = object else {
            return true;
        };
        let reference = &pool.spec.template.spec.node_class_ref;
        let is_ours = reference.is_ec2();
        if !is_ours {
            notes.push(format!(
                "NodePool {} is left alone: its nodeClassRef is to {} of group {}{}",
                pool.metadata.name,
                reference.kind,
                reference.group,
                owner_of_class(reference)
            ));
        }
        is_ours
    });
    notes
}

/// Provider of nodes for a nodeClassRef to another kind than EC2NodeClass, or the reference that was probably meant.
fn owner_of_class(reference: &NodeClassReference) -> String {
    const KIND: &str = "EC2NodeClass";
    let whose = match reference.group.as_str() {
        "eks.amazonaws.com" => "EKS Auto Mode",
        "karpenter.azure.com" => "Azure",
        group => {
            let is_group = group == group::KARPENTER_AWS;
            let is_near = |word: &str, known| spelling::nearest(word, [known]).is_some();
            // Providers name their groups and kinds alike, so one of both has to be right.
            let is_misspelt = match is_group {
                true => is_near(&reference.kind, KIND),
                false => reference.kind == KIND && is_near(group, group::KARPENTER_AWS),
            };
            return if is_misspelt {
                format!(" (did you mean {KIND} of group {}?)", group::KARPENTER_AWS)
            } else if is_group {
                format!(", and the only kind of this group is {KIND}")
            } else {
                ", and another provider looks after it".to_owned()
            };
        }
    };
    format!(", and {whose} looks after it")
}

/// The EC2NodeClasses among the manifests, by name.
pub(crate) fn of(objects: &[Object]) -> BTreeMap<String, EC2NodeClass> {
    let classes = objects.iter().filter_map(|object| {
        let Object::EC2NodeClass(class) = object else {
            return None;
        };
        Some((class.metadata.name.clone(), (**class).clone()))
    });
    classes.collect()
}

/// Price of the volumes of each node, in the Region of the instance types.
pub(crate) fn volume_price(types: &[InstanceType], class: &EC2NodeClass) -> NanosPerHour {
    let mut offerings = types
        .iter()
        .flat_map(|instance_type| &instance_type.offerings);
    let zone = offerings.next().map_or("", |offering| &offering.zone);
    let region = zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    prices::volume_price(region, &class.spec)
}

/// Settings that instance types depend on. Where resource claims for devices count, the devices of every driver are known.
pub(crate) fn provider_settings(settings: &Settings) -> ProviderSettings {
    let claims = settings.device_claims;
    ProviderSettings {
        devices: DeviceSettings {
            claims,
            nvidia_gpu: claims,
            efa: claims,
        },
        ..ProviderSettings::default()
    }
}

/// `types` with the devices that an EC2NodeClass shares, where resource claims for devices count.
pub(crate) fn with_devices(
    types: Arc<Vec<InstanceType>>,
    class: &EC2NodeClass,
    settings: &Settings,
) -> Arc<Vec<InstanceType>> {
    if !settings.device_claims {
        return types;
    }
    let sharing = Sharing::of(class).unwrap_or_default();
    let settings = provider_settings(settings);
    Arc::new(instance_types::with_devices(
        types.to_vec(),
        sharing,
        &settings,
    ))
}

/// Gives every NodePool the instance types that its EC2NodeClass allows. A NodePool whose EC2NodeClass is missing gets the types of an
/// EC2NodeClass without settings. Returns warnings for the user.
pub(crate) fn apply(
    snapshot: &mut Snapshot,
    classes: &BTreeMap<String, EC2NodeClass>,
    types: &Arc<Vec<InstanceType>>,
) -> Vec<String> {
    let settings = provider_settings(&snapshot.settings);
    let mut notes = Vec::new();
    let mut known: BTreeMap<String, Result<Arc<Vec<InstanceType>>, String>> = BTreeMap::new();
    let silent = EC2NodeClass {
        metadata: ObjectMeta::default(),
        spec: EC2NodeClassSpec {
            ami_family: Some(AmiFamily::Al2023),
            ..EC2NodeClassSpec::default()
        },
        status: None,
    };
    for pool in &mut snapshot.node_pools {
        let name = pool.template.node_class.name.as_str();
        let given = classes.get(name);
        // Manifests without EC2NodeClasses are not expected to be resolved.
        if given.is_none() && !classes.is_empty() {
            notes.push(format!(
                "NodePool {}: EC2NodeClass {name} is not among the manifests: defaults stand in for it",
                pool.name
            ));
        }
        let class = given.unwrap_or(&silent);
        let through = known.entry(name.to_owned()).or_insert_with(|| {
            // A manifest has no status yet.
            let is_resolved = class
                .status
                .as_ref()
                .is_some_and(|status| status.conditions.is_some());
            if is_resolved {
                turns::readiness(class)?;
            }
            let types = instance_types::of_node_class(types, class, &settings)
                .map_err(|error| format!("EC2NodeClass {name}: {error}"))?;
            let has_subnets = class
                .status
                .as_ref()
                .and_then(|status| status.subnets.as_ref())
                .is_some_and(|subnets| !subnets.is_empty());
            let types = Arc::new(match has_subnets {
                true => live::offered(&types, class),
                false => types,
            });
            let (settings, overlays) = (&snapshot.settings, &snapshot.node_overlays);
            Ok(planner::priced_previews(settings, overlays, types))
        });
        match through {
            Ok(types) => {
                pool.volume_price = volume_price(types, class);
                pool.refused_resources = class.spec.refused_resources();
                pool.images = class.boot_images();
                snapshot
                    .instance_types
                    .insert(pool.name.clone(), Arc::clone(types));
            }
            Err(reason) => {
                pool.not_ready.get_or_insert_with(|| reason.clone());
            }
        }
    }
    for (name, class) in classes {
        let Some(kubelet) = &class.spec.kubelet else {
            continue;
        };
        for problem in kubelet.settings().err().into_iter().flatten() {
            notes.push(format!("EC2NodeClass {name}: {problem}"));
        }
    }
    notes
}
