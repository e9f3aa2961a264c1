//! Converts the short form of a cluster to a snapshot by way of Kubernetes manifests.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    DeviceSettings,
    convert::{StorageObjects, capacity_buffer},
    kubernetes,
    manifests::{Manifests, Object},
    names::{finalizer, group, label},
};
use aws_rules::{
    ProviderSettings,
    instance_types::{Sharing, with_devices},
};
use jiff::Timestamp;
use model::{InstanceType, Snapshot, requirement::Requirements, snapshot::Settings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    catalog,
    given::{Given, Node, NodePool},
    in_flight, shorthand,
};

const NOW: &str = "2026-01-01T12:00:00Z";
const LONG_AGO: &str = "2026-01-01T10:00:00Z";

pub(crate) fn snapshot(given: &Given) -> Result<Snapshot, String> {
    let provider = ProviderSettings {
        devices: device_settings(given)?,
        ..ProviderSettings::default()
    };
    let types = catalog::read(&given.catalog, &given.unavailable)?;
    let sharing: Result<Sharing, _> = given.settings.sharing.parse();
    let sharing = sharing.map_err(|error| error.to_string())?;
    let types = Arc::new(with_devices(types, sharing, &provider));
    let mut snapshot = empty(given)?;
    for pool in &given.node_pools {
        let mut read: model::node_pool::NodePool = read::<api::NodePool>(node_pool(pool))?.into();
        read.not_ready = read.not_ready.or_else(|| pool.not_ready.clone());
        snapshot.node_pools.push(read);
    }
    for node in &given.nodes {
        add_node(&mut snapshot, node, &types)?;
    }
    for daemon_set in &given.daemon_sets {
        let manifest = json!({
            "metadata": { "name": daemon_set.name, "namespace": "default" },
            "spec": { "selector": {}, "template": daemon_set.template() },
        });
        snapshot
            .daemon_sets
            .push(read::<kubernetes::DaemonSet>(manifest)?.into());
    }
    for manifest in given.pods.iter().flat_map(|pod| pod.manifests()) {
        snapshot
            .pods
            .push(read::<kubernetes::Pod>(manifest)?.into());
    }
    let mut storage = storage(given)?;
    add_manifests(&mut snapshot, &mut storage, &given.manifests)?;
    snapshot.storage = storage.into();
    for node in &given.nodes {
        if !node.attach_limits.is_empty() {
            snapshot
                .storage
                .attach_limits
                .insert(node.name.as_str().into(), node.attach_limits.clone());
        }
    }
    for pool in &snapshot.node_pools {
        snapshot
            .instance_types
            .insert(pool.name.clone(), Arc::clone(&types));
    }
    for launch in &given.in_flight {
        let intent = in_flight::intent(&snapshot, launch, &types)?;
        snapshot.intents.push(intent);
    }
    Ok(snapshot)
}

fn read<T: DeserializeOwned>(manifest: Value) -> Result<T, String> {
    let text = manifest.to_string();
    serde_json::from_value(manifest).map_err(|error| format!("{error} in {text}"))
}

fn empty(given: &Given) -> Result<Snapshot, String> {
    let now: Timestamp = NOW
        .parse()
        .map_err(|error: jiff::Error| error.to_string())?;
    let settings = &given.settings;
    let well_known = [label::WELL_KNOWN_AWS, label::WELL_KNOWN_IN_AWS_DOMAIN].concat();
    let settings = Settings {
        preference_policy: settings.preference_policy,
        min_values_policy: settings.min_values_policy,
        reserved_offering_mode: settings.reserved_offering_mode,
        optimize: settings.optimize,
        feature_gates: settings.feature_gates.clone(),
        well_known_labels: well_known.into_iter().map(str::to_owned).collect(),
        restricted_domains: vec![group::KARPENTER_AWS.to_owned()],
        reservation_id_label: label::CAPACITY_RESERVATION_ID.to_owned(),
        preference_worth: Settings::preference_worth(),
        node_price: model::NanosPerHour(0),
        default_topology_spread: Vec::new(),
        registration_timeout: None,
        legacy_node_repair: false,
        device_claims: device_settings(given)?.claims,
    };
    Ok(Snapshot {
        generation: 1,
        ..Snapshot::empty("scenario".into(), now, settings)
    })
}

