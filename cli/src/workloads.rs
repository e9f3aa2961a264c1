//! Pods of the workloads in a snapshot of manifests.

// Named, because fuzzing includes this file by its path.
#[path = "workloads/budgets.rs"]
mod budgets;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    kubernetes::{Deployment, LabelSelector, PodDisruptionBudgetStatus},
    manifests::Object,
    meta::ObjectMeta,
};
use model::{
    PodKey, Snapshot,
    pod::{Owner, Pod, PodPhase, PodVolume},
    snapshot::Workload,
    volume::{Storage, StorageClass, VolumeClaim},
};

/// Kind, namespace and name of a workload.
type Id = (String, String, String);

/// Relations between the workloads of manifests.
#[derive(Default)]
pub(crate) struct Ownership {
    /// Owner of a workload, such as the Deployment of a ReplicaSet.
    parents: BTreeMap<Id, Id>,
    /// Claim templates of StatefulSets, with their storage classes.
    claims: BTreeMap<Id, Vec<(String, Option<String>)>>,
    /// Ordinals of the first pods of StatefulSets, if they are not 0.
    starts: BTreeMap<Id, i32>,
    /// PodDisruptionBudgets without a status.
    new_budgets: BTreeSet<PodKey>,
}

/// Removes workloads that another workload of the manifests owns or replaces, whose pods would be counted twice, and gives Rollouts the
/// templates that they refer to. Returns warnings for the user.
pub(crate) fn settle(objects: &mut Vec<Object>) -> (Ownership, Vec<String>) {
    let mut ownership = Ownership::default();
    let mut notes = Vec::new();
    let referred = refer(objects, &mut notes);
    let known: BTreeSet<Id> = objects.iter().map(id).collect();
    for object in objects.iter() {
        if let Some(parent) = controller(object).filter(|parent| known.contains(parent)) {
            ownership.parents.insert(id(object), parent);
        }
        if let Object::StatefulSet(set) = object {
            let templates = set.spec.volume_claim_templates.iter();
            let templates = templates.map(|claim| {
                let class = claim.spec.storage_class_name.clone();
                (claim.metadata.name.clone(), class)
            });
            ownership.claims.insert(id(object), templates.collect());
            let start = set.spec.ordinals.as_ref().map(|ordinals| ordinals.start);
            ownership
                .starts
                .extend(start.map(|start| (id(object), start)));
        }
        if let Object::PodDisruptionBudget(budget) = object
            && budget.status == PodDisruptionBudgetStatus::default()
        {
            let (_, namespace, name) = id(object);
            ownership.new_budgets.insert(PodKey::new(namespace, name));
        }
    }
    // A CronJob with a Job among the manifests is planned by the Job.
    let running: BTreeSet<Id> = ownership
        .parents
        .values()
        .filter(|(kind, ..)| kind == "CronJob")
        .cloned()
        .collect();
    objects.retain(|object| {
        let id = id(object);
        let is_made =
            matches!(object, Object::ReplicaSet(_)) && ownership.parents.contains_key(&id);
        !is_made && !running.contains(&id) && !referred.contains(&id)
    });
    (ownership, notes)
}

/// Gives Rollouts the templates of Deployments that they refer to. Returns those Deployments.
fn refer(objects: &mut [Object], notes: &mut Vec<String>) -> BTreeSet<Id> {
    let deployments: BTreeMap<Id, Deployment> = objects
        .iter()
        .filter_map(|object| {
            let Object::Deployment(deployment) = object else {
                return None;
            };
            Some((id(object), (**deployment).clone()))
        })
        .collect();
    let mut referred = BTreeSet::new();
    for object in objects {
        let Object::Rollout(rollout) = object else {
            continue;
        };
        let (namespace, name) = (namespace(&rollout.metadata), &rollout.metadata.name);
        let Some(reference) = rollout.spec.workload_ref.as_ref() else {
            continue;
        };
        let of = (
            "Deployment".to_owned(),
            namespace.clone(),
            reference.name.clone(),
        );
        match deployments
            .get(&of)
            .filter(|_| reference.kind == "Deployment")
        {
            Some(deployment) => {
                rollout.spec.template = Some(deployment.spec.template.clone());
                if rollout.spec.selector.is_none() {
                    rollout.spec.selector = Some(deployment.spec.selector.clone());
                }
                referred.insert(of);
            }
            None => {
                notes.push(format!(
                    "Rollout {namespace}/{name}: {} {} is not among the manifests: its pods are not known, and none are planned",
                    reference.kind, reference.name
                ));
                rollout.spec.replicas = Some(0);
                rollout.spec.selector = Some(LabelSelector::default());
            }
        }
    }
    referred
}

