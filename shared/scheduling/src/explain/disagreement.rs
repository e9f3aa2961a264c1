//! Minimal sets of requirements that no instance type meets together.

use model::requirement::Requirement;

use crate::{
    algebra::{Algebra, ReqId, SetId, Sym},
    catalog::Catalog,
    claim::Claim,
    outcome::to_requirement,
    placement_context::PlacementContext,
    reason::Reason,
    shape::ShapeCore,
};

/// Names the conflicting requirements of the pod, and of the NodePool's nodes if types meet the pod's alone; `None` if some
/// type meets all.
pub(super) fn conflicting_requirements<'a>(
    claim: &Claim<'a>,
    core: &ShapeCore<'a>,
    context: &mut PlacementContext<'a>,
) -> Option<Reason> {
    let PlacementContext {
        templates,
        catalogs,
        algebra,
        ..
    } = context;
    let template = templates.get(claim.template)?;
    let catalog = catalogs.get_mut(template.catalog)?;
    let (required, own) = (algebra.set(core.sets.on_claims), algebra.set(claim.set));
    let mut wanted = irreconcilable(&required, &own, catalog, algebra)?;
    let offered = wanted.split_off(wanted.partition_point(|entry| required.contains(entry)));
    let spelled = |entries: &[(Sym, ReqId)]| -> Vec<Requirement> {
        let entries = entries.iter();
        entries
            .map(|(key, req)| to_requirement(*key, *req, algebra))
            .collect()
    };
    Some(match (wanted.as_slice(), offered.as_slice()) {
        ([(key, req)], []) => match catalog.column(*key) {
            // The operating system, for example, follows from the EC2NodeClass.
            [(only, _)] => Reason::Requirement {
                wanted: to_requirement(*key, *req, algebra),
                offered: to_requirement(*key, *only, algebra),
            },
            _ => Reason::NoMatchingType(spelled(&wanted)),
        },
        (_, []) => Reason::NoMatchingType(spelled(&wanted)),
        _ => Reason::NoCommonType {
            wanted: spelled(&wanted),
            offered: spelled(&offered),
        },
    })
}

/// Minimal subset of requirements that leaves no type. If there are several, the one with the earliest entries.
pub(super) fn irreconcilable(
    first: &[(Sym, ReqId)],
    then: &[(Sym, ReqId)],
    catalog: &mut Catalog<'_>,
    algebra: &mut Algebra,
) -> Option<Vec<(Sym, ReqId)>> {
    let mut leave_none = |entries: &[(Sym, ReqId)]| {
        let merge = |set: SetId, (key, req): &(Sym, ReqId)| {
            let single = algebra.single(*key, *req);
            algebra.merge(set, single)
        };
        let set = entries.iter().fold(Algebra::EMPTY, merge);
        catalog.agreeing(set, algebra).is_empty()
    };
    let mut left = [first, then].concat();
    if !leave_none(&left) {
        return None;
    }
    for at in (0..left.len()).rev() {
        let mut fewer = left.clone();
        fewer.remove(at);
        if leave_none(&fewer) {
            left = fewer;
        }
    }
    Some(left)
}
