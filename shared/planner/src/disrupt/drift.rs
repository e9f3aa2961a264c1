//! Nodes that are not what their NodePool and NodeClass ask for any more (spec/lifecycle §20).

use std::collections::BTreeMap;

use api::conditions::types::DRIFTED;
use model::{
    NodePoolName,
    ledger::{Cursor, Drifted},
    node_pool::NodePool,
    resources::NODES,
};

use super::{
    Reason,
    budgets::Budgets,
    candidates::{Blocked, Candidate},
    methods::Methods,
    round::Searched,
    scene::Scene,
    simulate::{Freedom, Simulation},
};
use crate::pods::is_reschedulable;

pub(super) fn is_about(candidate: &Candidate<'_>) -> bool {
    candidate.pool.replicas.is_none() && candidate.claim.is_true(DRIFTED)
}

pub(super) fn is_about_static(candidate: &Candidate<'_>) -> bool {
    candidate.pool.replicas.is_some() && candidate.claim.is_true(DRIFTED)
}

/// The first node whose pods all have a place when it goes, with as many replacements as that takes: those without pods first,
/// then those that drifted first. A node that a look of this round has considered is not looked at again.
pub(super) fn choose<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    blocked: &mut Vec<Blocked>,
) -> Searched<(Candidate<'a>, Simulation<'a>)> {
    let scene = methods.now;
    let budgets = methods.budgets(scene, Reason::Drifted);
    let places = candidates.iter().map(|one| (place(one), *one));
    let mut order: Vec<(Drifted, &Candidate<'a>)> = match &scene.snapshot.cursor {
        // Drift is through in this round.
        Some(Cursor::Single(_)) => return Searched::through(),
        Some(Cursor::Drift(last)) => places.filter(|(place, _)| place > last).collect(),
        Some(Cursor::Plan(_)) | None => places.collect(),
    };
    order.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut last = None;
    for (at, (place, candidate)) in order.iter().enumerate() {
        // At least one is considered, so that every round ends.
        if let Some(last) = last.take().filter(|_| methods.share_is_done()) {
            return Searched::cut(Cursor::Drift(last), order.len() - at);
        }
        last = Some(place.clone());
        if !budgets.allows(candidate) {
            continue;
        }
        let simulation = scene.simulate(&[candidate], Freedom::Drift);
        match simulation.obstacle() {
            None => {
                let found = ((*candidate).clone(), simulation);
                let cursor = Cursor::Drift(place.clone());
                return Searched::ended(scene, Some(found), cursor);
            }
            Some(message) => blocked.push(Blocked {
                node: candidate.node.name.to_string(),
                message,
            }),
        }
    }
    Searched::through()
}

fn place(candidate: &Candidate<'_>) -> Drifted {
    let mut pods = candidate.machine.pods.iter();
    let since = candidate.claim.condition(DRIFTED);
    Drifted {
        occupied: pods.any(|pod| is_reschedulable(pod)),
        since: since.map(|condition| condition.last_transition),
        node: candidate.node.name.clone(),
    }
}

/// Per static NodePool, as many as its budgets and its limit on nodes allow, each to be replaced by one like it.
pub(super) fn choose_static<'a>(
    scene: &Scene<'a>,
    candidates: &[&Candidate<'a>],
    budgets: &Budgets,
) -> Vec<Candidate<'a>> {
    let mut by_pool: BTreeMap<&NodePoolName, Vec<&Candidate<'a>>> = BTreeMap::new();
    for candidate in candidates {
        by_pool
            .entry(&candidate.pool.name)
            .or_default()
            .push(candidate);
    }
    let mut budgets = budgets.clone();
    let mut chosen = Vec::new();
    for mut own in by_pool.into_values() {
        let Some(pool) = own.first().map(|candidate| candidate.pool) else {
            continue;
        };
        own.sort_by_key(|candidate| &candidate.node.name);
        let may_go = own.into_iter().filter(|one| budgets.take(one));
        chosen.extend(may_go.take(room(scene, pool)).cloned());
    }
    chosen
}

/// How many nodes a static NodePool may have besides those it has. None while it has more than it wants: those go first.
fn room(scene: &Scene<'_>, pool: &NodePool) -> usize {
    let claims = scene.snapshot.node_claims.iter();
    let own = claims.filter(|claim| claim.node_pool().as_ref() == Some(&pool.name));
    let (going, staying): (Vec<_>, Vec<_>) = own.partition(|claim| claim.deleted_at.is_some());
    let wanted = usize::try_from(pool.replicas.unwrap_or(0)).unwrap_or(0);
    if staying.len() > wanted {
        return 0;
    }
    match pool.limits.0.get(NODES) {
        None => usize::MAX,
        Some(limit) => usize::try_from(*limit)
            .unwrap_or(0)
            .saturating_sub(staying.len() + going.len()),
    }
}
