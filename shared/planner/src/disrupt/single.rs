//! One node, for a cheaper one or for none (spec/lifecycle §18.6).

use model::NodePoolName;

use super::{candidates::Candidate, consolidation::sort_by_worth};

/// The order in which nodes are looked at: by worth within a NodePool, and NodePools take turns.
pub(super) fn in_turns<'c, 'a>(candidates: &[&'c Candidate<'a>]) -> Vec<&'c Candidate<'a>> {
    let mut order = candidates.to_vec();
    sort_by_worth(&mut order);
    let mut pools: Vec<(&NodePoolName, usize)> = Vec::new();
    let mut turns: Vec<((usize, usize), &Candidate<'_>)> = Vec::new();
    for candidate in order {
        let name = &candidate.pool.name;
        let at = pools.iter().position(|(known, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            pools.push((name, 0));
            pools.len() - 1
        });
        if let Some((_, taken)) = pools.get_mut(at) {
            turns.push(((*taken, at), candidate));
            *taken += 1;
        }
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, candidate)| candidate).collect()
}
