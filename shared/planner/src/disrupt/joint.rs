//! Any nodes together, for any nodes that cost less together: a local search over which nodes go.

use std::collections::BTreeMap;

use model::{NodePoolName, snapshot::Optimize};

use super::{
    balanced::Totals,
    budgets::Budgets,
    candidates::Candidate,
    consolidation::{Move, judged, sort_by_worth},
    multi::leave_out_own_types,
    scene::Scene,
    simulate::Freedom,
};

/// More replacements are for more than one command.
const REPLACEMENTS_MAX: usize = 20;
/// Rounds over all nodes; most searches end before.
const ROUNDS_MAX: usize = 4;
/// How many pods and nodes all simulations of a search may have together: a few seconds of work.
const EFFORT: usize = 3_000_000;

pub(super) struct Search<'s, 'a> {
    scene: &'s Scene<'a>,
    totals: &'s Totals,
    budgets: Budgets,
    /// In the order in which they are tried.
    candidates: Vec<&'s Candidate<'a>>,
    /// What an eviction must save per hour, in nano-dollars.
    per_eviction: i64,
    /// Per candidate, whether it goes in the best that is known.
    going: Vec<bool>,
    /// Of the best that is known, in nano-dollars per hour.
    score: i64,
    /// `None` as long as nothing is better than the start.
    best: Option<Move<'a>>,
    /// What is left of it.
    effort: usize,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(
        scene: &'s Scene<'a>,
        candidates: &[&'s Candidate<'a>],
        totals: &'s Totals,
        budgets: Budgets,
        per_eviction: i64,
    ) -> Self {
        let mut candidates = candidates.to_vec();
        sort_by_worth(&mut candidates);
        Self {
            scene,
            totals,
            budgets,
            going: vec![false; candidates.len()],
            candidates,
            per_eviction,
            score: 0,
            best: None,
            effort: EFFORT,
        }
    }

    /// The best that is found from a move that is known to be worth it, by letting one more node go or stay, or one go for
    /// another, as long as that helps; `None` if nothing does.
    pub(super) fn from(mut self, start: &Move<'a>) -> Option<Move<'a>> {
        let starts = |one: &&Candidate<'a>| start.candidates.iter().any(|go| go.at == one.at);
        self.going = self.candidates.iter().map(starts).collect();
        self.score = self.score_of(start);
        for _ in 0..ROUNDS_MAX {
            let mut better = false;
            for at in 0..self.candidates.len() {
                better |= self.turn(&[at]);
            }
            better |= self.exchange();
            if !better {
                break;
            }
        }
        self.best
    }

    /// Lets a node go for one that is cheaper.
    fn exchange(&mut self) -> bool {
        let price = |search: &Self, at: usize| search.candidates.get(at).map(|one| one.price);
        let goes = |search: &Self, at: usize| search.going.get(at).copied();
        let mut better = false;
        for stayed in 0..self.candidates.len() {
            for went in 0..self.candidates.len() {
                if goes(self, stayed) == Some(false)
                    && goes(self, went) == Some(true)
                    && price(self, stayed) > price(self, went)
                {
                    better |= self.turn(&[stayed, went]);
                }
            }
        }
        better
    }

    /// Lets nodes go that stayed, and the other way round; takes that back unless it is better.
    fn turn(&mut self, nodes: &[usize]) -> bool {
        self.flip(nodes);
        let found = self.evaluate();
        let better = found.is_some();
        match found {
            Some((score, step)) => (self.score, self.best) = (score, Some(step)),
            None => self.flip(nodes),
        }
        better
    }

    fn flip(&mut self, nodes: &[usize]) {
        for at in nodes {
            if let Some(goes) = self.going.get_mut(*at) {
                *goes = !*goes;
            }
        }
    }

    fn evaluate(&mut self) -> Option<(i64, Move<'a>)> {
        let going = self.candidates.iter().zip(&self.going);
        let leaving: Vec<&Candidate<'a>> = going.filter(|one| *one.1).map(|one| *one.0).collect();
        if leaving.is_empty() || !self.within_budgets(&leaving) {
            return None;
        }
        let quickly = self.simulate(&leaving, Optimize::Upstream)?;
        let packed = match quickly.replacements.as_slice() {
            [] => None,
            [..] => self.simulate(&leaving, Optimize::Cost),
        };
        let packed = packed.filter(|packed| packed.after() < quickly.after());
        let step = packed.unwrap_or(quickly);
        let score = self.score_of(&step);
        (score > self.score).then_some((score, step))
    }

    fn simulate(&mut self, leaving: &[&Candidate<'a>], optimize: Optimize) -> Option<Move<'a>> {
        let scene = self.scene;
        let pods: usize = leaving.iter().map(|one| one.machine.pods.len()).sum();
        let work = pods + scene.inventory.machines.len();
        self.effort = self.effort.checked_sub(work)?;
        let simulation = scene.simulate_for(leaving, Freedom::Consolidation, optimize);
        // Where moves have no price, commands stay as upstream's are: with one replacement.
        let most = match scene.worth.is_priced() {
            true => REPLACEMENTS_MAX,
            false => 1,
        };
        let mut step = judged(scene, leaving, simulation, most).ok()?;
        if leaving.len() > 1 {
            leave_out_own_types(scene, &mut step)?;
        }
        let pays = || scene.worth.pays(scene, &step).is_ok();
        (self.totals.approve(&step) && pays()).then_some(step)
    }

    fn within_budgets(&self, leaving: &[&Candidate<'a>]) -> bool {
        let mut counts: BTreeMap<&NodePoolName, usize> = BTreeMap::new();
        for one in leaving {
            *counts.entry(&one.pool.name).or_default() += 1;
        }
        let mut counts = counts.into_iter();
        counts.all(|(pool, count)| count <= self.budgets.left(pool))
            && self.budgets.evictions.allows(leaving)
    }

    fn score_of(&self, step: &Move<'a>) -> i64 {
        let evicted = i64::try_from(step.evicted()).unwrap_or(i64::MAX);
        let saved = step.before().0.saturating_sub(step.after().0);
        saved.saturating_sub(evicted.saturating_mul(self.per_eviction))
    }
}
