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
    bits::BitSet,
    claim::{Claim, ClaimStage},
    min_values::UnmetMinValues,
    outcome::to_requirement,
    placement_context::{PlacementContext, Refusal},
    ports,
    reason::{ConflictSide, DOMAINS_SHOWN, Reason},
    shape::{ShapeCore, ShapeId},
    solve::Solver,
    template::Template,
    topology::{
        ApplicableConstraint, GroupId,
        group::{Group, GroupKind},
    },
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
    if let Some(claims) = solver.context.volumes.apart(core.spec.pod) {
        return vec![(None, Reason::VolumesApart(claims))];
    }
    if let Some(problem) = &core.claims.problem {
        return vec![(None, Reason::Devices(problem.clone()))];
    }
    if let Some(nodes) = named::refusing(solver, &core, &constraints) {
        return vec![(None, Reason::NamedNodes(nodes))];
    }
    (0..solver.context.templates.len())
        .map(|at| (Some(at), reason(solver, at, &core, &constraints)))
        .collect()
}

fn reason<'a>(
    solver: &mut Solver<'a>,
    at: usize,
    core: &ShapeCore<'a>,
    constraints: &[ApplicableConstraint],
) -> Reason {
    // A refusal without limits is more specific than the limits.
    let within_limits = solver.empty_claim(at);
    let Some(claim) = solver.unlimited_claim(at) else {
        return pool::nothing_to_make(at, &mut solver.context);
    };
    let context = &mut solver.context;
    match claim.check(core, constraints, ClaimStage::New, context) {
        Err(refusal) => describe(&refusal, &claim, core, constraints, context),
        Ok(fit) => {
            let fits = |claim: Claim<'a>| {
                claim
                    .check(core, constraints, ClaimStage::New, context)
                    .is_ok()
            };
            if within_limits.is_ok_and(fits) {
                Reason::NextRound
            } else {
                pool::limit(at, &fit.rows, context)
            }
        }
    }
}

fn describe<'a>(
    refusal: &Refusal,
    claim: &Claim<'a>,
    core: &ShapeCore<'a>,
    constraints: &[ApplicableConstraint],
    context: &mut PlacementContext<'a>,
) -> Reason {
    let Some(template) = context.templates.get(claim.template) else {
        return Reason::NoTypes;
    };
    match refusal {
        Refusal::Taints => context
            .tolerance
            .intolerable(core.tolerations, template.taints)
            .map_or(Reason::NoTypes, |taint| Reason::Taint(taint.clone())),
        Refusal::Hostname => hostname(core, context),
        Refusal::Requirements => incompatible(claim.set, core.sets.on_claims, context),
        Refusal::Resources | Refusal::CoolingDown => resource(claim, core, context),
        Refusal::VolumeLimit => {
            let mut rows = claim.rows.clone();
            template.room.keep_fitting(&core.requests, &mut rows);
            // Without a type that has the ports free, the refusal would have been `Refusal::Ports`.
            let _ = claim.keep_free_ports(core, &template.daemons, &mut rows);
            let catalog = context.catalogs.get(template.catalog);
            Reason::AttachLimit {
                wanted: core.volumes.of_ebs().count(),
                most: catalog.map_or(0, |catalog| catalog.most_attached(&rows)),
            }
        }
        Refusal::Ports => port(claim, core, context),
        Refusal::Volumes => volumes(claim, core, context),
        Refusal::Devices(_) => Reason::Devices(devices(claim, core, context)),
        Refusal::Topology(group, _) => topology(*group, claim, core, context),
        Refusal::Types(_) | Refusal::MinValues(_) => {
            let query = binding::TypeQuery {
                claim,
                core,
                constraints,
                too_few: matches!(refusal, Refusal::MinValues(_)),
            };
            binding::types(query, context)
        }
        Refusal::Reservation => Reason::Reservation,
        Refusal::NodeLimit | Refusal::Limits => Reason::NodeLimit,
    }
}

fn hostname(core: &ShapeCore<'_>, context: &PlacementContext<'_>) -> Reason {
    let wanted = context.algebra.get(core.sets.on_nodes, context.hostname);
    Reason::NoMatchingType(
        wanted
            .map(|req| to_requirement(context.hostname, req, &context.algebra))
            .into_iter()
            .collect(),
    )
}

fn incompatible(known: SetId, incoming: SetId, context: &mut PlacementContext<'_>) -> Reason {
    let algebra = &mut context.algebra;
    if let Some(key) = algebra.undefined(known, incoming, Undefined::WellKnown) {
        return Reason::UndefinedLabel {
            meant: suggested_key(key, known, context),
            key: context.algebra.text(key).to_owned(),
        };
    }
    let conflict = algebra.conflict(known, incoming).and_then(|key| {
        let (wanted, offered) = (algebra.get(incoming, key)?, algebra.get(known, key)?);
        Some(Reason::Requirement {
            wanted: to_requirement(key, wanted, algebra),
            offered: to_requirement(key, offered, algebra),
        })
    });
    conflict.unwrap_or(Reason::NoTypes)
}

/// Label of the NodePool's nodes that was probably meant.
fn suggested_key(unknown: Sym, known: SetId, context: &PlacementContext<'_>) -> Option<String> {
    let algebra = &context.algebra;
    let unknown = algebra.text(unknown);
    let own = algebra.set(known);
    let own = own.iter().map(|entry| algebra.text(entry.0));
    let provider = context.input.options.well_known_labels.iter();
    let provider = provider.map(String::as_str);
    let all = labels::WELL_KNOWN
        .into_iter()
        .chain([labels::HOSTNAME])
        .chain(provider)
        .chain(own);
    nearest_key(unknown, all).map(str::to_owned)
}

