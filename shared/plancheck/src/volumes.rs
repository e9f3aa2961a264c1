//! Constraints of volumes on a pod's node: topology and attach limits.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    labels,
    pod::{Pod, PodVolume},
    selector::{NodeSelectorRequirement, Operator},
    snapshot::Optimize,
    volume::{StorageClass, Volume, VolumeClaim},
};

use crate::{
    Findings,
    label::Label,
    node_rules::holds,
    open_node::OpenNode,
    place::{Place, Placed, Placements},
    world::{Machine, World},
};

/// Volumes of the in-tree EBS plugin are attached by the EBS CSI driver.
const IN_TREE_EBS: &str = "kubernetes.io/aws-ebs";
const EBS_DRIVER: &str = "ebs.csi.aws.com";
const IN_TREE_PREFIX: &str = "kubernetes.io/";

pub(crate) fn check<'a>(world: &World<'a>, placements: &Placements<'a>, findings: &mut Findings) {
    let storage = Storage::new(world);
    for placed in placements
        .placed
        .iter()
        .filter(|placed| !placed.pod.volumes.is_empty())
    {
        let Some(place) = placements.places.get(placed.place) else {
            continue;
        };
        for claim in storage.claims_of(placed.pod) {
            if let Some(key) = storage.unreachable(world, place, &claim) {
                findings.add(
                    placed.subject,
                    format!(
                        "pod {} cannot have its volume on node {}: claim {} requires another {key}",
                        placed.pod.key,
                        place.name(world),
                        claim.name
                    ),
                );
            }
        }
    }
    for (place, indexes) in placements.by_place() {
        let new_pods = indexes.iter();
        let new_pods = new_pods.filter_map(|index| placements.placed.get(*index));
        match placements.places.get(place) {
            Some(Place::Machine(machine)) => {
                if let Some(machine) = world.machines.get(*machine) {
                    attach_to_machine(world, machine, new_pods, &storage, findings);
                }
            }
            Some(Place::Open(node)) if world.snapshot.settings.optimize == Optimize::Cost => {
                attach_to_open_node(node, new_pods, &storage, findings);
            }
            Some(Place::Open(_)) | None => {}
        }
    }
}

/// Volumes by driver, each identified by namespace and name of its claim.
type Attached = BTreeMap<String, BTreeSet<(String, String)>>;

fn attached_by(driver: &str, attached: &Attached) -> usize {
    attached.get(driver).map_or(0, BTreeSet::len)
}

fn attach_to_machine<'p, 'a: 'p>(
    world: &World<'a>,
    machine: &Machine<'a>,
    new_pods: impl Iterator<Item = &'p Placed<'a>>,
    storage: &Storage<'a>,
    findings: &mut Findings,
) {
    let limits = machine
        .node
        .and_then(|node| world.snapshot.storage.attach_limits.get(&node.name));
    let Some(limits) = limits else {
        return;
    };
    let mut attached = Attached::new();
    for pod in &machine.bound_pods {
        storage.attach(pod, &mut attached);
    }
    for placed in new_pods {
        let mut after = attached.clone();
        storage.attach(placed.pod, &mut after);
        let over = limits.iter().find(|(driver, limit)| {
            let limit = usize::try_from(**limit).unwrap_or(usize::MAX);
            let count = attached_by(driver, &after);
            count > limit && count > attached_by(driver, &attached)
        });
        match over {
            Some((driver, limit)) => findings.add(
                placed.subject,
                format!(
                    "pod {} brings more than {limit} volumes of {driver} to node {}",
                    placed.pod.key, machine.name
                ),
            ),
            None => attached = after,
        }
    }
}

/// The node may become any of its types, so the smallest limit counts. Karpenter knows no attach limit of new nodes.
fn attach_to_open_node<'p, 'a: 'p>(
    node: &OpenNode<'a>,
    new_pods: impl Iterator<Item = &'p Placed<'a>>,
    storage: &Storage<'a>,
    findings: &mut Findings,
) {
    let types = node.types();
    let limits = types.filter_map(|(_, of_type)| Some((of_type.ebs_attach_limit?, &of_type.name)));
    let Some((limit, of_type)) = limits.min() else {
        return;
    };
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut attached = Attached::new();
    for placed in new_pods {
        let mut after = attached.clone();
        storage.attach(placed.pod, &mut after);
        let count = attached_by(EBS_DRIVER, &after);
        if count > most && count > attached_by(EBS_DRIVER, &attached) {
            let (pod, node) = (&placed.pod.key, node.name);
            findings.add(
                placed.subject,
                format!(
                    "pod {pod} brings more than {limit} volumes of {EBS_DRIVER} to node {node}, which may become {of_type}"
                ),
            );
        } else {
            attached = after;
        }
    }
}

/// Claims, volumes and storage classes by name.
pub(crate) struct Storage<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a VolumeClaim>,
    volumes: BTreeMap<&'a str, &'a Volume>,
    classes: BTreeMap<&'a str, &'a StorageClass>,
    default_class: Option<&'a str>,
}

/// An existing claim, or the one that will be created for an ephemeral volume.
struct Claim<'a> {
    name: String,
    storage_class: Option<&'a str>,
    volume: Option<&'a str>,
}