fn device_settings(given: &Given) -> Result<DeviceSettings, String> {
    DeviceSettings::read(&given.settings.devices).map_err(|error| error.to_string())
}

fn node_class() -> Value {
    json!({ "group": group::KARPENTER_AWS, "kind": "EC2NodeClass", "name": "default" })
}

fn node_pool(pool: &NodePool) -> Value {
    let taints = |texts: &[String]| {
        texts
            .iter()
            .map(|text| shorthand::taint(text))
            .collect::<Vec<_>>()
    };
    let requirements: Vec<Value> = pool
        .requirements
        .iter()
        .map(|text| shorthand::requirement(text))
        .collect();
    let mut metadata =
        json!({ "name": pool.name, "uid": format!("{}-uid", pool.name), "generation": 1 });
    if !pool.annotations.is_empty() {
        metadata["annotations"] = json!(pool.annotations);
    }
    if pool.deleting {
        metadata["deletionTimestamp"] = NOW.into();
    }
    json!({
        "metadata": metadata,
        "spec": {
            "weight": pool.weight,
            "replicas": pool.replicas,
            "limits": pool.limits,
            "template": {
                "metadata": { "labels": pool.labels },
                "spec": {
                    "requirements": requirements,
                    "taints": taints(&pool.taints),
                    "startupTaints": taints(&pool.startup_taints),
                    "nodeClassRef": node_class(),
                },
            },
        },
    })
}

fn add_node(snapshot: &mut Snapshot, node: &Node, types: &[InstanceType]) -> Result<(), String> {
    let of_type = find(types, &node.r#type)?;
    let provider_id = format!("aws:///{}/i-{}", node.zone, node.name);
    let mut labels: BTreeMap<String, String> = Requirements::to_selector(&of_type.requirements)
        .into_iter()
        .filter_map(|requirement| match requirement.values.as_slice() {
            [value] => Some((requirement.key.clone(), value.clone())),
            _ => None,
        })
        .collect();
    let node_labels = [
        (shorthand::key("zone"), &node.zone),
        (shorthand::key("capacity-type"), &node.capacity_type),
        (shorthand::key("nodepool"), &node.node_pool),
    ];
    labels.extend(node_labels.map(|(key, value)| (key, value.clone())));
    labels.insert(label::EC2_NODE_CLASS.to_owned(), "default".to_owned());
    labels.extend(node.labels.clone());
    let amounts = |amounts: &model::Resources| -> BTreeMap<String, String> {
        let amounts = amounts.iter();
        amounts
            .map(|(name, amount)| (name.to_owned(), model::resources::amount_text(name, amount)))
            .collect()
    };
    let (capacity, allocatable) = (amounts(&of_type.capacity), amounts(&of_type.allocatable()));
    let condition = |condition_type: &str| json!({ "type": condition_type, "status": "True", "reason": condition_type, "message": "", "lastTransitionTime": LONG_AGO });
    let conditions: Vec<Value> = if node.launched {
        vec![condition("Launched")]
    } else {
        ["Launched", "Registered", "Initialized"]
            .map(condition)
            .into()
    };
    let mut claim = json!({
        "metadata": {
            "name": format!("{}-claim", node.name), "uid": format!("{}-claim-uid", node.name), "resourceVersion": "1",
            "creationTimestamp": LONG_AGO, "labels": labels, "finalizers": [finalizer::TERMINATION],
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": node_class(),
            "taints": node.taints.iter().map(|text| shorthand::taint(text)).collect::<Vec<_>>(),
        },
        "status": {
            "providerID": provider_id, "capacity": capacity, "allocatable": allocatable, "conditions": conditions,
        },
    });
    if node.deleting {
        claim["metadata"]["deletionTimestamp"] = NOW.into();
    }
    snapshot
        .node_claims
        .push(read::<api::NodeClaim>(claim)?.into());
    if node.launched {
        return Ok(());
    }
    labels.insert(shorthand::key("hostname"), node.name.clone());
    for key in [label::REGISTERED, label::INITIALIZED] {
        labels.insert(key.to_owned(), "true".to_owned());
    }
    let manifest = json!({
        "metadata": { "name": node.name, "uid": format!("{}-uid", node.name), "creationTimestamp": LONG_AGO, "labels": labels },
        "spec": { "providerID": provider_id, "taints": node.taints.iter().map(|text| shorthand::taint(text)).collect::<Vec<_>>() },
        "status": { "capacity": capacity, "allocatable": allocatable, "conditions": [condition("Ready")] },
    });
    snapshot
        .nodes
        .push(read::<kubernetes::Node>(manifest)?.into());
    Ok(())
}

pub(crate) fn find<'t>(types: &'t [InstanceType], name: &str) -> Result<&'t InstanceType, String> {
    types
        .iter()
        .find(|instance_type| instance_type.name == name)
        .ok_or_else(|| format!("the catalog has no instance type {name}"))
}