fn namespace(metadata: &ObjectMeta) -> String {
    metadata
        .namespace
        .clone()
        .unwrap_or_else(|| "default".to_owned())
}

fn id(object: &Object) -> Id {
    let metadata = object.metadata();
    (
        object.kind().to_owned(),
        namespace(metadata),
        metadata.name.clone(),
    )
}

fn id_of(workload: &Workload) -> Id {
    let PodKey { namespace, name } = workload.key.clone();
    (workload.kind.clone(), namespace, name)
}

fn controller(object: &Object) -> Option<Id> {
    let metadata = object.metadata();
    let owners = metadata.owner_references.iter();
    let owner = owners
        .into_iter()
        .find(|owner| owner.controller == Some(true))?;
    Some((owner.kind.clone(), namespace(metadata), owner.name.clone()))
}

/// Does the work of the cluster's controllers and scheduler: creates the pods of workloads and the claims of pods, and makes unbound pods
/// pending. Returns warnings for the user.
pub(crate) fn make_pods(snapshot: &mut Snapshot, ownership: &Ownership) -> Vec<String> {
    let taken: BTreeSet<PodKey> = snapshot.pods.iter().map(|pod| pod.key.clone()).collect();
    let mut made = Vec::new();
    let mut claims = Vec::new();
    for workload in &snapshot.workloads {
        for mut pod in missing_pods(workload, snapshot, ownership, &taken) {
            claims.extend(own_claims(&mut pod, workload, ownership));
            made.push(pod);
        }
    }
    snapshot.pods.extend(made);
    claims.extend(snapshot.pods.iter().flat_map(ephemeral_claims));
    let known: BTreeSet<(String, String)> = snapshot
        .storage
        .claims
        .iter()
        .map(|claim| (claim.namespace.clone(), claim.name.clone()))
        .collect();
    claims.retain(|claim: &VolumeClaim| {
        !known.contains(&(claim.namespace.clone(), claim.name.clone()))
    });
    snapshot.storage.claims.extend(claims);
    for pod in &mut snapshot.pods {
        let waits = pod.node_name.is_none() && pod.phase == PodPhase::Pending;
        pod.unschedulable |= waits && pod.scheduling_gates.is_empty();
    }
    budgets::compute_status(snapshot, ownership);
    assume_classes(&mut snapshot.storage)
}

