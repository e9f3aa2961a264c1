//! Reasons why no instance type remains for a pod: its own requirements, its volumes, or its topology constraints.

use std::collections::BTreeSet;

use model::{requirement::Requirement, spelling::nearest_value};

use super::{
    constraint_name, disagreement, lack_of_resources, port, requirements_of, too_few, topology,
};
use crate::{
    algebra::{SetId, Sym, Undefined},
    bits::BitSet,
    claim::Claim,
    min_values,
    outcome::to_requirement,
    placement_context::{PlacementContext, Refusal},
    reason::{Binding, Reason},
    shape::ShapeCore,
    topology::{ApplicableConstraint, Place, TopologyVerdict, daemons::Daemons},
};

/// Pod with the new node on which no type remains for it.
#[derive(Clone, Copy)]
pub(super) struct TypeQuery<'q, 'a> {
    pub(super) claim: &'q Claim<'a>,
    pub(super) core: &'q ShapeCore<'a>,
    pub(super) constraints: &'q [ApplicableConstraint],
    /// Whether types remain, but too few for the NodePool's `minValues`.
    pub(super) too_few: bool,
}

/// Reason why no type remains: the first constraint that leaves none.
pub(super) fn types<'a>(query: TypeQuery<'_, 'a>, context: &mut PlacementContext<'a>) -> Reason {
    let TypeQuery {
        claim,
        core,
        constraints,
        ..
    } = query;
    let own = context
        .algebra
        .narrow(claim.set, core.sets.on_claims, Undefined::WellKnown);
    let own = own.unwrap_or(claim.set);
    let required = requirements_of(core.sets.on_claims, context);
    if let Some(lack) = query.lack(own, required.clone(), context) {
        return unknown_value(claim, core, context)
            .or_else(|| disagreement::conflicting_requirements(claim, core, context))
            .unwrap_or(lack);
    }
    let reachable = with_volumes(own, core, context);
    if let Some(lack) = query.everywhere(&reachable, context) {
        let to = differences(own, &reachable, context);
        return bound(Binding::Volumes, to, lack);
    }
    for rule in constraints
        .iter()
        .map(std::slice::from_ref)
        .chain([constraints])
    {
        let sets = query.places(&reachable, rule, context);
        if let Some(lack) = query.everywhere(&sets, context) {
            let to = differences(own, &sets, context);
            return bound(binding(rule, context), to, lack);
        }
    }
    Reason::NoMatchingType(required)
}

/// Value that the pod requires and no type has, with the value that was probably meant.
fn unknown_value<'a>(
    claim: &Claim<'a>,
    core: &ShapeCore<'a>,
    context: &PlacementContext<'a>,
) -> Option<Reason> {
    let template = context.templates.get(claim.template)?;
    let catalog = context.catalogs.get(template.catalog)?;
    let algebra = &context.algebra;
    let required = algebra.set(core.sets.on_claims);
    required.iter().find_map(|(key, req)| {
        let (wanted, key_text) = (algebra.req(*req), algebra.text(*key));
        let column = catalog.column(*key).iter();
        let known: Vec<_> = column.map(|(stated, _)| algebra.req(*stated)).collect();
        if wanted.complement || known.iter().any(|stated| stated.complement) {
            return None;
        }
        let known: Vec<Sym> = known
            .iter()
            .flat_map(|stated| stated.values.to_vec())
            .collect();
        if wanted.values.iter().any(|value| known.contains(value)) {
            return None;
        }
        let known: BTreeSet<&str> = known.into_iter().map(|value| algebra.text(value)).collect();
        let value = algebra.text(*wanted.values.first()?);
        Some(Reason::UnknownValue {
            key: key_text.to_owned(),
            value: value.to_owned(),
            meant: nearest_value(value, known)?.to_owned(),
        })
    })
}

fn bound(by: Binding, to: Vec<Requirement>, lack: Reason) -> Reason {
    let lack = Box::new(lack);
    Reason::Bound { by, to, lack }
}

/// Requirements of a node that reaches the pod's volumes, one set per alternative.
fn with_volumes(
    own: SetId,
    core: &ShapeCore<'_>,
    context: &mut PlacementContext<'_>,
) -> Vec<SetId> {
    if core.volumes.alternatives.is_empty() {
        return vec![own];
    }
    let alternatives = core.volumes.alternatives.iter();
    let algebra = &mut context.algebra;
    let narrowed = alternatives
        .filter_map(|volumes| algebra.narrow(own, volumes.on_claims, Undefined::WellKnown));
    narrowed.collect()
}

fn binding(rules: &[ApplicableConstraint], context: &PlacementContext<'_>) -> Binding {
    match rules {
        [ApplicableConstraint { group, .. }] => context
            .topology
            .group(*group)
            .map_or(Binding::Rules, |group| {
                Binding::Rule(constraint_name(group))
            }),
        _ => Binding::Rules,
    }
}

