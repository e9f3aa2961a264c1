//! The latest state, shared by all requests.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::document::{Cost, Decision, NodeBox, Pending, Source, State, VERSION};

/// Upper bound on kept decisions, so that a dashboard left open for days does not grow; older ones are dropped.
const DECISIONS_MAX: usize = 1_000;
const COSTS_MAX: usize = 2_000;

pub(crate) struct Hub {
    state: Mutex<Kept>,
}

struct Kept {
    state: State,
    /// The serialized document; `None` after a change.
    text: Option<Arc<str>>,
}

/// One observation.
pub(super) struct Observation {
    pub(super) at: Timestamp,
    pub(super) nodes: Vec<NodeBox>,
    pub(super) pending: Vec<Pending>,
    pub(super) notes: Vec<String>,
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
            nodes: Vec::new(),
            pending: Vec::new(),
            decisions: Vec::new(),
            costs: Vec::new(),
        };
        Self {
            state: Mutex::new(Kept { state, text: None }),
        }
    }

    /// The document, unless its revision is already known to the client.
    pub(super) fn after(&self, revision: Option<u64>) -> serde_json::Result<Option<Arc<str>>> {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if revision == Some(kept.state.revision) {
            return Ok(None);
        }
        if let Some(text) = &kept.text {
            return Ok(Some(Arc::clone(text)));
        }
        let text: Arc<str> = serde_json::to_string(&kept.state)?.into();
        kept.text = Some(Arc::clone(&text));
        Ok(Some(text))
    }

    pub(super) fn show(&self, observation: Observation) {
        let hourly = observation
            .nodes
            .iter()
            .filter_map(|node| node.hourly)
            .sum();
        self.change(|state| {
            let is_same = state.nodes == observation.nodes
                && state.pending == observation.pending
                && state.notes == observation.notes
                && state.problems.is_empty()
                && !state.costs.is_empty();
            if is_same {
                return false;
            }
            state.at = observation.at;
            state.nodes = observation.nodes;
            state.pending = observation.pending;
            state.notes = observation.notes;
            state.problems.clear();
            #[expect(clippy::float_cmp, reason = "the same sum of the same prices")]
            let is_new = state.costs.last().is_none_or(|last| last.hourly != hourly);
            if is_new {
                state.costs.push(Cost {
                    at: observation.at,
                    hourly,
                });
                keep_newest(&mut state.costs, COSTS_MAX);
            }
            true
        });
    }

    /// Records problems and keeps the last state.
    pub(super) fn report_problems(&self, problems: Vec<String>) {
        self.change(|state| {
            let is_new = state.problems != problems;
            state.problems = problems;
            is_new
        });
    }

    /// Adds decisions; those that are known already are skipped.
    pub(crate) fn decided(&self, decisions: Vec<Decision>) {
        self.change(|state| {
            let new: Vec<Decision> = decisions
                .into_iter()
                .filter(|decision| !state.decisions.contains(decision))
                .collect();
            if new.is_empty() {
                return false;
            }
            state.decisions.extend(new);
            // Decisions of the same time stay in the order of their arrival.
            state.decisions.sort_by_key(|decision| decision.at);
            keep_newest(&mut state.decisions, DECISIONS_MAX);
            true
        });
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut kept.state) {
            kept.state.revision += 1;
            kept.text = None;
        }
    }
}

fn keep_newest<T>(all: &mut Vec<T>, most: usize) {
    let surplus = all.len().saturating_sub(most);
    all.drain(..surplus);
}
