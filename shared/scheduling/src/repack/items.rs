//! Pods that may move to other new nodes, grouped into items of equal pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use crate::{
    algebra::{Algebra, SetId, Sym},
    claim::Claim,
    placement_context::PlacementContext,
    shape::{NodeRequirements, ShapeCore, ShapeId, VolumeNeeds},
    solve::Solver,
    topology::{ApplicableConstraint, GroupId, group::GroupKind},
};

/// Pods of the new nodes of a NodePool that may be packed again.
pub(crate) struct MovablePods<'a> {
    /// Indexes of the claims.
    pub(crate) claims: Vec<usize>,
    pub(crate) items: Vec<Item<'a>>,
}

/// Equal pods.
pub(crate) struct Item<'a> {
    /// Core whose requirements include the fixed labels.
    pub(crate) core: Rc<ShapeCore<'a>>,
    /// Applicable constraints that count per host.
    pub(crate) constraints: Vec<ApplicableConstraint>,
    pub(crate) rules: Rc<[HostRule]>,
    pub(crate) pods: Vec<usize>,
    /// Amounts that each pod takes of a node: its requests, and as last entry the EBS volumes that only this pod uses. The
    /// layout is that of [`PurchaseOption::room`].
    ///
    /// [`PurchaseOption::room`]: super::offers::PurchaseOption::room
    pub(crate) wanted: Box<[i64]>,
}

impl<'a> Item<'a> {
    pub(crate) fn new(
        core: Rc<ShapeCore<'a>>,
        constraints: Vec<ApplicableConstraint>,
        rules: Rc<[HostRule]>,
        pods: Vec<usize>,
    ) -> Self {
        // Equal pods have the same claims, so several of them share their attachments.
        let volumes = match pods.len() {
            1 => core.volumes.of_ebs().count(),
            _ => 0,
        };
        let wanted = core.requests.iter().copied();
        let wanted = wanted.chain([i64::try_from(volumes).unwrap_or(i64::MAX)]);
        Self {
            wanted: wanted.collect(),
            core,
            constraints,
            rules,
            pods,
        }
    }

    /// Number of EBS volumes that each of its pods uses alone.
    pub(crate) fn volumes(&self) -> i64 {
        self.wanted.last().copied().unwrap_or(0)
    }

    pub(crate) fn requirements(&self) -> SetId {
        self.core.sets.on_claims
    }
}

/// Relation of an item to a topology group that counts per host.
#[derive(Clone, Copy)]
pub(crate) struct HostRule {
    pub(crate) group: GroupId,
    /// Largest count on a host that the pod may join.
    pub(crate) most: Option<i64>,
    pub(crate) counts: bool,
}

/// Labels and host rules that a pod has to keep when it moves.
struct FixedLabels {
    keys: Vec<FixedLabel>,
    rules: Rc<[HostRule]>,
    constraints: Vec<ApplicableConstraint>,
}

/// Label whose value is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FixedLabel {
    key: Sym,
    /// Whether the label needs exactly one value, because the pod is counted in that domain.
    in_one_domain: bool,
}

/// `None` if the NodePool has no new node whose pods may move.
pub(crate) fn movable<'a>(solver: &mut Solver<'a>, template: usize) -> Option<MovablePods<'a>> {
    let mut fixed_labels: BTreeMap<ShapeId, Option<FixedLabels>> = BTreeMap::new();
    let mut claims = Vec::new();
    let mut found: BTreeMap<(ShapeId, SetId), Vec<usize>> = BTreeMap::new();
    for (at, claim) in solver.claims.iter().enumerate() {
        if claim.template != template {
            continue;
        }
        let members = members(claim, &solver.placed_as, |shape| {
            let known = fixed_labels.entry(shape).or_insert_with(|| {
                let core = solver.shapes.get(shape.0 as usize).map(|(core, _)| core);
                core.and_then(|core| fixed_labels_of(core, &mut solver.context))
            });
            let pins = fixed_requirements(known.as_ref()?, claim.set, &mut solver.context.algebra)?;
            Some((shape, pins))
        });
        if let Some(members) = members {
            claims.push(at);
            for (pod, key) in members {
                found.entry(key).or_default().push(pod);
            }
        }
    }
    let items = found.into_iter().filter_map(|((shape, pins), mut pods)| {
        pods.sort_by_key(|pod| solver.context.input.pods.get(*pod).map(|pod| &pod.key));
        let (core, _) = solver.shapes.get(shape.0 as usize)?;
        let fixed_labels = fixed_labels.get(&shape)?.as_ref()?;
        Some(Item::new(
            Rc::new(pinned(core, pins, &mut solver.context.algebra)),
            fixed_labels.constraints.clone(),
            Rc::clone(&fixed_labels.rules),
            pods,
        ))
    });
    let items: Vec<Item<'a>> = items.collect();
    (!items.is_empty()).then_some(MovablePods { claims, items })
}

