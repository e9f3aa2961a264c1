//! Snapshot of a cluster made of manifests, in place of one read from an API server.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    NodeOverlay,
    convert::{StorageObjects, Unresolved, capacity_buffer},
    manifests::Object,
};
use jiff::Timestamp;
use model::{
    InstanceType, NanosPerHour, Snapshot,
    ids::ClusterName,
    node_pool::NodePool,
    share_shapes,
    snapshot::{
        CapacityBuffer, MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings,
    },
};

/// Inputs of planning besides the objects.
pub(crate) fn settings(
    well_known_labels: &[&str],
    restricted_domains: &[&str],
    reservation_id_label: &str,
) -> Settings {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Settings {
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        reserved_offering_mode: ReservedOfferingMode::Strict,
        optimize: Optimize::Cost,
        feature_gates: BTreeMap::new(),
        well_known_labels: owned(well_known_labels),
        restricted_domains: owned(restricted_domains),
        reservation_id_label: reservation_id_label.to_owned(),
        preference_worth: Settings::preference_worth(),
        node_price: NanosPerHour(0),
        default_topology_spread: Vec::new(),
        registration_timeout: None,
        legacy_node_repair: false,
        device_claims: false,
    }
}

/// Settings for nodes on AWS.
pub(crate) fn aws_settings() -> Settings {
    use api::names::{group::KARPENTER_AWS, label};
    let well_known = [label::WELL_KNOWN_AWS, label::WELL_KNOWN_IN_AWS_DOMAIN].concat();
    settings(
        &well_known,
        &[KARPENTER_AWS],
        label::CAPACITY_RESERVATION_ID,
    )
}

/// A snapshot without objects.
pub(crate) fn empty(now: Timestamp, settings: Settings) -> Snapshot {
    Snapshot::empty(ClusterName("manifests".to_owned()), now, settings)
}

/// Adds the objects to the snapshot. Every NodePool may use all of `types`. Returns the objects that have no effect, each with the reason.
pub(crate) fn add_objects(
    snapshot: &mut Snapshot,
    objects: impl IntoIterator<Item = Object>,
    types: &Arc<Vec<InstanceType>>,
) -> Vec<String> {
    let mut storage = StorageObjects::default();
    let (mut buffers, mut templates) = (Vec::new(), Vec::new());
    let mut problems = Vec::new();
    for object in objects {
        match object {
            Object::NodePool(pool) => {
                let pool = NodePool::from(*pool);
                snapshot
                    .instance_types
                    .insert(pool.name.clone(), Arc::clone(types));
                snapshot.node_pools.push(pool);
            }
            Object::NodeClaim(claim) => snapshot.node_claims.push((*claim).into()),
            Object::NodeOverlay(overlay) => {
                let wrong = wrong(&overlay);
                if wrong.is_empty() {
                    snapshot.node_overlays.push((*overlay).into());
                }
                problems.extend(wrong);
            }
            Object::Pod(pod) => snapshot.pods.push((*pod).into()),
            Object::Node(node) => snapshot.nodes.push((*node).into()),
            Object::Namespace(namespace) => snapshot.namespaces.push((*namespace).into()),
            Object::DaemonSet(set) => snapshot.daemon_sets.push((*set).into()),
            Object::Deployment(workload) => snapshot.workloads.push((*workload).into()),
            Object::ReplicaSet(workload) => snapshot.workloads.push((*workload).into()),
            Object::StatefulSet(workload) => snapshot.workloads.push((*workload).into()),
            Object::ReplicationController(controller) => {
                snapshot.workloads.push((*controller).into())
            }
            Object::Job(job) => snapshot.workloads.push((*job).into()),
            Object::CronJob(job) => snapshot.workloads.push((*job).into()),
            Object::Rollout(rollout) => snapshot.workloads.push((*rollout).into()),
            Object::PersistentVolume(volume) => storage.volumes.push(*volume),
            Object::PersistentVolumeClaim(claim) => storage.claims.push(*claim),
            Object::StorageClass(class) => storage.classes.push(*class),
            Object::CSINode(node) => storage.csi_nodes.push(*node),
            Object::VolumeAttachment(attachment) => storage.attachments.push(*attachment),
            Object::PodDisruptionBudget(budget) => {
                snapshot.disruption_budgets.push((*budget).into());
            }
            Object::DeviceClass(class) => snapshot.devices.classes.push((*class).into()),
            Object::ResourceClaim(claim) => snapshot.devices.claims.push((*claim).into()),
            Object::ResourceClaimTemplate(template) => {
                snapshot.devices.templates.push((*template).into());
            }
            Object::ResourceSlice(slice) => snapshot.devices.slices.push((*slice).into()),
            Object::Service(service) => snapshot.services.push((*service).into()),
            Object::CapacityBuffer(buffer) => buffers.push(*buffer),
            Object::PodTemplate(template) => templates.push(*template),
            // Pods and instance types were added before.
            Object::EC2NodeClass(_)
            | Object::LimitRange(_)
            | Object::PriorityClass(_)
            | Object::RuntimeClass(_) => {}
        }
    }
    share_shapes(&mut snapshot.pods);
    snapshot.storage = storage.into();
    for buffer in buffers {
        let (buffer, resolved) = capacity_buffer(buffer, &templates, &snapshot.workloads);
        problems.extend(unresolved(&buffer, &resolved));
        snapshot.capacity_buffers.push(buffer);
    }
    problems.extend(behind_gates(snapshot));
    problems
}

/// Reasons why a NodeOverlay has no effect.
pub(crate) fn wrong(overlay: &NodeOverlay) -> Vec<String> {
    let name = &overlay.metadata.name;
    let problems = api::validation::node_overlay(overlay).into_iter();
    let texts = problems.map(|problem| format!("NodeOverlay {name} applies nowhere: {problem}"));
    texts.collect()
}

/// Reasons why a CapacityBuffer has no effect.
pub(crate) fn unresolved(
    buffer: &CapacityBuffer,
    resolved: &Result<(), Unresolved>,
) -> Option<String> {
    let why = resolved.as_ref().err()?;
    Some(format!(
        "CapacityBuffer {} keeps no room: {why}",
        buffer.key
    ))
}

/// Objects without an effect, because their feature gate is off.
pub(crate) fn behind_gates(snapshot: &Snapshot) -> Vec<String> {
    let is_off = |gate: &str| snapshot.settings.feature_gates.get(gate) != Some(&true);
    let buffers = snapshot.capacity_buffers.iter();
    let buffers = buffers
        .filter(|_| is_off("CapacityBuffer"))
        .map(|buffer| ("CapacityBuffer", "CapacityBuffer", buffer.key.to_string()));
    let fixed = snapshot.node_pools.iter();
    let fixed = fixed
        .filter(|pool| is_off("StaticCapacity") && pool.replicas.is_some())
        .map(|pool| ("NodePool", "StaticCapacity", pool.name.to_string()));
    let overlays = snapshot.node_overlays.iter();
    let overlays = overlays
        .filter(|_| is_off("NodeOverlay"))
        .map(|overlay| ("NodeOverlay", "NodeOverlay", overlay.name.clone()));
    let texts = buffers
        .chain(overlays)
        .chain(fixed)
        .map(|(kind, gate, name)| {
            format!(
                "{kind} {name} has no effect: its feature gate is off (--feature-gates {gate}=true)"
            )
        });
    texts.collect()
}
