//! Reasons why no instance type remains for a pod: its own requirements, its volumes, or its topology constraints.

use std::collections::BTreeSet;

use model::{requirement::Requirement, spelling::nearest_value};

use super::{disagreement, lack_of_resources, port, rule, spell, too_few, topology};
use crate::{
    algebra::{SetId, Sym, Undefined},
    bits::Bits,
    claim::Claim,
    min_values,
    outcome::spelled_out,
    reason::{Binding, Reason},
    shape::Core,
    topology::{ApplicableConstraint, Place, TopologyVerdict, daemons::Daemons},
    world::{Refusal, World},
};

/// Pod with the new node on which no type remains for it.
#[derive(Clone, Copy)]
pub(super) struct Question<'q, 'a> {
    pub(super) claim: &'q Claim<'a>,
    pub(super) core: &'q Core<'a>,
    pub(super) constraints: &'q [ApplicableConstraint],
    /// Whether types remain, but too few for the NodePool's `minValues`.
    pub(super) too_few: bool,
}

/// Reason why no type remains: the first constraint that leaves none.
pub(super) fn types<'a>(question: Question<'_, 'a>, world: &mut World<'a>) -> Reason {
    let Question {
        claim,
        core,
        constraints,
        ..
    } = question;
    let own = world
        .algebra
        .narrow(claim.set, core.sets.on_claims, Undefined::WellKnown);
    let own = own.unwrap_or(claim.set);
    let asked = spell(core.sets.on_claims, world);
    if let Some(lack) = question.lack(own, asked.clone(), world) {
        return unknown_value(claim, core, world)
            .or_else(|| disagreement::of(claim, core, world))
            .unwrap_or(lack);
    }
    let reachable = with_volumes(own, core, world);
    if let Some(lack) = question.everywhere(&reachable, world) {
        let to = differences(own, &reachable, world);
        return bound(Binding::Volumes, to, lack);
    }
    for rule in constraints
        .iter()
        .map(std::slice::from_ref)
        .chain([constraints])
    {
        let sets = question.places(&reachable, rule, world);
        if let Some(lack) = question.everywhere(&sets, world) {
            let to = differences(own, &sets, world);
            return bound(binding(rule, world), to, lack);
        }
    }
    Reason::NoMatchingType(asked)
}

