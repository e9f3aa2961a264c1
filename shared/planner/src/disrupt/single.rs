//! Single-node consolidation: removes one node for a cheaper one or none (docs/spec/lifecycle.md#single-node).

use std::{cmp::Ordering, collections::BTreeMap};

use model::{
    NanosPerHour, NodePoolName,
    ledger::{CandidateRank, Cursor, PoolProgress},
};

use super::{
    DisruptionResult, Method, Reason,
    balanced::Totals,
    candidates::{Blocked, Candidate},
    consolidation::{self, Move, candidate_rank, compare_savings, sort_by_savings},
    methods::Methods,
    round::Searched,
};

/// Returns the first candidate whose removal saves enough, of those that the current round has not considered.
pub(super) fn search<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    result: &mut DisruptionResult,
) -> Searched<(Move<'a>, Method)> {
    let context = methods.now;
    let budgets = methods.budgets(context, Reason::Underutilized);
    let unconsolidatable = &mut result.unconsolidatable;
    let mut report = |candidate: &Candidate<'a>, message| {
        unconsolidatable.push(Blocked {
            node: candidate.node.name.to_string(),
            message,
        });
    };
    let judged = &mut result.judged;
    let mut reject = |candidate: &Candidate<'a>, savings| {
        judged.extend(totals.verdicts([candidate], savings, false));
    };
    let mut considered = match &context.snapshot.cursor {
        Some(Cursor::Single(considered)) => considered.clone(),
        Some(Cursor::Drift(_) | Cursor::Plan(_)) | None => BTreeMap::new(),
    };
    let order = round_robin(candidates, &considered);
    for (at, candidate) in order.iter().enumerate() {
        // Every evaluation considers at least one candidate, so that each round ends.
        if at > 0 && methods.share_is_used_up() {
            return Searched::share_used_up(Cursor::Single(considered), order.len() - at);
        }
        mark_considered(&mut considered, candidate);
        if !budgets.allows(candidate) {
            continue;
        }
        if !totals.could_approve(candidate) {
            reject(candidate, candidate.price);
            continue;
        }
        match consolidation::evaluate_removal(context, &[candidate]) {
            Ok(step) if !totals.approve(&step) => {
                let savings = step.before().0.saturating_sub(step.after().0);
                reject(candidate, NanosPerHour(savings));
            }
            Ok(step) => match context.move_costs.pays(context, &step) {
                Ok(()) => {
                    let found = methods.validated(step, Method::SingleNode);
                    return Searched::ended_at(context, found, Cursor::Single(considered));
                }
                Err(message) => report(candidate, message),
            },
            Err(message) => report(candidate, message),
        }
    }
    Searched::all_considered()
}

/// Orders the candidates that the round has not considered: by savings per disruption within a NodePool, round-robin across
/// NodePools. The rotation continues from the previous evaluation, so that no NodePool gets two turns while another waits.
fn round_robin<'c, 'a>(
    candidates: &[&'c Candidate<'a>],
    considered: &BTreeMap<NodePoolName, PoolProgress>,
) -> Vec<&'c Candidate<'a>> {
    let mut order = candidates.to_vec();
    sort_by_savings(&mut order);
    let mut pools: Vec<(&NodePoolName, usize)> = Vec::new();
    let mut turns: Vec<((usize, usize), &Candidate<'_>)> = Vec::new();
    for candidate in order {
        let name = &candidate.pool.name;
        let before = considered.get(name);
        let at = pools.iter().position(|(known, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            pools.push((name, before.map_or(0, |before| before.nodes)));
            pools.len() - 1
        });
        if before.is_some_and(|before| !is_after(candidate, &before.last)) {
            continue;
        }
        if let Some((_, taken)) = pools.get_mut(at) {
            turns.push(((*taken, at), candidate));
            *taken += 1;
        }
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, candidate)| candidate).collect()
}

fn is_after(candidate: &Candidate<'_>, rank: &CandidateRank) -> bool {
    let other = (rank.price, rank.disruption, &rank.node);
    compare_savings(candidate_rank(candidate), other) == Ordering::Greater
}

/// Records the candidate as considered. Candidates of a NodePool come in order, so that the last one represents all.
fn mark_considered(
    considered: &mut BTreeMap<NodePoolName, PoolProgress>,
    candidate: &Candidate<'_>,
) {
    let before = considered.get(&candidate.pool.name);
    let latest = PoolProgress {
        nodes: before.map_or(0, |before| before.nodes) + 1,
        last: CandidateRank {
            price: candidate.price,
            disruption: candidate.cost,
            node: candidate.node.name.clone(),
        },
    };
    considered.insert(candidate.pool.name.clone(), latest);
}
