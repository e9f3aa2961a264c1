//! Reasons for unplaced pods, computed once per shape after the search (docs/spec/scheduling.md#instance-type-filter).

mod binding;
mod contradiction;
mod disagreement;
mod named;
mod pool;

use std::rc::Rc;

use model::{labels, requirement::Requirement, spelling::nearest_key};

use crate::{
    algebra::{Algebra, SetId, Sym, Undefined},
    amounts,
    bits::Bits,
    claim::{Claim, Stage},
    min_values::Unmet,
    outcome::spelled_out,
    ports,
    reason::{DOMAINS_SHOWN, Reason, Side},
    shape::{Core, ShapeId},
    solve::Solver,
    template::Template,
    topology::{
        ApplicableConstraint, GroupId,
        group::{Group, GroupKind},
    },
    world::{Refusal, World},
};

/// One reason per NodePool, or a single one that holds for all of them.
pub(crate) fn reasons(solver: &mut Solver<'_>, shape: ShapeId) -> Vec<(Option<usize>, Reason)> {
    let Some((core, search)) = solver.shapes.get(shape.0 as usize) else {
        return Vec::new();
    };
    let (core, constraints) = (Rc::clone(core), Rc::clone(&search.constraints));
    if let Some(reason) = contradiction::contradiction(core.spec.pod) {
        return vec![(None, reason)];
    }
    if let Some(claims) = solver.world.volumes.apart(core.spec.pod) {
        return vec![(None, Reason::VolumesApart(claims))];
    }
    if let Some(problem) = &core.claims.problem {
        return vec![(None, Reason::Devices(problem.clone()))];
    }
    if let Some(nodes) = named::refusing(solver, &core, &constraints) {
        return vec![(None, Reason::NamedNodes(nodes))];
    }
    (0..solver.world.templates.len())
        .map(|at| (Some(at), reason(solver, at, &core, &constraints)))
        .collect()
}

fn reason<'a>(
    solver: &mut Solver<'a>,
    at: usize,
    core: &Core<'a>,
    constraints: &[ApplicableConstraint],
) -> Reason {
    // A refusal without limits is more specific than the limits.
    let within_limits = solver.empty_claim(at);
    let Some(claim) = solver.unlimited_claim(at) else {
        return pool::nothing_to_make(at, &mut solver.world);
    };
    let world = &mut solver.world;
    match claim.check(core, constraints, Stage::New, world) {
        Err(refusal) => describe(&refusal, &claim, core, constraints, world),
        Ok(fit) => {
            let fits = |claim: Claim<'a>| claim.check(core, constraints, Stage::New, world).is_ok();
            if within_limits.is_ok_and(fits) {
                Reason::NextRound
            } else {
                pool::limit(at, &fit.rows, world)
            }
        }
    }
}

fn describe<'a>(
    refusal: &Refusal,
    claim: &Claim<'a>,
    core: &Core<'a>,
    constraints: &[ApplicableConstraint],
    world: &mut World<'a>,
) -> Reason {
    let Some(template) = world.templates.get(claim.template) else {
        return Reason::NoTypes;
    };
    match refusal {
        Refusal::Taints => world
            .tolerance
            .intolerable(core.tolerations, template.taints)
            .map_or(Reason::NoTypes, |taint| Reason::Taint(taint.clone())),
        Refusal::Hostname => hostname(core, world),
        Refusal::Requirements => incompatible(claim.set, core.sets.on_claims, world),
        Refusal::Resources | Refusal::CoolingDown => resource(claim, core, world),
        Refusal::VolumeLimit => {
            let mut rows = claim.rows.clone();
            template.room.keep_fitting(&core.requests, &mut rows);
            // Whether types remain does not matter here: if none has the port free, ports are the reason instead.
            let _ = claim.keep_free_ports(core, &template.daemons, &mut rows);
            let catalog = world.catalogs.get(template.catalog);
            Reason::AttachLimit {
                wanted: core.volumes.of_ebs().count(),
                most: catalog.map_or(0, |catalog| catalog.most_attached(&rows)),
            }
        }
        Refusal::Ports => port(claim, core, world),
        Refusal::Volumes => volumes(claim, core, world),
        Refusal::Devices(_) => Reason::Devices(devices(claim, core, world)),
        Refusal::Topology(group, _) => topology(*group, claim, world),
        Refusal::Types(_) | Refusal::MinValues(_) => {
            let question = binding::Question {
                claim,
                core,
                constraints,
                too_few: matches!(refusal, Refusal::MinValues(_)),
            };
            binding::types(question, world)
        }
        Refusal::Reservation => Reason::Reservation,
        Refusal::NodeLimit | Refusal::Limits => Reason::NodeLimit,
    }
}

