//! State that every placement check reads.

use std::rc::Rc;

use model::{labels, pod::Pod, requirement::Requirements};

use crate::{
    algebra::{Algebra, Sym},
    amounts::Dimensions,
    catalog::Catalog,
    devices::Devices,
    input::Input,
    offered_domains::OfferedDomains,
    prices::Prices,
    reservations::Reservations,
    shape::{NodeRequirements, VolumeNeeds},
    strategy::{LimitAccounting, TieBreak},
    template::Template,
    tolerance::{TaintsId, Tolerance},
    topology::{GroupId, Topology},
    volumes::Volumes,
};

/// Prepared input with the counts and allocations of all placements so far.
#[derive(Clone)]
pub(crate) struct PlacementContext<'a> {
    pub(crate) input: Rc<Input<'a>>,
    pub(crate) algebra: Algebra,
    pub(crate) tolerance: Tolerance<'a>,
    pub(crate) dimensions: Rc<Dimensions>,
    pub(crate) catalogs: Vec<Catalog<'a>>,
    /// Per NodePool, in the order of the input.
    pub(crate) templates: Vec<Template>,
    pub(crate) topology: Topology<'a>,
    pub(crate) reservations: Reservations<'a>,
    pub(crate) volumes: Rc<Volumes<'a>>,
    /// `None` if no pod claims devices or the settings ignore claims.
    pub(crate) devices: Option<Devices<'a>>,
    pub(crate) hostname: Sym,
    pub(crate) no_taints: TaintsId,
    pub(crate) prices: Prices,
    pub(crate) ties: TieBreak,
    pub(crate) on_offer: OfferedDomains,
    pub(crate) counted_as: LimitAccounting,
}

/// Reason why a node or claim cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    CoolingDown,
    Taints,
    /// A hostname requirement that no new node can meet.
    Hostname,
    Requirements,
    Resources,
    Ports,
    VolumeLimit,
    Volumes,
    /// No device is free for the pod's claims.
    Devices(Permanence),
    Topology(GroupId, Permanence),
    /// No instance type meets all requirements. Permanent unless topology added some of them.
    Types(Permanence),
    MinValues(Permanence),
    Reservation,
    NodeLimit,
    Limits,
}

/// Whether other placements may lift the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permanence {
    ForNow,
    ForGood,
}

impl Refusal {
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::CoolingDown
            | Self::Taints
            | Self::Hostname
            | Self::Requirements
            | Self::Resources
            | Self::Ports
            | Self::VolumeLimit
            | Self::Volumes
            | Self::NodeLimit
            | Self::Limits => true,
            Self::Topology(_, permanence)
            | Self::Devices(permanence)
            | Self::Types(permanence)
            | Self::MinValues(permanence) => *permanence == Permanence::ForGood,
            Self::Reservation => false,
        }
    }
}

impl<'a> PlacementContext<'a> {
    pub(crate) fn sets(&mut self, requirements: &Requirements) -> NodeRequirements {
        let on_nodes = self.algebra.set_of(requirements.0.values());
        let hostname = requirements.get(labels::HOSTNAME);
        NodeRequirements {
            on_nodes,
            on_claims: self.algebra.without(on_nodes, &[self.hostname]),
            any_hostname: hostname.is_none_or(|requirement| {
                requirement.complement && requirement.gte.is_none() && requirement.lte.is_none()
            }),
        }
    }

    pub(crate) fn volume_needs(&mut self, pod: &'a Pod) -> Rc<VolumeNeeds<'a>> {
        if pod.volumes.is_empty() {
            return Rc::default();
        }
        let attachments = self.volumes.attachments(pod);
        Rc::new(match self.volumes.alternatives(pod) {
            Ok(alternatives) => VolumeNeeds {
                alternatives: alternatives.iter().map(|all| self.sets(all)).collect(),
                attachments,
                lost: false,
            },
            Err(_) => VolumeNeeds {
                alternatives: Vec::new(),
                attachments,
                lost: true,
            },
        })
    }
}
