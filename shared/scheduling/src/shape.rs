//! Pods that no rule tells apart have one shape: what is worked out for one holds for all.

use std::{cmp::Reverse, collections::BinaryHeap, rc::Rc};

use model::{
    pod::{HostPort, NodeSelectorTerm, PodAffinity, TopologySpread},
    requirement::Requirements,
    taint::Toleration,
};

use crate::{
    algebra::SetId,
    bits::Bits,
    devices::ClaimNeeds,
    spec::{Sacrifice, Spec},
    tolerance::TolerationsId,
    topology::{ApplicableConstraint, Member, classes::ClassId},
    volumes::{Attachment, EBS},
    world::{Permanence, Refusal},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeId(pub(crate) u32);

/// Everything placing depends on. Cheap parts come first: comparing stops at the first difference.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity<'a> {
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

/// A pod's volumes, worked out.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeNeeds<'a> {
    /// Any one of them must hold; none at all if the volumes do not care.
    pub(crate) alternatives: Vec<Sets>,
    pub(crate) attachments: Vec<Attachment<'a>>,
    /// A claim could not be followed: the pod is placed as if it had no volumes and no topology of its own.
    pub(crate) lost: bool,
}

impl<'a> VolumeNeeds<'a> {
    /// The attachments that EBS makes.
    pub(crate) fn of_ebs(&self) -> impl Iterator<Item = &Attachment<'a>> {
        self.attachments.iter().filter(|(driver, _)| *driver == EBS)
    }
}

/// Requirements as existing nodes and as nodes to be made have to meet them: the latter have no hostname yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sets {
    pub(crate) on_nodes: SetId,
    pub(crate) on_claims: SetId,
    /// A hostname nobody knows yet is fine.
    pub(crate) any_hostname: bool,
}

/// A shape at one step of relaxation. It never changes.
pub(crate) struct Core<'a> {
    pub(crate) spec: Spec<'a>,
    pub(crate) requests: Box<[i64]>,
    /// By choice, so not to a node that is settling.
    pub(crate) moved: bool,
    pub(crate) sets: Sets,
    pub(crate) tolerations: TolerationsId,
    pub(crate) volumes: Rc<VolumeNeeds<'a>>,
    pub(crate) claims: Rc<ClaimNeeds>,
    pub(crate) member: Member,
}

impl<'a> Core<'a> {
    pub(crate) fn ports(&self) -> &'a [HostPort] {
        &self.spec.pod.host_ports
    }

    /// Why a place does not take the pod that has no devices for its claims.
    pub(crate) fn without_devices(&self) -> Refusal {
        Refusal::Devices(match self.claims.refusals_are_permanent() {
            true => Permanence::ForGood,
            false => Permanence::ForNow,
        })
    }

    /// The pod without its claims for devices.
    pub(crate) fn without_claims(&self) -> Self {
        Self {
            claims: Rc::default(),
            ..self.with_requests(self.requests.clone())
        }
    }

    /// The same, asking for something else.
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

/// Where a shape still has to look. What can never take it is forgotten.
#[derive(Default)]
pub(crate) struct Search {
    pub(crate) constraints: Rc<[ApplicableConstraint]>,
    /// How many groups there were when `constraints` was found.
    pub(crate) groups_known: Option<usize>,
    /// Existing nodes that can never take it, once any was looked at.
    pub(crate) rejected_nodes: Option<Bits>,
    /// In-flight claims by order; an entry whose order is outdated is put back with the present one.
    pub(crate) claims: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) claims_seen: usize,
    /// Claims that may take it later, with the order they had.
    pub(crate) parked: Vec<(u64, u32)>,
    pub(crate) parked_at: u64,
    /// Templates that can never take it.
    pub(crate) closed: Vec<bool>,
    /// How many placements there were when it failed; nothing changes until there are more.
    pub(crate) failed_at: Option<(u64, Failure)>,
    pub(crate) relaxed: Option<Option<(ShapeId, Sacrifice)>>,
}

/// Why a pod was not placed in this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NoRoom,
    /// A reservation could take it in the next round; until then it waits (docs/spec/scheduling.md#reservations).
    Deferred,
    /// The search had no attempt left for it.
    Postponed,
}
