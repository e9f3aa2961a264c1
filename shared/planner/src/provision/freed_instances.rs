//! Launches into reservations of nodes that were terminated ahead of their replacement. Their pods are planned first; all other
//! pods are planned after those have a place (docs/spec/v1.15.md#terminate-first-freed).

use model::Plan;
use scheduling::{Input, SolveResult};

use super::{Search, Solution, caps, planning_context::PlanningContext, reference};
use crate::freed;

/// Plans a launch into such a reservation, and any other nodes that its pods need. All other pods are left to the next turn.
pub(super) fn of_freed_instance(
    search: &Search<'_>,
    planning: &PlanningContext<'_>,
    plan: &Plan,
    solve: &mut impl FnMut(&Input<'_>) -> SolveResult,
) -> Option<Plan> {
    if planning.kept.is_empty() {
        return None;
    }
    for kept in freed::kept(search.snapshot) {
        let reservation = kept.instance.reservation.as_str();
        if !planning.kept.contains_key(reservation) {
            continue;
        }
        let own: Vec<bool> = search.pods.iter().map(|pod| kept.is_for(pod)).collect();
        if !own.contains(&true) {
            continue;
        }
        let planning = planning.crediting(reservation);
        let mut found = search.find(&planning, plan.clone(), Some(&own), solve);
        if found.launches_into(reservation) {
            found.postpone_unplaced();
            let plan = found.plan(search);
            let mut within = plan.clone();
            caps::hold_back(search.snapshot, &mut within);
            // A launch that a cap holds back does not delay other pods.
            if within.actions.len() == plan.actions.len() {
                return Some(plan);
            }
        }
    }
    None
}

impl Solution<'_> {
    fn launches_into(&self, reservation: &str) -> bool {
        let label = self.input.options.reservation_id_label;
        let mut nodes = self.result.new_nodes.iter();
        nodes.any(|node| {
            let pinned = node.requirements.get(label);
            pinned.is_some_and(|ids| !ids.complement && ids.has(reservation))
        })
    }

    /// Leaves unplaced pods to the next turn, which plans for all pods.
    fn postpone_unplaced(&mut self) {
        for left in self.result.unplaced.drain(..) {
            let pod = self.input.pods.get(left.pod);
            self.plan.postponed.extend(pod.map(|pod| reference(pod)));
        }
    }
}