fn hostname(core: &Core<'_>, world: &World<'_>) -> Reason {
    let wanted = world.algebra.get(core.sets.on_nodes, world.hostname);
    Reason::NoMatchingType(
        wanted
            .map(|req| spelled_out(world.hostname, req, &world.algebra))
            .into_iter()
            .collect(),
    )
}

fn incompatible(known: SetId, incoming: SetId, world: &mut World<'_>) -> Reason {
    let algebra = &mut world.algebra;
    if let Some(key) = algebra.undefined(known, incoming, Undefined::WellKnown) {
        return Reason::UndefinedLabel {
            meant: meant(key, known, world),
            key: world.algebra.text(key).to_owned(),
        };
    }
    let conflict = algebra.conflict(known, incoming).and_then(|key| {
        let (wanted, offered) = (algebra.get(incoming, key)?, algebra.get(known, key)?);
        Some(Reason::Requirement {
            wanted: spelled_out(key, wanted, algebra),
            offered: spelled_out(key, offered, algebra),
        })
    });
    conflict.unwrap_or(Reason::NoTypes)
}

/// Label of the NodePool's nodes that was probably meant.
fn meant(unknown: Sym, known: SetId, world: &World<'_>) -> Option<String> {
    let algebra = &world.algebra;
    let unknown = algebra.text(unknown);
    let own = algebra.set(known);
    let own = own.iter().map(|entry| algebra.text(entry.0));
    let provider = world.input.options.well_known_labels.iter();
    let provider = provider.map(String::as_str);
    let all = labels::WELL_KNOWN
        .into_iter()
        .chain([labels::HOSTNAME])
        .chain(provider)
        .chain(own);
    nearest_key(unknown, all).map(str::to_owned)
}

fn resource(claim: &Claim<'_>, core: &Core<'_>, world: &World<'_>) -> Reason {
    let Some(template) = world.templates.get(claim.template) else {
        return Reason::NoTypes;
    };
    let mut wanted = claim.requests.clone();
    amounts::add(&mut wanted, &core.requests);
    lack_of_resources(&wanted, &claim.rows, template, world.dimensions.names())
}

/// First resource of which no row has enough, if there is one.
fn lack_of_resources(wanted: &[i64], rows: &Bits, template: &Template, names: &[String]) -> Reason {
    let most = template.room.most(rows);
    let short = names.iter().zip(wanted.iter().zip(most));
    let mut short = short.filter(|(_, (wanted, most))| *wanted > most);
    short
        .next()
        .map_or(Reason::NoTypeLargeEnough, |(name, (wanted, most))| {
            Reason::Resource {
                name: name.clone(),
                wanted: *wanted,
                most: most.max(0),
            }
        })
}

fn port(claim: &Claim<'_>, core: &Core<'_>, world: &World<'_>) -> Reason {
    let daemons = world.templates.get(claim.template).map(|t| &*t.daemons);
    let mut taken = daemons.into_iter().flatten();
    let port = taken.find_map(|group| ports::conflict(core.ports(), &group.ports));
    let port = port.or_else(|| core.ports().first());
    port.map_or(Reason::NoTypes, |port| Reason::HostPort {
        port: port.port,
        protocol: port.protocol.clone(),
    })
}