impl<'a> TypeQuery<'_, 'a> {
    /// Requirements that these topology constraints leave.
    fn places(
        &self,
        sets: &[SetId],
        rules: &[ApplicableConstraint],
        context: &mut PlacementContext<'a>,
    ) -> Vec<SetId> {
        let mut found = Vec::new();
        for set in sets {
            let place = Place {
                set: *set,
                daemons: self.daemons(*set, context),
                ..self.claim.place(context)
            };
            let PlacementContext {
                topology, algebra, ..
            } = context;
            let verdict = topology.admit(&self.core.member, rules, &place, algebra);
            if let TopologyVerdict::Allowed(allowed) = verdict {
                found.extend(allowed);
            }
        }
        found
    }

    /// Daemons that run on every type that a node with these requirements could be.
    fn daemons(&self, set: SetId, context: &mut PlacementContext<'a>) -> Daemons {
        let mut rows = self.claim.rows.clone();
        context.keep_matching(self.claim.template, set, &mut rows);
        let hosting = self
            .claim
            .keep_beside_daemons(self.constraints, &mut rows, context);
        hosting.unwrap_or_default()
    }

    /// Last reason, if every set leaves no type.
    fn everywhere(&self, sets: &[SetId], context: &mut PlacementContext<'a>) -> Option<Reason> {
        let mut last = None;
        for set in sets {
            last = Some(self.lack(*set, Vec::new(), context)?);
        }
        last
    }

    /// Reason why no type meets these requirements: labels, offerings, capacity, or the checks after capacity.
    fn lack(
        &self,
        set: SetId,
        required: Vec<Requirement>,
        context: &mut PlacementContext<'a>,
    ) -> Option<Reason> {
        let PlacementContext {
            templates,
            catalogs,
            algebra,
            dimensions,
            ..
        } = context;
        let template = templates.get(self.claim.template)?;
        let catalog = catalogs.get_mut(template.catalog)?;
        let agreeing = catalog.agreeing(set, algebra);
        if agreeing.is_empty() {
            return Some(Reason::NoMatchingType(required));
        }
        let mut offered = catalog.offering(set, algebra);
        offered.and(&agreeing);
        if offered.is_empty() {
            return Some(Reason::NoOffering(required));
        }
        offered.and(&self.claim.rows);
        let requests = &self.core.requests;
        let mut large_enough = offered.clone();
        template.room.keep_fitting(requests, &mut large_enough);
        match large_enough.is_empty() {
            true => Some(lack_of_resources(
                requests,
                &offered,
                template,
                dimensions.names(),
            )),
            false => self.lack_besides_size(set, large_enough, context),
        }
    }

    /// First of host ports, attach limits, devices, daemons and `minValues` that excludes the remaining types.
    fn lack_besides_size(
        &self,
        set: SetId,
        mut rows: BitSet,
        context: &mut PlacementContext<'a>,
    ) -> Option<Reason> {
        let Self {
            claim,
            core,
            constraints,
            too_few: is_choice_too_small,
        } = *self;
        let template = context.templates.get(claim.template)?;
        let free = claim.keep_free_ports(core, &template.daemons, &mut rows);
        if free.is_err() {
            return Some(port(claim, core, context));
        }
        let catalog = context.catalogs.get(template.catalog)?;
        let before = rows.clone();
        if claim
            .keep_attaching(core, Some(catalog), &mut rows)
            .is_err()
        {
            return Some(Reason::AttachLimit {
                wanted: core.volumes.of_ebs().count(),
                most: catalog.most_attached(&before),
            });
        }
        if !core.claims.is_empty() {
            let before = rows.clone();
            context.keep_allocating(claim, core, &mut rows);
            if rows.is_empty() {
                return Some(Reason::Devices(
                    context.lack_of_devices(claim, core, &before),
                ));
            }
        }
        if let Err(Refusal::Topology(group, _)) =
            claim.keep_beside_daemons(constraints, &mut rows, context)
        {
            return Some(topology(group, claim, core, context));
        }
        let template = context.templates.get(claim.template)?;
        let catalog = context.catalogs.get(template.catalog)?;
        let unmet = min_values::unmet(set, &rows, catalog, &context.algebra);
        unmet
            .filter(|_| is_choice_too_small)
            .map(|unmet| too_few(&unmet, &context.algebra))
    }
}

/// Requirements of these sets that `own` does not have, merged by key.
fn differences(own: SetId, sets: &[SetId], context: &mut PlacementContext<'_>) -> Vec<Requirement> {
    let algebra = &mut context.algebra;
    let before = algebra.set(own);
    let mut found: Vec<Requirement> = Vec::new();
    for set in sets {
        for (key, req) in algebra.set(*set).iter() {
            if before.contains(&(*key, *req)) {
                continue;
            }
            let more = to_requirement(*key, *req, algebra);
            match found.iter_mut().find(|known| known.key == more.key) {
                Some(known) => known.values.extend(more.values),
                None => found.push(more),
            }
        }
    }
    found
}
