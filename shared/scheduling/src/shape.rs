//! Shapes of pods. Pods that no constraint distinguishes share a shape, and with it all computations.

use std::{cmp::Reverse, collections::BinaryHeap, rc::Rc};

use model::{
    pod::{HostPort, NodeSelectorTerm, PodAffinity, TopologySpread},
    requirement::Requirements,
    taint::Toleration,
};

use crate::{
    algebra::SetId,
    bits::BitSet,
    devices::ClaimNeeds,
    placement_context::{Permanence, Refusal},
    spec::{RelaxationStep, Spec},
    tolerance::TolerationsId,
    topology::{ApplicableConstraint, GroupMembership, classes::ClassId},
    volumes::{Attachment, EBS},
};

/// Index of a shape in the solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeId(pub(crate) u32);

/// Properties that placement depends on. Cheap ones come first, since comparison stops at the first difference.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeIdentity<'a> {
    pub(crate) requests: Box<[i64]>,
    pub(crate) class: Option<ClassId>,
    pub(crate) moved: bool,
    pub(crate) is_bound: bool,
    pub(crate) confined: Option<Rc<Requirements>>,
    pub(crate) selector: &'a std::collections::BTreeMap<String, String>,
    pub(crate) required: &'a [NodeSelectorTerm],
    pub(crate) preferred: &'a [(i32, NodeSelectorTerm)],
    pub(crate) affinity: &'a PodAffinity,
    pub(crate) anti_affinity: &'a PodAffinity,
    pub(crate) spread: &'a [TopologySpread],
    pub(crate) tolerations: &'a [Toleration],
    pub(crate) ports: &'a [HostPort],
    pub(crate) volumes: Rc<VolumeNeeds<'a>>,
    pub(crate) claims: Rc<ClaimNeeds>,
}

/// Requirements of a pod's volumes, computed once.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeNeeds<'a> {
    /// Alternatives of which one must hold; empty if the volumes have no requirements.
    pub(crate) alternatives: Vec<NodeRequirements>,
    pub(crate) attachments: Vec<Attachment<'a>>,
    /// Whether a claim, its volume or its class does not exist. Such a pod is placed as if it had no volumes and no topology
    /// constraints.
    pub(crate) lost: bool,
}

impl<'a> VolumeNeeds<'a> {
    /// Attachments of EBS volumes.
    pub(crate) fn of_ebs(&self) -> impl Iterator<Item = &Attachment<'a>> {
        self.attachments.iter().filter(|(driver, _)| *driver == EBS)
    }
}

/// Requirements in two forms: for existing nodes, and for new nodes, which have no hostname yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeRequirements {
    pub(crate) on_nodes: SetId,
    pub(crate) on_claims: SetId,
    /// Whether a hostname that is not known yet meets the requirements.
    pub(crate) any_hostname: bool,
}

/// Immutable part of a shape, at one step of relaxation.
pub(crate) struct ShapeCore<'a> {
    pub(crate) spec: Spec<'a>,
    pub(crate) requests: Box<[i64]>,
    /// Whether the pod is moved voluntarily, which excludes nodes that are cooling down.
    pub(crate) moved: bool,
    pub(crate) sets: NodeRequirements,
    pub(crate) tolerations: TolerationsId,
    pub(crate) volumes: Rc<VolumeNeeds<'a>>,
    pub(crate) claims: Rc<ClaimNeeds>,
    pub(crate) member: GroupMembership,
}

impl<'a> ShapeCore<'a> {
    pub(crate) fn ports(&self) -> &'a [HostPort] {
        &self.spec.pod.host_ports
    }

    /// Refusal of a place without devices for the pod's claims.
    pub(crate) fn without_devices(&self) -> Refusal {
        Refusal::Devices(match self.claims.refusals_are_permanent() {
            true => Permanence::ForGood,
            false => Permanence::ForNow,
        })
    }

    /// Core of the pod without its device claims.
    pub(crate) fn without_claims(&self) -> Self {
        Self {
            claims: Rc::default(),
            ..self.with_requests(self.requests.clone())
        }
    }

    /// Core with other requests.
    pub(crate) fn with_requests(&self, requests: Box<[i64]>) -> Self {
        Self {
            spec: self.spec.clone(),
            requests,
            moved: self.moved,
            sets: self.sets,
            tolerations: self.tolerations,
            volumes: Rc::clone(&self.volumes),
            claims: Rc::clone(&self.claims),
            member: self.member.clone(),
        }
    }
}

/// Mutable search state of a shape: the nodes, claims and templates that may still take it.
#[derive(Default)]
pub(crate) struct ShapeSearch {
    pub(crate) constraints: Rc<[ApplicableConstraint]>,
    /// Number of groups when `constraints` was computed.
    pub(crate) groups_known: Option<usize>,
    /// Existing nodes that can never take the shape; `None` before the first search.
    pub(crate) rejected_nodes: Option<BitSet>,
    /// In-flight claims by order. An entry with an outdated order is pushed again with the present one.
    pub(crate) claims: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) claims_seen: usize,
    /// Claims that may take the shape later, with their orders.
    pub(crate) parked: Vec<(u64, u32)>,
    pub(crate) parked_at: u64,
    /// Templates that can never take the shape.
    pub(crate) rejected_templates: Vec<bool>,
    /// Number of placements at the last failure. The result stays the same until there are more.
    pub(crate) failed_at: Option<(u64, Failure)>,
    pub(crate) relaxed: Option<Option<(ShapeId, RelaxationStep)>>,
}

/// Reason why a pod was not placed in this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NoRoom,
    /// A reservation may take the pod in the next round (docs/spec/scheduling.md#reservations).
    Deferred,
    /// The search had no attempts left for the pod.
    Postponed,
}
