//! Whether a command still holds a while after it was decided (spec/lifecycle §21).

use super::{
    budgets::Budgets,
    candidates::{Candidate, Candidates},
    consolidation::{Move, may_consolidate},
    cost, emptiness,
    scene::Scene,
    simulate::Freedom,
};

/// Of nodes that were to go because they are empty, those that still may.
pub(super) fn still_empty<'a>(
    candidates: &Candidates<'a>,
    chosen: &[Candidate<'a>],
    mut budgets: Budgets,
) -> Vec<Candidate<'a>> {
    let still = chosen.iter().filter_map(|one| {
        let now = candidates.by_claim(one.claim)?;
        (cost::is_empty(now.cost) && emptiness::is_about(now) == Ok(true)).then_some(now)
    });
    still
        .filter(|one| budgets.take(&one.pool.name))
        .cloned()
        .collect()
}

/// Whether the nodes of a move are still candidates, within budgets, and lead to the same move or one that includes it.
pub(super) fn holds<'a>(
    scene: &Scene<'a>,
    candidates: &Candidates<'a>,
    step: &Move<'a>,
    mut budgets: Budgets,
) -> bool {
    let still: Option<Vec<&Candidate<'a>>> = step
        .candidates
        .iter()
        .map(|one| {
            let now = candidates.by_claim(one.claim)?;
            (may_consolidate(now) == Ok(true)).then_some(now)
        })
        .collect();
    let Some(still) = still else { return false };
    if !still.iter().all(|one| budgets.take(&one.pool.name)) {
        return false;
    }
    let again = scene.simulate(&still, Freedom::Consolidation);
    if again.obstacle().is_some() {
        return false;
    }
    match (&step.replacement, again.new_nodes.as_slice()) {
        (None, []) => true,
        (Some(planned), [fresh]) => {
            let offered: Vec<usize> = fresh.choices.iter().map(|c| c.instance_type()).collect();
            planned.pool == fresh.pool
                && planned
                    .choices
                    .iter()
                    .all(|choice| offered.contains(&choice.instance_type()))
        }
        _ => false,
    }
}