/// Pods of a claim with their shapes and fixed labels; `None` if one of them may not move.
fn members(
    claim: &Claim<'_>,
    placed_as: &[ShapeId],
    mut decided: impl FnMut(ShapeId) -> Option<(ShapeId, SetId)>,
) -> Option<Vec<(usize, (ShapeId, SetId))>> {
    let pods = claim.pods.iter();
    pods.map(|pod| Some((*pod, decided(*placed_as.get(*pod)?)?)))
        .collect()
}

/// `None` for pods that may not move: those with host ports or device claims, those with pod affinity per host, and those
/// that a spread constraint of other pods counts, since that constraint may filter nodes.
fn fixed_labels_of<'a>(
    core: &Rc<ShapeCore<'a>>,
    context: &mut PlacementContext<'a>,
) -> Option<FixedLabels> {
    if !core.ports().is_empty() || !core.claims.is_empty() {
        return None;
    }
    let topology = &mut context.topology;
    let (constraints, counting) = (
        topology.applicable_constraints(&core.member),
        topology.counting(&core.member),
    );
    let mut keys: BTreeSet<FixedLabel> = BTreeSet::new();
    let mut rules = Vec::new();
    let groups: BTreeSet<GroupId> = constraints
        .iter()
        .map(|constraint| constraint.group)
        .chain(counting.iter().copied())
        .collect();
    for id in groups {
        let group = topology.group(id)?;
        let mine = constraints.iter().find(|constraint| constraint.group == id);
        let counts = counting.contains(&id);
        if group.kind == GroupKind::Spread && mine.is_none()
            || group.by_host && group.kind == GroupKind::Affinity
        {
            return None;
        }
        if group.by_host {
            rules.push(HostRule {
                group: id,
                most: mine.map(|mine| match group.kind {
                    GroupKind::Spread => group.max_skew - i64::from(mine.counts_itself),
                    GroupKind::Affinity | GroupKind::AntiAffinity => 0,
                }),
                counts,
            });
        } else {
            keys.insert(FixedLabel {
                key: group.key,
                in_one_domain: group.kind != GroupKind::AntiAffinity,
            });
        }
    }
    let algebra = &context.algebra;
    for alternative in &core.volumes.alternatives {
        keys.extend(
            algebra
                .set(alternative.on_claims)
                .iter()
                .map(|(key, _)| FixedLabel {
                    key: *key,
                    in_one_domain: false,
                }),
        );
    }
    Some(FixedLabels {
        keys: keys.into_iter().collect(),
        rules: rules.into(),
        constraints: constraints
            .into_iter()
            .filter(|constraint| {
                topology
                    .group(constraint.group)
                    .is_some_and(|group| group.by_host)
            })
            .collect(),
    })
}

/// Requirements of the claim for the fixed labels.
fn fixed_requirements(
    fixed_labels: &FixedLabels,
    claim: SetId,
    algebra: &mut Algebra,
) -> Option<SetId> {
    let mut pins = Algebra::EMPTY;
    for fixed in &fixed_labels.keys {
        let req = algebra.get(claim, fixed.key)?;
        let one = algebra
            .values(claim, fixed.key)
            .is_some_and(|req| req.values.len() == 1);
        if fixed.in_one_domain && !one {
            return None;
        }
        pins = algebra.add(pins, fixed.key, req);
    }
    Some(pins)
}

fn pinned<'a>(core: &ShapeCore<'a>, pins: SetId, algebra: &mut Algebra) -> ShapeCore<'a> {
    ShapeCore {
        sets: NodeRequirements {
            on_claims: algebra.merge(core.sets.on_claims, pins),
            ..core.sets
        },
        volumes: Rc::new(VolumeNeeds {
            attachments: core.volumes.attachments.clone(),
            ..VolumeNeeds::default()
        }),
        ..core.with_requests(core.requests.clone())
    }
}
