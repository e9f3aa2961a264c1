//! Existing node, with the pods placed on it in this solve (docs/spec/scheduling.md#existing-node,
//! docs/spec/scheduling.md#join-existing-node).

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::pod::HostPort;

use crate::{
    algebra::{SetId, Undefined},
    amounts,
    devices::DeviceUsage,
    placement_context::{Permanence, PlacementContext, Refusal},
    ports,
    shape::ShapeCore,
    tolerance::TaintsId,
    topology::{ApplicableConstraint, HostId, Place, TopologyVerdict, daemons::Daemons},
    volumes::Attachment,
};

/// Existing node.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    /// Index into the input's nodes.
    pub(crate) index: usize,
    /// Requirements that the node's labels meet, limited to keys that pods, daemons and volumes refer to.
    pub(crate) set: SetId,
    pub(crate) taints: TaintsId,
    /// Takes no pods that are moved voluntarily.
    pub(crate) cooling_down: bool,
    pub(crate) host: HostId,
    /// Remaining amounts; `None` if any resource is overcommitted, so nothing more fits.
    pub(crate) remaining: Option<Box<[i64]>>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Option<Rc<AttachedVolumes<'a>>>,
    /// Allocated devices; `None` if no pod claims devices.
    pub(crate) devices: Option<Rc<DeviceUsage>>,
    /// Daemons that will run on the node and are not counted yet.
    pub(crate) daemons: Daemons,
    pub(crate) pods: Vec<usize>,
}

/// Volumes attached to a node, with its limits per CSI driver.
#[derive(Clone)]
pub(crate) struct AttachedVolumes<'a> {
    pub(crate) limits: &'a BTreeMap<String, u32>,
    pub(crate) volumes: BTreeSet<Attachment<'a>>,
}

impl<'a> AttachedVolumes<'a> {
    /// Driver whose attach limit the volumes would exceed. A driver that exceeds its limit already refuses every pod.
    fn exceeded(&self, more: &[Attachment<'a>]) -> Option<&'a str> {
        let exceeds = |(driver, limit): &(&'a String, &'a u32)| {
            let of = |all: &mut dyn Iterator<Item = &Attachment<'a>>| {
                all.filter(|(of, _)| *of == driver.as_str()).count()
            };
            let new = more.iter().filter(|volume| !self.volumes.contains(*volume));
            let total = of(&mut self.volumes.iter()) + of(&mut new.into_iter());
            u32::try_from(total).is_ok_and(|total| total > **limit)
        };
        self.limits
            .iter()
            .find(exceeds)
            .map(|(driver, _)| driver.as_str())
    }
}

impl<'a> Node<'a> {
    /// Checks whether a pod may join the node.
    pub(crate) fn check(
        &self,
        core: &ShapeCore<'a>,
        constraints: &[ApplicableConstraint],
        context: &mut PlacementContext<'a>,
    ) -> Result<(), Refusal> {
        let fits = |left: &[i64]| amounts::fits(&core.requests, left);
        if !self.remaining.as_deref().is_some_and(fits) {
            return Err(Refusal::Resources);
        }
        if self.cooling_down && core.moved {
            return Err(Refusal::CoolingDown);
        }
        if !context.tolerance.tolerates(core.tolerations, self.taints) {
            return Err(Refusal::Taints);
        }
        let set = context
            .algebra
            .narrow(self.set, core.sets.on_nodes, Undefined::Refused)
            .ok_or(Refusal::Requirements)?;
        let attached = self.attached.as_ref();
        if attached.is_some_and(|a| a.exceeded(&core.volumes.attachments).is_some()) {
            return Err(Refusal::VolumeLimit);
        }
        if ports::conflict(core.ports(), &self.ports).is_some() {
            return Err(Refusal::Ports);
        }
        if !context.has_devices(self, core) {
            return Err(core.without_devices());
        }
        if core.volumes.alternatives.is_empty() {
            return self.check_topology(set, core, constraints, context);
        }
        let mut refusal = Refusal::Volumes;
        for volumes in &core.volumes.alternatives {
            let narrowed = context
                .algebra
                .narrow(set, volumes.on_nodes, Undefined::Refused);
            let verdict = match narrowed {
                Some(set) => self.check_topology(set, core, constraints, context),
                None => Err(Refusal::Volumes),
            };
            match verdict {
                Ok(()) => return Ok(()),
                Err(next) if refusal.is_permanent() => refusal = next,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    fn check_topology(
        &self,
        set: SetId,
        core: &ShapeCore<'a>,
        constraints: &[ApplicableConstraint],
        context: &mut PlacementContext<'a>,
    ) -> Result<(), Refusal> {
        if constraints.is_empty() {
            return Ok(());
        }
        let place = Place {
            set,
            ..self.place()
        };
        let PlacementContext {
            topology, algebra, ..
        } = context;
        match topology.admit(&core.member, constraints, &place, algebra) {
            TopologyVerdict::Allowed(_) => Ok(()),
            TopologyVerdict::NotNow(group) => Err(Refusal::Topology(group, Permanence::ForNow)),
            TopologyVerdict::Never(group) => Err(Refusal::Topology(group, Permanence::ForGood)),
        }
    }

    fn place(&self) -> Place {
        Place {
            set: self.set,
            host: self.host,
            taints: self.taints,
            undefined: Undefined::Refused,
            daemons: self.daemons,
        }
    }

    /// Adds a pod to the node and counts it.
    ///
    /// The node's requirements stay those of its labels: a pod that excludes a label does not add it to the node.
    pub(crate) fn commit(
        &mut self,
        pod: usize,
        core: &ShapeCore<'a>,
        context: &mut PlacementContext<'a>,
    ) {
        self.pods.push(pod);
        for (left, wanted) in self.remaining.iter_mut().flatten().zip(&core.requests) {
            *left -= wanted;
        }
        self.ports.extend_from_slice(core.ports());
        if let Some(attached) = &mut self.attached {
            Rc::make_mut(attached)
                .volumes
                .extend(core.volumes.attachments.iter().cloned());
        }
        if !core.claims.is_empty() {
            self.devices = context.used_on_node(self, core).map(Rc::new);
            context.record_allocation_on_node(self.index, core);
        }
        let place = self.place();
        context.record(core, &place);
    }
}
