//! New node: every instance type, zone and capacity type that can still hold all of its pods
//! (docs/spec/scheduling.md#join-new-node).

mod beside_daemons;
mod counted;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{NanosPerHour, pod::HostPort, snapshot::MinValuesPolicy};

use crate::{
    algebra::{SetId, Undefined},
    amounts,
    bits::BitSet,
    catalog::Catalog,
    devices::{DeviceUsage, LayoutId},
    limits::LimitAmounts,
    min_values,
    placement_context::{Permanence, PlacementContext, Refusal},
    ports,
    reservations::HoldDecision,
    shape::{NodeRequirements, ShapeCore},
    strategy::TieBreak,
    topology::{ApplicableConstraint, HostId, Place, TopologyVerdict, daemons::Daemons},
    volumes::Attachment,
};

/// New node with its pods, narrowed to the instance types that can still hold them.
pub(crate) struct Claim<'a> {
    pub(crate) template: usize,
    pub(crate) set: SetId,
    pub(crate) rows: BitSet,
    /// Summed requests of the pods, without daemons.
    pub(crate) requests: Vec<i64>,
    /// Per resource, the largest amount that any type has left.
    slack: Vec<i64>,
    pub(crate) pods: Vec<usize>,
    pub(crate) ports: Vec<HostPort>,
    /// EBS volumes of the pods, if attach limits matter.
    attached: BTreeSet<Attachment<'a>>,
    /// Allocated devices, per device layout of the possible types.
    pub(crate) devices: BTreeMap<LayoutId, DeviceUsage>,
    pub(crate) host: HostId,
    pub(crate) held: Vec<&'a str>,
    pub(crate) min_values_relaxed: bool,
    /// Amounts that the node counts as against limits, if types were chosen for it.
    pub(crate) counted: Option<LimitAmounts>,
    /// Position in the order in which claims are tried: by number of pods, then as a stable sort leaves it. Claims of equal
    /// order are tried by age.
    pub(crate) order: u64,
}

/// Claim's state with one more pod.
pub(crate) struct ClaimFit<'a> {
    pub(crate) set: SetId,
    pub(crate) rows: BitSet,
    pub(crate) held: Vec<&'a str>,
    pub(crate) min_values_relaxed: bool,
}

/// Stage of a claim. A new claim may lower `minValues` under BestEffort, a claim in flight may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimStage {
    New,
    InFlight,
}

impl<'a> Claim<'a> {
    pub(crate) fn new(
        context: &PlacementContext<'a>,
        template: usize,
        rows: BitSet,
        host: HostId,
    ) -> Option<Self> {
        let node_template = context.templates.get(template)?;
        let slack = node_template.room.most(&rows).collect();
        Some(Self {
            template,
            set: node_template.set,
            rows,
            requests: vec![0; context.dimensions.len()],
            slack,
            pods: Vec::new(),
            ports: Vec::new(),
            attached: BTreeSet::new(),
            devices: BTreeMap::new(),
            host,
            held: Vec::new(),
            min_values_relaxed: false,
            counted: None,
            order: 0,
        })
    }

    /// Quick check whether any type could hold the requests.
    pub(crate) fn may_have_room(&self, requests: &[i64]) -> bool {
        amounts::fits(requests, &self.slack)
    }

