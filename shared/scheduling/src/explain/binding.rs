//! No instance type is left for a pod: because of what it asks for itself, or of what its volumes or its rules about other pods
//! bind it to.

use std::collections::BTreeSet;

use model::{requirement::Requirement, spelling::nearest_value};

use super::{disagreement, lack_of_resources, rule, spell};
use crate::{
    algebra::{SetId, Sym, Undefined},
    claim::Claim,
    outcome::spelled_out,
    reason::{Binding, Reason},
    shape::Core,
    topology::{Answer, Obeyed, Place},
    world::World,
};

/// Why no type is left for the pod on a new node: the first constraint that leaves none is named.
pub(super) fn types<'a>(
    claim: &Claim<'a>,
    core: &Core<'a>,
    obeyed: &[Obeyed],
    world: &mut World<'a>,
) -> Reason {
    let own = world
        .algebra
        .narrow(claim.set, core.sets.on_claims, Undefined::WellKnown);
    let own = own.unwrap_or(claim.set);
    let asked = spell(core.sets.on_claims, world);
    if let Some(lack) = lack(claim, core, own, asked, world) {
        return unknown_value(claim, core, world)
            .or_else(|| disagreement::of(claim, core, world))
            .unwrap_or(lack);
    }
    let reachable = with_volumes(own, core, world);
    if let Some(lack) = everywhere(&reachable, claim, core, world) {
        let to = differences(own, &reachable, world);
        return bound(Binding::Volumes, to, lack);
    }
    for rule in obeyed.iter().map(std::slice::from_ref).chain([obeyed]) {
        let sets = places(&reachable, claim, core, rule, world);
        if let Some(lack) = everywhere(&sets, claim, core, world) {
            let to = differences(own, &sets, world);
            return bound(binding(rule, world), to, lack);
        }
    }
    Reason::NoTypeLargeEnough
}

/// A value that the pod asks for, which no type has, and that which was probably meant.
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

/// The requirements of a node that reaches the pod's volumes, one set for each way to.
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

/// The requirements that these rules about other pods leave.
fn places<'a>(
    sets: &[SetId],
    claim: &Claim<'a>,
    core: &Core<'a>,
    rules: &[Obeyed],
    world: &mut World<'a>,
) -> Vec<SetId> {
    let mut found = Vec::new();
    for set in sets {
        let place = Place {
            set: *set,
            ..claim.place(world)
        };
        let World {
            topology, algebra, ..
        } = world;
        if let Answer::Allowed(allowed) = topology.ask(&core.member, rules, &place, algebra) {
            found.extend(allowed);
        }
    }
    found
}

fn binding(rules: &[Obeyed], world: &World<'_>) -> Binding {
    match rules {
        [Obeyed { group, .. }] => world
            .topology
            .group(*group)
            .map_or(Binding::Rules, |group| Binding::Rule(rule(group))),
        _ => Binding::Rules,
    }
}

/// The last of these lacks, if no set leaves a type.
fn everywhere<'a>(
    sets: &[SetId],
    claim: &Claim<'a>,
    core: &Core<'a>,
    world: &mut World<'a>,
) -> Option<Reason> {
    let mut last = None;
    for set in sets {
        last = Some(lack(claim, core, *set, Vec::new(), world)?);
    }
    last
}

/// The reason that no type meets these requirements: labels, offerings or size.
fn lack<'a>(
    claim: &Claim<'a>,
    core: &Core<'a>,
    set: SetId,
    asked: Vec<Requirement>,
    world: &mut World<'a>,
) -> Option<Reason> {
    let World {
        templates,
        catalogs,
        algebra,
        dimensions,
        ..
    } = world;
    let template = templates.get(claim.template)?;
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
    offered.and(&claim.rows);
    let mut large_enough = offered.clone();
    template
        .room
        .keep_fitting(&core.requests, &mut large_enough);
    match large_enough.is_empty() {
        true => Some(lack_of_resources(
            &core.requests,
            &offered,
            template,
            dimensions.names(),
        )),
        false => None,
    }
}

/// The requirements of these sets that are not in `own`, together.
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