fn storage(given: &Given) -> Result<StorageObjects, String> {
    let mut storage = StorageObjects::default();
    for (claim, zone) in &given.volumes {
        let volume = format!("pv-{claim}");
        storage.claims.push(read(json!({
            "metadata": { "name": claim, "namespace": "default", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": { "volumeName": volume, "storageClassName": "gp3" },
            "status": { "phase": "Bound" },
        }))?);
        let term = json!({ "matchExpressions": [{ "key": shorthand::key("zone"), "operator": "In", "values": [zone] }] });
        storage.volumes.push(read(json!({
            "metadata": { "name": volume },
            "spec": { "csi": { "driver": "ebs.csi.aws.com" }, "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } },
        }))?);
    }
    Ok(storage)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds are rejected"
)]
fn add_manifests(
    snapshot: &mut Snapshot,
    storage: &mut StorageObjects,
    text: &str,
) -> Result<(), String> {
    let mut manifests = Manifests::default();
    manifests.read("manifests", text);
    if let Some(error) = manifests.errors.first() {
        return Err(error.to_string());
    }
    let (mut buffers, mut templates) = (Vec::new(), Vec::new());
    for manifest in manifests.objects {
        match manifest.object {
            Object::NodePool(pool) => snapshot.node_pools.push((*pool).into()),
            Object::NodeClaim(claim) => snapshot.node_claims.push((*claim).into()),
            Object::NodeOverlay(overlay) => snapshot.node_overlays.push((*overlay).into()),
            Object::Pod(pod) => snapshot.pods.push((*pod).into()),
            Object::Node(node) => snapshot.nodes.push((*node).into()),
            Object::Namespace(namespace) => snapshot.namespaces.push((*namespace).into()),
            Object::DaemonSet(set) => snapshot.daemon_sets.push((*set).into()),
            Object::CapacityBuffer(buffer) => buffers.push(*buffer),
            Object::PodTemplate(template) => templates.push(*template),
            Object::PersistentVolume(volume) => storage.volumes.push(*volume),
            Object::PersistentVolumeClaim(claim) => storage.claims.push(*claim),
            Object::StorageClass(class) => storage.classes.push(*class),
            Object::PodDisruptionBudget(budget) => {
                snapshot.disruption_budgets.push((*budget).into())
            }
            Object::DeviceClass(class) => snapshot.devices.classes.push((*class).into()),
            Object::ResourceClaim(claim) => snapshot.devices.claims.push((*claim).into()),
            Object::ResourceClaimTemplate(template) => {
                snapshot.devices.templates.push((*template).into());
            }
            Object::ResourceSlice(slice) => snapshot.devices.slices.push((*slice).into()),
            other => return Err(format!("scenarios do not support {}", other.kind())),
        }
    }
    for buffer in buffers {
        let (buffer, resolved) = capacity_buffer(buffer, &templates, &[]);
        resolved.map_err(|error| format!("CapacityBuffer {}: {error}", buffer.key))?;
        snapshot.capacity_buffers.push(buffer);
    }
    Ok(())
}