/// Requirements of the pod's volumes, and the side that conflicts with them.
fn volumes(claim: &Claim<'_>, core: &Core<'_>, world: &mut World<'_>) -> Reason {
    let Some(sets) = core.volumes.alternatives.first() else {
        return Reason::NoTypes;
    };
    let wanted = spell(sets.on_nodes, world);
    let sides = [
        (Side::Pod, core.sets.on_claims),
        (Side::NodePool, claim.set),
    ];
    let algebra = &mut world.algebra;
    let against = sides.into_iter().find_map(|(side, set)| {
        let key = algebra.conflict(set, sets.on_claims)?;
        Some((side, spelled_out(key, algebra.get(set, key)?, algebra)))
    });
    Reason::Volumes { wanted, against }
}

/// Devices that the otherwise suitable types lack.
fn devices<'a>(claim: &Claim<'a>, core: &Core<'a>, world: &mut World<'a>) -> String {
    let rows = suiting(claim, core, world);
    world.lack_of_devices(claim, core, &rows)
}

/// Instance types that meet the requirements of a node with the pod and are large enough.
fn suiting<'a>(claim: &Claim<'a>, core: &Core<'a>, world: &mut World<'a>) -> Bits {
    let algebra = &mut world.algebra;
    let set = algebra
        .narrow(claim.set, core.sets.on_claims, Undefined::WellKnown)
        .unwrap_or(claim.set);
    let mut rows = claim.rows.clone();
    if let Some(template) = world.templates.get(claim.template) {
        template.room.keep_fitting(&core.requests, &mut rows);
        world.keep_matching(claim.template, set, &mut rows);
    }
    rows
}

fn spell(set: SetId, world: &World<'_>) -> Vec<Requirement> {
    let entries = world.algebra.set(set);
    let entries = entries.iter();
    entries
        .map(|(key, req)| spelled_out(*key, *req, &world.algebra))
        .collect()
}

/// Name of the constraint with its parameters.
fn rule(group: &Group) -> String {
    let name = match group.kind {
        GroupKind::Spread => "topology spread",
        GroupKind::Affinity => "pod affinity",
        GroupKind::AntiAffinity => "pod anti-affinity",
    };
    match (group.kind, group.min_domains) {
        (GroupKind::Affinity | GroupKind::AntiAffinity, _) => name.to_owned(),
        (GroupKind::Spread, 0) => format!("{name} with maxSkew {}", group.max_skew),
        (GroupKind::Spread, least) => {
            format!(
                "{name} with maxSkew {} and minDomains {least}",
                group.max_skew
            )
        }
    }
}

fn topology(id: GroupId, claim: &Claim<'_>, world: &World<'_>) -> Reason {
    let Some(group) = world.topology.group(id) else {
        return Reason::NextRound;
    };
    let is_known = group.by_host || world.algebra.is_well_known(group.key);
    if !is_known && group.domains().is_empty() {
        return Reason::NoDomain {
            rule: rule(group),
            key: world.algebra.text(group.key).to_owned(),
            meant: meant(group.key, claim.set, world),
        };
    }
    let counts = group.domains().iter().take(DOMAINS_SHOWN);
    Reason::Topology {
        rule: rule(group),
        key: world.algebra.text(group.key).to_owned(),
        counts: counts
            .map(|domain| (world.algebra.text(domain.value).to_owned(), domain.count))
            .collect(),
    }
}

fn too_few(unmet: &Unmet, algebra: &Algebra) -> Reason {
    Reason::MinValues {
        key: algebra.text(unmet.key).to_owned(),
        wanted: unmet.wanted,
        reached: unmet.reached,
    }
}

#[cfg(test)]
mod tests;