/// Adds storage classes: manifests of applications rarely contain them. Without any, the classes that claims name stand for EBS volumes.
fn assume_classes(storage: &mut Storage) -> Vec<String> {
    const UNNAMED: &str = "default";
    if !storage.classes.is_empty() {
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    for claim in storage
        .claims
        .iter_mut()
        .filter(|claim| claim.volume.is_none())
    {
        let name = claim
            .storage_class
            .get_or_insert_with(|| UNNAMED.to_owned());
        if !name.is_empty() {
            names.insert(name.clone());
        }
    }
    let class = |name: &String| StorageClass {
        name: name.clone(),
        provisioner: "ebs.csi.aws.com".to_owned(),
        is_default: name == UNNAMED,
        wait_for_first_consumer: true,
        allowed_topologies: Vec::new(),
    };
    storage.classes.extend(names.iter().map(class));
    let text = |name: &String| {
        format!(
            "StorageClass {name} is not among the manifests: assuming EBS volumes that are created in the zone of their pod"
        )
    };
    names.iter().map(text).collect()
}

/// The claims that are created for a pod's generic ephemeral volumes.
fn ephemeral_claims(pod: &Pod) -> Vec<VolumeClaim> {
    let volumes = pod.volumes.iter();
    let claims = volumes.filter_map(|volume| match volume {
        PodVolume::Ephemeral {
            volume,
            storage_class,
        } => Some(VolumeClaim {
            namespace: pod.key.namespace.clone(),
            name: format!("{}-{volume}", pod.key.name),
            storage_class: storage_class.clone(),
            ..VolumeClaim::default()
        }),
        PodVolume::Claim { .. } => None,
    });
    claims.collect()
}

/// A workload's pods, unless the manifests contain them already.
fn missing_pods(
    workload: &Workload,
    snapshot: &Snapshot,
    ownership: &Ownership,
    taken: &BTreeSet<PodKey>,
) -> Vec<Pod> {
    let Some(template) = &workload.pod else {
        return Vec::new();
    };
    let present = snapshot.pods.iter().filter(|pod| {
        // A pod that has ended, or is being deleted, is replaced.
        let counts =
            pod.deletion.is_none() && !matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded);
        counts && is_of(pod, workload, ownership)
    });
    let present = i64::try_from(present.count()).unwrap_or(i64::MAX);
    let wanted = workload.replicas.unwrap_or(1).saturating_sub(present);
    let wanted = usize::try_from(wanted.clamp(0, REPLICAS_MAX)).unwrap_or_default();
    let start = ownership.starts.get(&id_of(workload)).copied();
    let names = (i64::from(start.unwrap_or(0))..).map(|n| {
        let name = format!("{}-{n}", workload.key.name);
        PodKey::new(workload.key.namespace.clone(), name)
    });
    names
        .filter(|key| !taken.contains(key))
        .take(wanted)
        .map(|key| {
            let mut pod = Pod {
                uid: key.name.as_str().into(),
                key,
                ..(**template).clone()
            };
            pod.owner = Some(Owner {
                api_version: "apps/v1".to_owned(),
                kind: workload.kind.clone(),
                name: workload.key.name.clone(),
                uid: workload.uid.clone(),
            });
            pod
        })
        .collect()
}

/// Whether a workload has created a pod, or would adopt it.
fn is_of(pod: &Pod, workload: &Workload, ownership: &Ownership) -> bool {
    let namespace = &workload.key.namespace;
    if pod.key.namespace != *namespace {
        return false;
    }
    let is_selected = || {
        let selector = workload.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(&pod.labels))
    };
    let Some(owner) = &pod.owner else {
        return is_selected();
    };
    let id = |kind: &str, name: &str| (kind.to_owned(), namespace.clone(), name.to_owned());
    let (own, of) = (
        id(&workload.kind, &workload.key.name),
        id(&owner.kind, &owner.name),
    );
    // The Deployment's ReplicaSet may be missing in the manifests.
    let by_replica_set = || {
        let is_parent = ["Deployment", "Rollout"].contains(&workload.kind.as_str());
        let start = format!("{}-", workload.key.name);
        is_parent && owner.kind == "ReplicaSet" && owner.name.starts_with(&start) && is_selected()
    };
    of == own
        || match ownership.parents.get(&of) {
            Some(parent) => *parent == own,
            None => by_replica_set(),
        }
}

/// The claims that a StatefulSet creates for a pod, which uses them as volumes.
fn own_claims(pod: &mut Pod, workload: &Workload, ownership: &Ownership) -> Vec<VolumeClaim> {
    let key = &workload.key;
    let templates = ownership.claims.get(&id_of(workload));
    let mut claims = Vec::new();
    for (template, storage_class) in templates.into_iter().flatten() {
        let name = format!("{template}-{}", pod.key.name);
        pod.volumes.push(PodVolume::Claim {
            claim: name.clone(),
        });
        claims.push(VolumeClaim {
            namespace: key.namespace.clone(),
            name,
            storage_class: storage_class.clone(),
            ..VolumeClaim::default()
        });
    }
    claims
}

/// Upper bound on replicas: Kubernetes supports no larger clusters.
const REPLICAS_MAX: i64 = 150_000;