impl<'a> Storage<'a> {
    pub(crate) fn new(world: &World<'a>) -> Self {
        let storage = &world.snapshot.storage;
        Self {
            claims: storage
                .claims
                .iter()
                .map(|claim| ((claim.namespace.as_str(), claim.name.as_str()), claim))
                .collect(),
            volumes: storage
                .volumes
                .iter()
                .map(|volume| (volume.name.as_str(), volume))
                .collect(),
            classes: storage
                .classes
                .iter()
                .map(|class| (class.name.as_str(), class))
                .collect(),
            default_class: storage
                .classes
                .iter()
                .filter(|class| class.is_default)
                .map(|class| class.name.as_str())
                .min(),
        }
    }

    /// Claims of the pod. A missing claim does not restrict its node.
    fn claims_of(&self, pod: &'a Pod) -> Vec<Claim<'a>> {
        pod.volumes
            .iter()
            .filter_map(|volume| {
                let (name, template_class) = match volume {
                    PodVolume::Claim { claim } => (claim.clone(), None),
                    PodVolume::Ephemeral {
                        volume,
                        storage_class,
                    } => (
                        format!("{}-{volume}", pod.key.name),
                        Some(storage_class.as_deref()),
                    ),
                };
                let known = self
                    .claims
                    .get(&(pod.key.namespace.as_str(), name.as_str()));
                let storage_class = match (known, template_class) {
                    (Some(claim), _) => claim.storage_class.as_deref(),
                    (None, Some(class)) => class,
                    (None, None) => return None,
                };
                let volume = known.and_then(|claim| claim.volume.as_deref());
                Some(Claim {
                    name,
                    storage_class: storage_class.or(self.default_class),
                    volume,
                })
            })
            .collect()
    }

    /// Whether all of the pod's volumes are accessible from some node in this domain, other labels permitting.
    pub(crate) fn permits(&self, pod: &'a Pod, key: &str, domain: &str) -> bool {
        self.claims_of(pod).iter().all(|claim| {
            let alternatives = self.alternatives(claim);
            alternatives.is_empty()
                || alternatives.iter().any(|alternative| {
                    alternative
                        .iter()
                        .filter(|requirement| labels::normalized(&requirement.key) == key)
                        .all(|requirement| Label::Is(domain).guarantees(requirement))
                })
        })
    }

    /// Key of the label that makes the volume inaccessible from the place; `None` if the volume is accessible.
    fn unreachable(
        &self,
        world: &World<'a>,
        place: &Place<'a>,
        claim: &Claim<'_>,
    ) -> Option<String> {
        let alternatives = self.alternatives(claim);
        let mut unmet = None;
        for alternative in &alternatives {
            match alternative
                .iter()
                .find(|requirement| !holds(world, place, requirement))
            {
                None => return None,
                Some(requirement) => unmet = Some(requirement.key.clone()),
            }
        }
        unmet
    }

    /// Topologies of the volume, or those in which it may be provisioned. One of them must hold; empty means any node.
    fn alternatives(&self, claim: &Claim<'_>) -> Vec<Vec<NodeSelectorRequirement>> {
        if let Some(volume) = claim.volume.and_then(|name| self.volumes.get(name)) {
            let terms = volume
                .node_affinity
                .iter()
                .filter(|term| !term.match_expressions.is_empty());
            let is_portable = |requirement: &&NodeSelectorRequirement| {
                !(volume.local && requirement.key == labels::HOSTNAME)
            };
            return terms
                .map(|term| {
                    term.match_expressions
                        .iter()
                        .filter(is_portable)
                        .cloned()
                        .collect()
                })
                .collect();
        }
        let class = claim.storage_class.and_then(|name| self.classes.get(name));
        let (None, Some(class)) = (claim.volume, class) else {
            return Vec::new();
        };
        class
            .allowed_topologies
            .iter()
            .filter(|topology| !topology.is_empty())
            .map(|topology| {
                topology
                    .iter()
                    .map(|(key, values)| NodeSelectorRequirement {
                        key: key.clone(),
                        operator: Operator::In,
                        values: values.clone(),
                        min_values: None,
                    })
                    .collect()
            })
            .collect()
    }

    /// Counts the pod's claims by driver. Pods that share a claim share its attachment.
    fn attach(&self, pod: &'a Pod, attached: &mut Attached) {
        for claim in self.claims_of(pod) {
            if let Some(driver) = self.driver(&claim) {
                let identity = (pod.key.namespace.clone(), claim.name);
                attached
                    .entry(driver.to_owned())
                    .or_default()
                    .insert(identity);
            }
        }
    }

    /// CSI driver of a claim; `None` if the volume needs no attachment or its driver is unknown.
    fn driver(&self, claim: &Claim<'a>) -> Option<&'a str> {
        let of_plugin = |plugin: &'a str| match plugin {
            IN_TREE_EBS => Some(EBS_DRIVER),
            other => Some(other).filter(|name| !name.starts_with(IN_TREE_PREFIX)),
        };
        if let Some(name) = claim.volume {
            let volume = self.volumes.get(name)?;
            return volume
                .driver
                .as_deref()
                .or_else(|| of_plugin(volume.in_tree.as_deref()?));
        }
        of_plugin(&self.classes.get(claim.storage_class?)?.provisioner)
    }
}
