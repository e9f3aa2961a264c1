//! Preferences that the nodes of placed pods do not meet, and their value.

use std::{collections::BTreeMap, rc::Rc};

use model::{
    NanosPerHour, Resources,
    resources::{CPU, MEMORY},
};

use super::SolveResult;
use crate::{
    algebra::{Algebra, SetId, Undefined},
    shape::ShapeId,
    solve::Solver,
    spec::FULL_WEIGHT,
    tolerance::TaintsId,
};

/// Unmet preferences of a placed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedPreferences {
    pub pod: usize,
    /// Summed weight of the preferences.
    pub weight: u32,
    /// Part of the new node's price that the pod pays for; zero on an existing node.
    pub share: NanosPerHour,
}

impl DroppedPreferences {
    /// Value of the preferences, if that of one with weight 100 is `least`, but no less than 2% of the pod's
    /// share of its node. Without that bound, a spread over zones of pods that fill large nodes would be dropped for a
    /// fraction of their price. If `least` is zero, preferences have no value.
    pub fn worth(&self, least: NanosPerHour) -> i128 {
        let of_share = i128::from(self.share.0) * SHARE_PERCENT / 100;
        let full = match least.0 {
            ..=0 => 0,
            least => i128::from(least).max(of_share),
        };
        full * i128::from(self.weight) / i128::from(FULL_WEIGHT)
    }
}

/// Lower bound on the value of a preference with weight 100, in percent of the pod's share of its node.
const SHARE_PERCENT: i128 = 2;

/// Part of a node's price that a pod pays for, by its larger share of CPU or memory in the requests of all pods on the
/// node.
pub fn share_of(price: NanosPerHour, own: &Resources, all: &Resources) -> NanosPerHour {
    let part = |name: &str| {
        let all = i128::from(all.get(name)).max(1);
        i128::from(price.0) * i128::from(own.get(name)).clamp(0, all) / all
    };
    let part = part(CPU).max(part(MEMORY));
    NanosPerHour(i64::try_from(part).unwrap_or(i64::MAX))
}

/// Unmet preferences of all placed pods. `new_sets` has the requirements of the new nodes in the order of the result.
pub(super) fn collect(
    solver: &mut Solver<'_>,
    result: &SolveResult,
    new_sets: &[SetId],
) -> Vec<DroppedPreferences> {
    let mut terms = PreferredTerms::default();
    let mut found = Vec::new();
    let places = new_sets.iter().zip(&result.new_nodes);
    for (set, node) in places {
        let template = solver.context.templates.get(node.pool);
        let place = JudgedNode {
            set: *set,
            undefined: Undefined::WellKnown,
            taints: template.map(|template| template.taints),
        };
        let price = node.choices.first().map(|choice| choice.price);
        let price = price.unwrap_or_default();
        let input = Rc::clone(&solver.context.input);
        let dropped_preferences = terms
            .dropped_preferences(solver, place, &node.pods)
            .into_iter();
        found.extend(dropped_preferences.map(|dropped| {
            let pod = input.pods.get(dropped.pod);
            let share = pod.map(|pod| share_of(price, &pod.requests, &node.requests));
            DroppedPreferences {
                share: share.unwrap_or_default(),
                ..dropped
            }
        }));
    }
    let taking = solver.nodes.iter().filter(|node| !node.pods.is_empty());
    let known = taking.map(|node| (node.index, (node.set, node.taints)));
    let known: BTreeMap<usize, (SetId, TaintsId)> = known.collect();
    for (index, pods) in &result.existing {
        let known = known.get(index).copied();
        let place = JudgedNode {
            set: known.map_or(Algebra::EMPTY, |(set, _)| set),
            undefined: Undefined::Refused,
            taints: known.map(|(_, taints)| taints),
        };
        found.extend(terms.dropped_preferences(solver, place, pods));
    }
    found
}

/// Properties of a node that decide about preferences.
#[derive(Clone, Copy)]
struct JudgedNode {
    set: SetId,
    undefined: Undefined,
    taints: Option<TaintsId>,
}

/// Per shape, the interned preferred node affinities with their weights.
#[derive(Default)]
struct PreferredTerms(BTreeMap<ShapeId, Vec<(u32, SetId)>>);

impl PreferredTerms {
    /// Unmet preferences of the pods on one node.
    fn dropped_preferences(
        &mut self,
        solver: &mut Solver<'_>,
        node: JudgedNode,
        pods: &[usize],
    ) -> Vec<DroppedPreferences> {
        let mut found = Vec::new();
        for pod in pods {
            let Some(shape) = solver.placed_as.get(*pod).copied() else {
                continue;
            };
            let Some((core, _)) = solver.shapes.get(shape.0 as usize) else {
                continue;
            };
            let algebra = &mut solver.context.algebra;
            let terms = self.0.entry(shape).or_insert_with(|| {
                let terms = core.spec.preferred_terms();
                terms
                    .map(|(weight, term)| (weight, algebra.set_of(term.0.values())))
                    .collect()
            });
            let unmet = terms.iter().filter(|(_, term)| {
                let narrowed = algebra.narrow(node.set, *term, node.undefined);
                match node.undefined {
                    Undefined::Refused => narrowed.is_none(),
                    // Unmet as well if the node may still become one without the preferred values.
                    Undefined::WellKnown => narrowed != Some(node.set),
                }
            });
            let unmet = unmet.map(|(weight, _)| *weight);
            let mut weight = unmet.fold(core.spec.dropped_weight, u32::saturating_add);
            if let Some(taints) = node.taints
                && solver.may_tolerate
                && core.spec.is_judged_by_node()
            {
                let tolerance = &mut solver.context.tolerance;
                let own = tolerance.tolerations(&core.spec.pod.tolerations, false);
                let avoids = !tolerance.tolerates(own, taints);
                weight = weight.saturating_add(if avoids { FULL_WEIGHT } else { 0 });
            }
            if weight > 0 {
                found.push(DroppedPreferences {
                    pod: *pod,
                    weight,
                    share: NanosPerHour(0),
                });
            }
        }
        found
    }
}
