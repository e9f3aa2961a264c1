//! The latest state of one cluster, shared by all requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;

use super::document::{
    Cost, Decision, DecisionKind, NodeBox, Pending, Pool, Source, Stage, State, Summary, VERSION,
};

/// Upper bound on kept decisions, so that a dashboard left open for days does not grow; older ones are dropped.
const DECISIONS_MAX: usize = 1_000;
/// Upper bound on the points of the cost curve; older ones are dropped.
const COSTS_MAX: usize = 2_000;
/// Upper bound on remembered prices of nodes that are gone; decisions about older nodes have no price.
const PRICES_MAX: usize = 50_000;

pub(crate) struct Hub {
    kept: Mutex<Kept>,
}

struct Kept {
    state: State,
    /// Time of the last observation, whether it changed the state or not.
    observed_at: Timestamp,
    /// Time of the newest nodes. Records of a journal may arrive later than records of younger turns.
    nodes_at: Timestamp,
    /// Dollars per hour of nodes and NodeClaims, by name.
    prices: BTreeMap<String, f64>,
    /// The serialized document; `None` after a change.
    text: Option<Arc<str>>,
}

/// One observation.
pub(super) struct Observation {
    pub(super) at: Timestamp,
    pub(super) pools: Vec<Pool>,
    pub(super) nodes: Vec<NodeBox>,
    pub(super) pending: Vec<Pending>,
    pub(super) notes: Vec<String>,
}

/// The document, unless the client knows its revision, and the time up to which it holds.
pub(super) struct Answer {
    pub(super) text: Option<Arc<str>>,
    pub(super) observed_at: Timestamp,
}

impl Hub {
    pub(crate) fn new(source: Source, at: Timestamp) -> Self {
        let state = State {
            version: VERSION,
            revision: 0,
            at,
            source,
            problems: Vec::new(),
            notes: Vec::new(),
            pools: Vec::new(),
            nodes: Vec::new(),
            pending: Vec::new(),
            decisions: Vec::new(),
            costs: Vec::new(),
        };
        Self {
            kept: Mutex::new(Kept {
                state,
                observed_at: at,
                nodes_at: Timestamp::MIN,
                prices: BTreeMap::new(),
                text: None,
            }),
        }
    }

    pub(super) fn after(&self, revision: Option<u64>) -> serde_json::Result<Answer> {
        let mut kept = self.lock();
        let observed_at = kept.observed_at;
        let text = match &kept.text {
            _ if revision == Some(kept.state.revision) => None,
            Some(text) => Some(Arc::clone(text)),
            None => {
                let text: Arc<str> = serde_json::to_string(&kept.state)?.into();
                kept.text = Some(Arc::clone(&text));
                Some(text)
            }
        };
        Ok(Answer { text, observed_at })
    }

    pub(super) fn summary(&self) -> Summary {
        let kept = self.lock();
        let state = &kept.state;
        let nodes = &state.nodes;
        let ready = nodes.iter().filter(|node| node.state == Stage::Ready);
        let pools_with_problems = state.pools.iter().filter(|pool| !pool.problems.is_empty());
        let (hourly, list) = cost(nodes);
        Summary {
            source: state.source.clone(),
            at: kept.observed_at,
            nodes: nodes.len(),
            ready: ready.count(),
            stuck: nodes.iter().filter(|node| node.stuck).count(),
            pending: state.pending.len(),
            pools_with_problems: pools_with_problems.count(),
            hourly,
            list,
            problems: state.problems.clone(),
        }
    }

    /// Shows an observation, unless a newer one is shown.
    pub(super) fn show(&self, observation: Observation) {
        self.show_cost(observation.at, &observation.nodes);
        self.change(
            |Kept {
                 state, nodes_at, ..
             }| {
                if observation.at < *nodes_at {
                    return false;
                }
                let is_same = state.nodes == observation.nodes
                    && state.pools == observation.pools
                    && state.pending == observation.pending
                    && state.notes == observation.notes
                    && state.problems.is_empty();
                if is_same {
                    return false;
                }
                state.at = observation.at;
                state.pools = observation.pools;
                state.nodes = observation.nodes;
                state.pending = observation.pending;
                state.notes = observation.notes;
                state.problems.clear();
                true
            },
        );
    }