fn resource(claim: &Claim<'_>, core: &ShapeCore<'_>, context: &PlacementContext<'_>) -> Reason {
    let Some(template) = context.templates.get(claim.template) else {
        return Reason::NoTypes;
    };
    let mut wanted = claim.requests.clone();
    amounts::add(&mut wanted, &core.requests);
    lack_of_resources(&wanted, &claim.rows, template, context.dimensions.names())
}

/// First resource of which no row has enough, if there is one.
fn lack_of_resources(
    wanted: &[i64],
    rows: &BitSet,
    template: &Template,
    names: &[String],
) -> Reason {
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

fn port(claim: &Claim<'_>, core: &ShapeCore<'_>, context: &PlacementContext<'_>) -> Reason {
    let daemons = context.templates.get(claim.template).map(|t| &*t.daemons);
    let mut taken = daemons.into_iter().flatten();
    let port = taken.find_map(|group| ports::conflict(core.ports(), &group.ports));
    let port = port.or_else(|| core.ports().first());
    port.map_or(Reason::NoTypes, |port| Reason::HostPort {
        port: port.port,
        protocol: port.protocol.clone(),
    })
}

/// Requirements of the pod's volumes, and the side that conflicts with them.
fn volumes(claim: &Claim<'_>, core: &ShapeCore<'_>, context: &mut PlacementContext<'_>) -> Reason {
    let Some(sets) = core.volumes.alternatives.first() else {
        return Reason::NoTypes;
    };
    let wanted = requirements_of(sets.on_nodes, context);
    let sides = [
        (ConflictSide::Pod, core.sets.on_claims),
        (ConflictSide::NodePool, claim.set),
    ];
    let algebra = &mut context.algebra;
    let against = sides.into_iter().find_map(|(side, set)| {
        let key = algebra.conflict(set, sets.on_claims)?;
        Some((side, to_requirement(key, algebra.get(set, key)?, algebra)))
    });
    Reason::Volumes { wanted, against }
}

/// Devices that the otherwise suitable types lack.
fn devices<'a>(
    claim: &Claim<'a>,
    core: &ShapeCore<'a>,
    context: &mut PlacementContext<'a>,
) -> String {
    let rows = suitable_types(claim, core, context);
    context.lack_of_devices(claim, core, &rows)
}

/// Instance types that meet the requirements of a node with the pod and are large enough.
fn suitable_types<'a>(
    claim: &Claim<'a>,
    core: &ShapeCore<'a>,
    context: &mut PlacementContext<'a>,
) -> BitSet {
    let algebra = &mut context.algebra;
    let set = algebra
        .narrow(claim.set, core.sets.on_claims, Undefined::WellKnown)
        .unwrap_or(claim.set);
    let mut rows = claim.rows.clone();
    if let Some(template) = context.templates.get(claim.template) {
        template.room.keep_fitting(&core.requests, &mut rows);
        context.keep_matching(claim.template, set, &mut rows);
    }
    rows
}

fn requirements_of(set: SetId, context: &PlacementContext<'_>) -> Vec<Requirement> {
    let entries = context.algebra.set(set);
    let entries = entries.iter();
    entries
        .map(|(key, req)| to_requirement(*key, *req, &context.algebra))
        .collect()
}

/// Name of the constraint with its parameters.
fn constraint_name(group: &Group) -> String {
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

fn topology(
    id: GroupId,
    claim: &Claim<'_>,
    core: &ShapeCore<'_>,
    context: &PlacementContext<'_>,
) -> Reason {
    let Some(group) = context.topology.group(id) else {
        return Reason::NextRound;
    };
    let is_known = group.by_host || context.algebra.is_well_known(group.key);
    if !is_known && group.domains().is_empty() {
        return Reason::NoDomain {
            rule: constraint_name(group),
            key: context.algebra.text(group.key).to_owned(),
            meant: suggested_key(group.key, claim.set, context),
        };
    }
    let counts = group.domains().iter().take(DOMAINS_SHOWN);
    Reason::Topology {
        rule: constraint_name(group),
        key: context.algebra.text(group.key).to_owned(),
        counts: counts
            .map(|domain| (context.algebra.text(domain.value).to_owned(), domain.count))
            .collect(),
        volumes: domains_of_volumes(group.key, core, context),
    }
}

/// Values of the topology key with which the pod's volumes are reachable; `None` if they are reachable with all.
fn domains_of_volumes(
    key: Sym,
    core: &ShapeCore<'_>,
    context: &PlacementContext<'_>,
) -> Option<Requirement> {
    let algebra = &context.algebra;
    let alternatives = core.volumes.alternatives.iter();
    let reachable = alternatives.map(|sets| {
        let wanted = algebra.get(sets.on_nodes, key)?;
        Some(to_requirement(key, wanted, algebra))
    });
    let merged = reachable.reduce(|all, more| {
        let (mut all, more) = (all?, more?);
        if all.complement || more.complement {
            return None;
        }
        all.values.extend(more.values);
        Some(all)
    });
    merged.flatten()
}

fn too_few(unmet: &UnmetMinValues, algebra: &Algebra) -> Reason {
    Reason::MinValues {
        key: algebra.text(unmet.key).to_owned(),
        wanted: unmet.wanted,
        reached: unmet.reached,
    }
}

#[cfg(test)]
mod tests;