    pub(crate) fn check(
        &self,
        core: &ShapeCore<'a>,
        constraints: &[ApplicableConstraint],
        stage: ClaimStage,
        context: &mut PlacementContext<'a>,
    ) -> Result<ClaimFit<'a>, Refusal> {
        if !self.may_have_room(&core.requests) {
            return Err(Refusal::Resources);
        }
        let template = context
            .templates
            .get(self.template)
            .ok_or(Refusal::Requirements)?;
        if !context
            .tolerance
            .tolerates(core.tolerations, template.taints)
        {
            return Err(Refusal::Taints);
        }
        if !core.sets.any_hostname {
            return Err(Refusal::Hostname);
        }
        let set = context
            .algebra
            .narrow(self.set, core.sets.on_claims, Undefined::WellKnown)
            .ok_or(Refusal::Requirements)?;
        let mut total = self.requests.clone();
        amounts::add(&mut total, &core.requests);
        let mut rows = self.rows.clone();
        template.room.keep_fitting(&total, &mut rows);
        if rows.is_empty() {
            return Err(Refusal::Resources);
        }
        if self.counted.is_some() {
            template
                .limits
                .keep_within_beside(self.counted.as_ref(), &mut rows);
        }
        if rows.is_empty() {
            return Err(Refusal::Limits);
        }
        self.keep_free_ports(core, &template.daemons, &mut rows)?;
        self.keep_attaching(core, context.catalogs.get(template.catalog), &mut rows)?;
        context.keep_matching(self.template, set, &mut rows);
        if rows.is_empty() {
            return Err(Refusal::Types(Permanence::ForGood));
        }
        if !core.claims.is_empty() {
            context.keep_allocating(self, core, &mut rows);
            if rows.is_empty() {
                return Err(core.without_devices());
            }
        }
        if core.volumes.alternatives.is_empty() {
            return self.check_place(set, rows, core, constraints, stage, context);
        }
        let mut refusal = Refusal::Volumes;
        for alternative in &core.volumes.alternatives {
            match self.check_alternative(alternative, set, &rows, core, constraints, stage, context)
            {
                Ok(fit) => return Ok(fit),
                // If any alternative may become possible later, so may the pod.
                Err(next) if refusal.is_permanent() => refusal = next,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of check, with the same arguments"
    )]
    fn check_alternative(
        &self,
        volumes: &NodeRequirements,
        set: SetId,
        rows: &BitSet,
        core: &ShapeCore<'a>,
        constraints: &[ApplicableConstraint],
        stage: ClaimStage,
        context: &mut PlacementContext<'a>,
    ) -> Result<ClaimFit<'a>, Refusal> {
        let set = Some(set)
            .filter(|_| volumes.any_hostname)
            .and_then(|set| {
                context
                    .algebra
                    .narrow(set, volumes.on_claims, Undefined::WellKnown)
            })
            .ok_or(Refusal::Volumes)?;
        let mut rows = rows.clone();
        context.keep_matching(self.template, set, &mut rows);
        if rows.is_empty() {
            return Err(Refusal::Types(Permanence::ForGood));
        }
        self.check_place(set, rows, core, constraints, stage, context)
    }

    pub(crate) fn keep_attaching(
        &self,
        core: &ShapeCore<'a>,
        catalog: Option<&Catalog<'a>>,
        rows: &mut BitSet,
    ) -> Result<(), Refusal> {
        let Some(catalog) = catalog.filter(|catalog| catalog.limits_attachments()) else {
            return Ok(());
        };
        let more = core.volumes.of_ebs();
        let more = more
            .filter(|volume| !self.attached.contains(*volume))
            .count();
        if more > 0 {
            catalog.keep_attaching(self.attached.len() + more, rows);
        }
        match rows.is_empty() {
            true => Err(Refusal::VolumeLimit),
            false => Ok(()),
        }
    }

    pub(crate) fn keep_free_ports(
        &self,
        core: &ShapeCore<'a>,
        daemons: &[crate::template::DaemonGroup],
        rows: &mut BitSet,
    ) -> Result<(), Refusal> {
        let wanted = core.ports();
        if wanted.is_empty() {
            return Ok(());
        }
        if ports::conflict(wanted, &self.ports).is_some() {
            return Err(Refusal::Ports);
        }
        for group in daemons {
            if ports::conflict(wanted, &group.ports).is_some() {
                rows.subtract(&group.rows);
            }
        }
        if rows.is_empty() {
            return Err(Refusal::Ports);
        }
        Ok(())
    }

    fn check_place(
        &self,
        set: SetId,
        mut rows: BitSet,
        core: &ShapeCore<'a>,
        constraints: &[ApplicableConstraint],
        stage: ClaimStage,
        context: &mut PlacementContext<'a>,
    ) -> Result<ClaimFit<'a>, Refusal> {
        if constraints.is_empty() {
            return self.check_options(set, rows, Permanence::ForGood, stage, context);
        }
        let place = Place {
            set,
            daemons: self.keep_beside_daemons(constraints, &mut rows, context)?,
            ..self.place(context)
        };
        let PlacementContext {
            topology, algebra, ..
        } = context;
        let sets = match topology.admit(&core.member, constraints, &place, algebra) {
            TopologyVerdict::Allowed(sets) => sets,
            TopologyVerdict::NotNow(group) => {
                return Err(Refusal::Topology(group, Permanence::ForNow));
            }
            TopologyVerdict::Never(group) => {
                return Err(Refusal::Topology(group, Permanence::ForGood));
            }
        };
        if let [narrowed] = *sets {
            return self.check_narrowed(narrowed, set, rows, stage, context);
        }
        // Counts do not decide between these alternatives; the cheapest is taken, or the first by name.
        let mut best: Option<(NanosPerHour, ClaimFit<'a>)> = None;
        let mut refusal = Refusal::Types(Permanence::ForNow);
        for narrowed in sets {
            match self.check_narrowed(narrowed, set, rows.clone(), stage, context) {
                Ok(fit) => {
                    if context.ties == TieBreak::FirstByName {
                        return Ok(fit);
                    }
                    let price = context.cheapest(self.template, fit.set, &fit.rows);
                    if best.as_ref().is_none_or(|(known, _)| price < *known) {
                        best = Some((price, fit));
                    }
                }
                Err(next) => refusal = next,
            }
        }
        best.map(|(_, fit)| fit).ok_or(refusal)
    }

    /// Checks the options after topology has narrowed `set`.
    fn check_narrowed(
        &self,
        narrowed: SetId,
        set: SetId,
        mut rows: BitSet,
        stage: ClaimStage,
        context: &mut PlacementContext<'a>,
    ) -> Result<ClaimFit<'a>, Refusal> {
        if narrowed == set {
            return self.check_options(set, rows, Permanence::ForGood, stage, context);
        }
        context.keep_matching(self.template, narrowed, &mut rows);
        if rows.is_empty() {
            return Err(Refusal::Types(Permanence::ForNow));
        }
        self.check_options(narrowed, rows, Permanence::ForNow, stage, context)
    }

    fn check_options(
        &self,
        set: SetId,
        rows: BitSet,
        permanence: Permanence,
        stage: ClaimStage,
        context: &mut PlacementContext<'a>,
    ) -> Result<ClaimFit<'a>, Refusal> {
        let (set, min_values_relaxed) =
            self.check_min_values(set, &rows, permanence, stage, context)?;
        let PlacementContext {
            templates,
            catalogs,
            algebra,
            reservations,
            ..
        } = context;
        let held = match templates
            .get(self.template)
            .and_then(|template| catalogs.get(template.catalog))
        {
            Some(catalog) => match reservations.offer(set, &rows, &self.held, catalog, algebra) {
                HoldDecision::Hold(held) => held,
                HoldDecision::Wait => return Err(Refusal::Reservation),
            },
            None => Vec::new(),
        };
        Ok(ClaimFit {
            set,
            rows,
            held,
            min_values_relaxed,
        })
    }

    fn check_min_values(
        &self,
        set: SetId,
        rows: &BitSet,
        permanence: Permanence,
        stage: ClaimStage,
        context: &mut PlacementContext<'a>,
    ) -> Result<(SetId, bool), Refusal> {
        let Some(template) = context
            .templates
            .get(self.template)
            .filter(|t| t.has_min_values)
        else {
            return Ok((set, false));
        };
        let Some(catalog) = context.catalogs.get(template.catalog) else {
            return Ok((set, false));
        };
        let best_effort = context.input.options.min_values_policy == MinValuesPolicy::BestEffort;
        if best_effort && stage == ClaimStage::New {
            return Ok(min_values::lowered(
                set,
                rows,
                catalog,
                &mut context.algebra,
            ));
        }
        match min_values::unmet(set, rows, catalog, &context.algebra) {
            Some(_) => Err(Refusal::MinValues(permanence)),
            None => Ok((set, false)),
        }
    }

    pub(crate) fn place(&self, context: &PlacementContext<'a>) -> Place {
        Place {
            set: self.set,
            host: self.host,
            taints: context
                .templates
                .get(self.template)
                .map_or(context.no_taints, |template| template.taints),
            undefined: Undefined::WellKnown,
            daemons: Daemons::default(),
        }
    }

    /// Adds a pod to the claim and counts it.
    pub(crate) fn commit(
        &mut self,
        pod: usize,
        core: &Rc<ShapeCore<'a>>,
        fit: ClaimFit<'a>,
        context: &mut PlacementContext<'a>,
    ) {
        context.reservations.hold(&self.held, &fit.held);
        self.pods.push(pod);
        self.set = fit.set;
        self.held = fit.held;
        self.min_values_relaxed |= fit.min_values_relaxed;
        self.rows = fit.rows;
        amounts::add(&mut self.requests, &core.requests);
        self.ports.extend_from_slice(core.ports());
        self.attached.extend(core.volumes.of_ebs().cloned());
        if !core.claims.is_empty() {
            self.devices = context.used_on_claim(self, core, &self.rows);
            context.record_allocation_on_claim(self.host, core);
        }
        self.measure(context);
        self.count_against_limits(context);
        let place = self.place(context);
        context.record(core, &place);
    }

    /// Updates the amounts that the claim counts as, for the best types that it can still become.
    fn count_against_limits(&mut self, context: &mut PlacementContext<'a>) {
        let chosen = context.chosen(self.template, self.set, &self.rows);
        if let Some(template) = context.templates.get_mut(self.template) {
            template
                .limits
                .recount(self.counted.as_ref(), chosen.as_ref());
            self.counted = chosen;
        }
    }

    /// Removes a pod that no group counts; `rows` are the types of the claim without it.
    pub(crate) fn release(
        &mut self,
        pod: usize,
        core: &ShapeCore<'a>,
        rows: BitSet,
        context: &PlacementContext<'a>,
    ) {
        self.pods.retain(|known| *known != pod);
        amounts::subtract(&mut self.requests, &core.requests);
        self.rows = rows;
        self.measure(context);
    }

    fn measure(&mut self, context: &PlacementContext<'a>) {
        if let Some(template) = context.templates.get(self.template) {
            let most = template.room.most(&self.rows);
            self.slack = most
                .zip(&self.requests)
                .map(|(most, used)| most.saturating_sub(*used))
                .collect();
        }
    }
}

impl<'a> PlacementContext<'a> {
    pub(crate) fn keep_matching(&mut self, template: usize, set: SetId, rows: &mut BitSet) {
        let Some(catalog) = self
            .templates
            .get(template)
            .and_then(|template| self.catalogs.get_mut(template.catalog))
        else {
            return;
        };
        let matching = catalog.matching(set, &mut self.algebra);
        rows.and(catalog.memoized(matching));
    }

    pub(crate) fn record(&mut self, core: &ShapeCore<'a>, place: &Place) {
        let Self {
            topology,
            algebra,
            tolerance,
            ..
        } = self;
        topology.record(&core.member, place, algebra, tolerance);
    }
}