    /// Adds the cost of these nodes to the curve, and to decisions about them. The curve skips nodes that are older than its end.
    pub(super) fn show_cost(&self, at: Timestamp, nodes: &[NodeBox]) {
        let (hourly, list) = cost(nodes);
        self.change(|kept| {
            let is_late = at < kept.nodes_at;
            kept.nodes_at = kept.nodes_at.max(at);
            kept.observed_at = kept.observed_at.max(at);
            if kept.prices.len() > PRICES_MAX {
                kept.prices.clear();
            }
            for node in nodes {
                let Some(hourly) = node.hourly else { continue };
                for name in node.claim.iter().chain([&node.name]) {
                    let price = kept.prices.entry(name.clone()).or_insert(hourly);
                    if !is_late {
                        *price = hourly;
                    }
                }
            }
            let mut is_new = false;
            for decision in &mut kept.state.decisions {
                if decision.hourly.is_none() {
                    decision.hourly = change_of_cost(decision, &kept.prices);
                    is_new |= decision.hourly.is_some();
                }
            }
            let costs = &mut kept.state.costs;
            #[expect(clippy::float_cmp, reason = "the same sums of the same prices")]
            let is_known = costs
                .last()
                .is_some_and(|last| last.hourly == hourly && last.list == list);
            if !is_known && !is_late {
                costs.push(Cost { at, hourly, list });
                keep_newest(costs, COSTS_MAX);
                is_new = true;
            }
            is_new
        });
    }

    /// Extends the cost curve to this time.
    pub(super) fn observed_until(&self, at: Timestamp) {
        let mut kept = self.lock();
        kept.observed_at = kept.observed_at.max(at);
    }

    /// Records warnings about the state.
    pub(super) fn note(&self, notes: Vec<String>) {
        self.change(|Kept { state, .. }| {
            let is_new = state.notes != notes;
            state.notes = notes;
            is_new
        });
    }

    /// Records problems and keeps the last state.
    pub(super) fn report_problems(&self, problems: Vec<String>) {
        self.change(|Kept { state, .. }| {
            let is_new = state.problems != problems;
            state.problems = problems;
            is_new
        });
    }

    /// Adds decisions. One that is known already takes the place of the known one, unless it is older.
    pub(crate) fn decided(&self, decisions: Vec<Decision>) {
        self.change(|Kept { state, prices, .. }| {
            let before = state.decisions.clone();
            // Older ones than are kept would come and go with every observation.
            let is_full = before.len() >= DECISIONS_MAX;
            let oldest = before.first().map(|decision| decision.at);
            let oldest = oldest.filter(|_| is_full);
            let known = before.iter().enumerate();
            let mut known: BTreeMap<_, usize> =
                known.map(|(at, decision)| (key(decision), at)).collect();
            for mut decision in decisions {
                decision.hourly = change_of_cost(&decision, prices);
                let key = key(&decision);
                match known.get(&key).and_then(|at| state.decisions.get_mut(*at)) {
                    Some(old) if decision.at < old.at => {}
                    Some(old) => {
                        decision.hourly = decision.hourly.or(old.hourly);
                        *old = decision;
                    }
                    None if oldest.is_some_and(|oldest| decision.at <= oldest) => {}
                    None => {
                        known.insert(key, state.decisions.len());
                        state.decisions.push(decision);
                    }
                }
            }
            // Decisions of the same time stay in the order of their arrival.
            state.decisions.sort_by_key(|decision| decision.at);
            keep_newest(&mut state.decisions, DECISIONS_MAX);
            // Several reasons for one node replace each other in every observation, so only the outcome shows whether anything is new.
            state.decisions != before
        });
    }

    fn change(&self, change: impl FnOnce(&mut Kept) -> bool) {
        let mut kept = self.lock();
        if change(&mut kept) {
            kept.state.revision += 1;
            kept.text = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dollars per hour: the price of the nodes, and their price with on-demand instances. Nodes without a list price count with their own.
fn cost(nodes: &[NodeBox]) -> (f64, f64) {
    let priced = nodes.iter().filter_map(|node| {
        let hourly = node.hourly?;
        Some((hourly, node.list_hourly.unwrap_or(hourly)))
    });
    priced.fold((0.0, 0.0), |(hourly, list), node| {
        (hourly + node.0, list + node.1)
    })
}

fn change_of_cost(decision: &Decision, prices: &BTreeMap<String, f64>) -> Option<f64> {
    let price = prices.get(&decision.subject).copied();
    match decision.kind {
        DecisionKind::Launch => price,
        DecisionKind::Delete => price.map(|price| -price),
        DecisionKind::Keep | DecisionKind::Warning | DecisionKind::Note => None,
    }
}

/// Identity of a decision. A node is launched and deleted once, and only the latest reason to keep it counts.
fn key(decision: &Decision) -> (Option<Timestamp>, String, String, Option<String>) {
    let (act, subject) = (decision.act.clone(), decision.subject.clone());
    match decision.kind {
        DecisionKind::Launch | DecisionKind::Delete | DecisionKind::Keep => {
            (None, act, subject, None)
        }
        DecisionKind::Warning | DecisionKind::Note => {
            (Some(decision.at), act, subject, Some(decision.why.clone()))
        }
    }
}

fn keep_newest<T>(all: &mut Vec<T>, most: usize) {
    let surplus = all.len().saturating_sub(most);
    all.drain(..surplus);
}

#[cfg(test)]
mod tests;
