//! NodeOverlays without an effect: in conflict with another one, or without anything that they select or set.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use model::{
    Snapshot, node_pool::NodePool, requirement::Requirement, selector::NodeSelectorRequirement,
    snapshot::NodeOverlay,
};

use super::{Target, Types, matching, targets};

/// Reason why a valid NodeOverlay has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayProblem<'a> {
    /// Another NodeOverlay of the same weight sets the same value, such as the price of m5.large.
    Conflict { with: &'a str, value: String },
    /// No instance type of any NodePool meets this requirement.
    Unmet(&'a NodeSelectorRequirement),
    /// Each requirement is met by some instance type, but none meets all.
    UnmetTogether,
    /// The NodeOverlay sets neither a price nor a resource.
    SetsNothing,
}

impl fmt::Display for OverlayProblem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { with, value } => write!(
                f,
                "NodeOverlay {with} has the same weight and also sets the {value}: give one of them another spec.weight"
            ),
            Self::Unmet(requirement) => write!(
                f,
                "no instance type of any NodePool has {}: correct spec.requirements",
                Requirement::from(*requirement)
            ),
            Self::UnmetTogether => f.write_str(
                "no instance type of any NodePool meets all of its requirements: correct spec.requirements",
            ),
            Self::SetsNothing => {
                f.write_str("it sets no price, priceAdjustment or capacity: set one of them")
            }
        }
    }
}

/// NodeOverlays that are not applied because another one of equal weight sets the same price or resource.
pub fn conflicting_overlays(snapshot: &Snapshot) -> BTreeSet<&str> {
    let types = types_of_pools(snapshot);
    let (_, conflicts) = judged(&snapshot.node_overlays, &types);
    conflicts.into_keys().collect()
}

/// NodeOverlays that are not applied or change nothing, by name.
pub fn ineffective_overlays(snapshot: &Snapshot) -> BTreeMap<&str, OverlayProblem<'_>> {
    let types = types_of_pools(snapshot);
    let (accepted, mut found) = judged(&snapshot.node_overlays, &types);
    if types.iter().all(|(_, types)| types.is_empty()) {
        return found;
    }
    for overlay in accepted {
        let reason = match sets_nothing(overlay) {
            true => Some(OverlayProblem::SetsNothing),
            false => unmet(overlay, &types),
        };
        found.extend(reason.map(|reason| (overlay.name.as_str(), reason)));
    }
    found
}

fn types_of_pools(snapshot: &Snapshot) -> Vec<(&NodePool, Types)> {
    let pools = snapshot.node_pools.iter();
    let types = pools.filter_map(|pool| {
        let types = snapshot.instance_types.get(&pool.name)?;
        Some((pool, Arc::clone(types)))
    });
    types.collect()
}

/// Overlays to apply, heaviest first. Of overlays of equal weight that set the same price or resource, the last by name is
/// applied.
pub(super) fn accepted<'a>(
    overlays: &'a [NodeOverlay],
    types: &[(&NodePool, Types)],
) -> Vec<&'a NodeOverlay> {
    judged(overlays, types).0
}

/// Overlays to apply, heaviest first, and the conflicts of the others.
fn judged<'a>(
    overlays: &'a [NodeOverlay],
    types: &[(&NodePool, Types)],
) -> (Vec<&'a NodeOverlay>, BTreeMap<&'a str, OverlayProblem<'a>>) {
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().collect();
    ordered.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
    let mut claimed: BTreeMap<(i32, Target), &str> = BTreeMap::new();
    let mut conflicts = BTreeMap::new();
    ordered.retain(|overlay| {
        let targets = targets(overlay, types);
        let targets = targets.into_iter().map(|target| (overlay.weight, target));
        let targets: Vec<(i32, Target)> = targets.collect();
        let conflict = targets.iter().find_map(|target| {
            let with = claimed.get(target).copied()?;
            let value = target.1.to_string();
            Some(OverlayProblem::Conflict { with, value })
        });
        let name = overlay.name.as_str();
        let is_accepted = conflict.is_none();
        match conflict {
            Some(conflict) => conflicts.extend([(name, conflict)]),
            None => claimed.extend(targets.into_iter().map(|target| (target, name))),
        }
        is_accepted
    });
    (ordered, conflicts)
}

fn sets_nothing(overlay: &NodeOverlay) -> bool {
    overlay.price.is_none() && overlay.price_adjustment.is_none() && overlay.capacity.0.is_empty()
}

/// Reason why an overlay selects no offering; `None` if it selects any.
fn unmet<'a>(overlay: &'a NodeOverlay, types: &[(&NodePool, Types)]) -> Option<OverlayProblem<'a>> {
    if selects_any(overlay, types) {
        return None;
    }
    let alone = overlay.requirements.iter().find(|requirement| {
        let alone = NodeOverlay {
            requirements: vec![(*requirement).clone()],
            ..NodeOverlay::default()
        };
        !selects_any(&alone, types)
    });
    Some(alone.map_or(OverlayProblem::UnmetTogether, OverlayProblem::Unmet))
}

fn selects_any(overlay: &NodeOverlay, types: &[(&NodePool, Types)]) -> bool {
    types.iter().any(|(pool, types)| {
        let mut types = types.iter();
        types.any(|instance_type| !matching(overlay, pool, instance_type).is_empty())
    })
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Price(_, instance_type, _) => write!(f, "price of {instance_type}"),
            Self::Capacity(_, instance_type, resource) => {
                write!(f, "resource {resource} of {instance_type}")
            }
        }
    }
}