/// Value that the pod requires and no type has, with the value that was probably meant.
fn unknown_value<'a>(claim: &Claim<'a>, core: &Core<'a>, world: &World<'a>) -> Option<Reason> {
    let template = world.templates.get(claim.template)?;
    let catalog = world.catalogs.get(template.catalog)?;
    let algebra = &world.algebra;
    let asked = algebra.set(core.sets.on_claims);
    asked.iter().find_map(|(key, req)| {
        let (wanted, key_text) = (algebra.req(*req), algebra.text(*key));
        let column = catalog.column(*key).iter();
        let known: Vec<_> = column.map(|(said, _)| algebra.req(*said)).collect();
        if wanted.complement || known.iter().any(|said| said.complement) {
            return None;
        }
        let known: Vec<Sym> = known.iter().flat_map(|said| said.values.to_vec()).collect();
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
fn with_volumes(own: SetId, core: &Core<'_>, world: &mut World<'_>) -> Vec<SetId> {
    if core.volumes.alternatives.is_empty() {
        return vec![own];
    }
    let alternatives = core.volumes.alternatives.iter();
    let algebra = &mut world.algebra;
    let narrowed = alternatives
        .filter_map(|volumes| algebra.narrow(own, volumes.on_claims, Undefined::WellKnown));
    narrowed.collect()
}

fn binding(rules: &[ApplicableConstraint], world: &World<'_>) -> Binding {
    match rules {
        [ApplicableConstraint { group, .. }] => world
            .topology
            .group(*group)
            .map_or(Binding::Rules, |group| Binding::Rule(rule(group))),
        _ => Binding::Rules,
    }
}

impl<'a> Question<'_, 'a> {
    /// Requirements that these topology constraints leave.
    fn places(
        &self,
        sets: &[SetId],
        rules: &[ApplicableConstraint],
        world: &mut World<'a>,
    ) -> Vec<SetId> {
        let mut found = Vec::new();
        for set in sets {
            let place = Place {
                set: *set,
                daemons: self.daemons(*set, world),
                ..self.claim.place(world)
            };
            let World {
                topology, algebra, ..
            } = world;
            let answer = topology.admit(&self.core.member, rules, &place, algebra);
            if let TopologyVerdict::Allowed(allowed) = answer {
                found.extend(allowed);
            }
        }
        found
    }

    /// Daemons that run on every type that a node with these requirements could be.
    fn daemons(&self, set: SetId, world: &mut World<'a>) -> Daemons {
        let mut rows = self.claim.rows.clone();
        world.keep_matching(self.claim.template, set, &mut rows);
        let hosting = self
            .claim
            .keep_beside_daemons(self.constraints, &mut rows, world);
        hosting.unwrap_or_default()
    }

    /// Last reason, if every set leaves no type.
    fn everywhere(&self, sets: &[SetId], world: &mut World<'a>) -> Option<Reason> {
        let mut last = None;
        for set in sets {
            last = Some(self.lack(*set, Vec::new(), world)?);
        }
        last
    }

    /// Reason why no type meets these requirements: labels, offerings, capacity, or the checks after capacity.
    fn lack(&self, set: SetId, asked: Vec<Requirement>, world: &mut World<'a>) -> Option<Reason> {
        let World {
            templates,
            catalogs,
            algebra,
            dimensions,
            ..
        } = world;
        let template = templates.get(self.claim.template)?;
        let catalog = catalogs.get_mut(template.catalog)?;
        let agreeing = catalog.agreeing(set, algebra);
        if agreeing.is_empty() {
            return Some(Reason::NoMatchingType(asked));
        }
        let mut offered = catalog.offering(set, algebra);
        offered.and(&agreeing);
        if offered.is_empty() {
            return Some(Reason::NoOffering(asked));
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
            false => self.lack_besides_size(set, large_enough, world),
        }
    }

    /// First of host ports, attach limits, devices, daemons and `minValues` that excludes the remaining types.
    fn lack_besides_size(
        &self,
        set: SetId,
        mut rows: Bits,
        world: &mut World<'a>,
    ) -> Option<Reason> {
        let Self {
            claim,
            core,
            constraints,
            too_few: is_choice_too_small,
        } = *self;
        let template = world.templates.get(claim.template)?;
        let free = claim.keep_free_ports(core, &template.daemons, &mut rows);
        if free.is_err() {
            return Some(port(claim, core, world));
        }
        let catalog = world.catalogs.get(template.catalog)?;
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
            world.keep_allocating(claim, core, &mut rows);
            if rows.is_empty() {
                return Some(Reason::Devices(world.lack_of_devices(claim, core, &before)));
            }
        }
        if let Err(Refusal::Topology(group, _)) =
            claim.keep_beside_daemons(constraints, &mut rows, world)
        {
            return Some(topology(group, claim, world));
        }
        let template = world.templates.get(claim.template)?;
        let catalog = world.catalogs.get(template.catalog)?;
        let unmet = min_values::unmet(set, &rows, catalog, &world.algebra);
        unmet
            .filter(|_| is_choice_too_small)
            .map(|unmet| too_few(&unmet, &world.algebra))
    }
}

/// Requirements of these sets that `own` does not have, merged by key.
fn differences(own: SetId, sets: &[SetId], world: &mut World<'_>) -> Vec<Requirement> {
    let algebra = &mut world.algebra;
    let before = algebra.set(own);
    let mut found: Vec<Requirement> = Vec::new();
    for set in sets {
        for (key, req) in algebra.set(*set).iter() {
            if before.contains(&(*key, *req)) {
                continue;
            }
            let more = spelled_out(*key, *req, algebra);
            match found.iter_mut().find(|known| known.key == more.key) {
                Some(known) => known.values.extend(more.values),
                None => found.push(more),
            }
        }
    }
    found
}
