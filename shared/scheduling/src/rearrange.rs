//! Which nodes could go, and for which new ones, so that the cluster as a whole costs least: a plan for many steps at once.
//!
//! Taking the best step each time fills the room on nodes that stay with whatever is moved first, so that later steps find
//! none. Here all steps are planned together, on paper: pods, nodes, offers, and the rules of topology that count pods. The plan
//! consists of teams of nodes that go for the same few new ones. Each team is a step by itself, in any order: the room that its
//! pods take is left free by all others. What the paper leaves out (volumes' limits, `minValues`, limits of NodePools)
//! is checked when a step is taken.

mod admission;
mod draws;
mod grid;
mod kinds;
mod made;
mod offers;
mod paper;
mod recreate;
mod roomy;
mod rules;
mod search;
mod state;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use model::NanosPerHour;

use self::{
    paper::{NOWHERE, Paper},
    search::Search,
    state::State,
};
use crate::{Destination, Standing};

/// A node that may go.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// Its place in the standing question.
    pub node: usize,
    /// The pods that need another place then, by their places in the standing question.
    pub pods: Vec<usize>,
    pub price: NanosPerHour,
    /// Several nodes do not go for one of their own types that is no cheaper: that one had better stay.
    pub instance_type: String,
    /// What its going has to be worth, besides what each eviction has to.
    pub disturbance: NanosPerHour,
    /// What its going has to save in any case, whatever it goes together with.
    pub least_saving: NanosPerHour,
    pub is_spot: bool,
    /// Which of [`Rearranging::together_max`] counts it.
    pub budget: usize,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Rearranging<'q> {
    pub leavers: &'q [Leaver],
    /// How many nodes may go for the same new ones, of those that have the same budget.
    pub together_max: &'q [usize],
    /// For how many new ones.
    pub replacements_max: usize,
    /// Spot nodes may go for spot nodes.
    pub spot_to_spot: bool,
    /// How many changes are tried for each plan.
    pub attempts: usize,
}

/// Nodes that go together, and where their pods are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Team {
    /// By their places among the leavers.
    pub leavers: Vec<usize>,
    pub wanted: Vec<(usize, Destination)>,
    /// How many nodes come for them.
    pub replacements: usize,
}

impl Standing<'_> {
    /// Makes a plan where an eviction has to be worth so much per hour, shows it, and goes on with what it is told to be worth
    /// then. A plan's teams are in the order of their first nodes, those without a new node each by itself.
    pub fn rearrange(
        &self,
        asked: &Rearranging<'_>,
        per_eviction: NanosPerHour,
        mut shown: impl FnMut(Vec<Team>) -> Option<NanosPerHour>,
    ) {
        let mut solver = self.solver();
        let Some(paper) = Paper::new(&mut solver, asked.leavers) else {
            return;
        };
        let mut search = Search::new(&paper, asked);
        let mut next = Some(per_eviction);
        while let Some(per_eviction) = next {
            next = shown(teams(&paper, search.cheapest(per_eviction)));
        }
    }
}

fn teams(paper: &Paper, state: &State) -> Vec<Team> {
    let mut teams: Vec<(Option<usize>, Team)> = Vec::new();
    for (at, leaver) in paper.leavers.iter().enumerate() {
        if state.gone.get(at) != Some(&true) {
            continue;
        }
        let number = state.team_of(at);
        let known = teams.iter_mut();
        let mut known = known.filter(|(known, _)| number.is_some() && *known == number);
        match known.next() {
            Some((_, team)) => team.leavers.push(leaver.asked),
            None => {
                let leavers = vec![leaver.asked];
                let team = Team {
                    leavers,
                    ..Team::default()
                };
                teams.push((number, team));
            }
        }
    }
    for (number, team) in &mut teams {
        let made = state.made_nodes(paper);
        let made = made.filter(|(_, made)| Some(made.team) == *number);
        let made: Vec<(usize, usize)> = made
            .map(|(node, made)| {
                (
                    node,
                    paper.offers.get(made.offer).map_or(0, |offer| offer.pool),
                )
            })
            .collect();
        team.replacements = made.len();
        team.wanted = wanted(paper, state, team, &made);
    }
    teams.into_iter().map(|(_, team)| team).collect()
}

/// Where the pods of a team go, large ones first.
fn wanted(
    paper: &Paper,
    state: &State,
    team: &Team,
    made: &[(usize, usize)],
) -> Vec<(usize, Destination)> {
    let pods = paper.pods.iter().enumerate().filter(|(_, pod)| {
        let leaver = paper.leavers.get(pod.leaver);
        leaver.is_some_and(|leaver| team.leavers.contains(&leaver.asked))
    });
    let found = pods.map(|(at, pod)| {
        let node = state.place.get(at).copied().unwrap_or(NOWHERE);
        let new = made.iter().position(|(known, _)| *known == node);
        let destination = match new.and_then(|number| Some((number, made.get(number)?.1))) {
            Some((number, pool)) => Destination::New { pool, number },
            None => Destination::Node(node),
        };
        let size = paper.kinds.get(pod.kind).map_or(0, |kind| kind.size);
        (Reverse(size), pod.asked, destination)
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found
        .into_iter()
        .map(|(_, pod, destination)| (pod, destination))
        .collect()
}
