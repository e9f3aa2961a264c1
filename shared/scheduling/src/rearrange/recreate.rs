//! Finds places for pods that have none: where it costs least, and leaves least over.

use super::{
    draws::Draws,
    made::Made,
    paper::{Kind, NOWHERE, Paper},
    rules::{Demand, DomainRule},
    state::State,
};

/// One in so many nodes is passed over, so that not every attempt ends the same way.
const PASSED_OVER: usize = 64;

/// When a node is made.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// At most so many for one team.
    pub(super) replacements_max: usize,
    /// One more has to be cheaper than a larger one by so many eighths: what is cheapest for one pod is often not for many.
    pub(super) reluctance: i64,
}

/// A place for a pod on a node to be made.
pub(super) struct Berth {
    dearer: i64,
    /// What would be left there.
    slack: i64,
    pub(super) node: usize,
    pub(super) team: usize,
    /// What the node becomes.
    pub(super) offer: usize,
    /// The labels that are decided on with it, and their domains.
    pub(super) decided: Vec<(usize, usize)>,
}

impl State {
    /// Finds a place for a pod; `false` if there is none.
    pub(super) fn find_place(
        &mut self,
        paper: &Paper,
        pod: usize,
        bounds: Bounds,
        draws: &mut Draws,
    ) -> bool {
        let Some(asked) = paper.pods.get(pod) else {
            return false;
        };
        let Some(kind) = paper.kinds.get(asked.kind) else {
            return false;
        };
        // What is there costs nothing.
        let mut best: Option<(i64, usize)> = None;
        for node in &kind.nodes {
            if !self.is_open(paper, *node) || draws.one_in(PASSED_OVER) {
                continue;
            }
            let slack = self.slack_on(paper, kind, *node);
            if let Some(slack) = slack
                && best.is_none_or(|(least, _)| slack < least)
                && self.admits(paper, kind, *node)
            {
                best = Some((slack, *node));
            }
        }
        if let Some((_, node)) = best {
            self.put(paper, pod, node);
            return true;
        }
        match self.berth(paper, asked.leaver, kind, bounds, draws) {
            Some(berth) => {
                self.lodge(paper, pod, &berth);
                true
            }
            None => false,
        }
    }

    /// The cheapest place on a node to be made that the leaver's team may use.
    fn berth(
        &self,
        paper: &Paper,
        leaver: usize,
        kind: &Kind,
        bounds: Bounds,
        draws: &mut Draws,
    ) -> Option<Berth> {
        let team = self.team_of(leaver);
        let mut best: Option<Berth> = None;
        let mut of_team = 0;
        for (node, made) in self.made_nodes(paper) {
            if team.is_some_and(|team| team != made.team) {
                continue;
            }
            of_team += 1;
            if draws.one_in(PASSED_OVER) {
                continue;
            }
            let berth = self.berth_on(paper, kind, node, made);
            best = better(best, berth);
        }
        if team.is_none() || of_team < bounds.replacements_max {
            let free = self.made.iter().position(|made| made.team == NOWHERE);
            if let Some(free) = free {
                let node = paper.nodes.len() + free;
                let berth = self.berth_on(paper, kind, node, &paper.anything);
                let team = team.unwrap_or(self.next_team);
                let berth = berth.map(|berth| Berth {
                    team,
                    dearer: berth.dearer + berth.dearer * bounds.reluctance / 8,
                    ..berth
                });
                best = better(best, berth);
            }
        }
        best
    }

    /// What a new node would become with one more pod.
    fn berth_on(&self, paper: &Paper, kind: &Kind, node: usize, made: &Made) -> Option<Berth> {
        if !self.admits_on_host(paper, kind, node) {
            return None;
        }
        let load = self.load.row(node);
        let mut decided = Vec::new();
        for rule in &kind.domains {
            let mut just = decided.iter().filter(|(key, _)| *key == rule.key);
            let known = just
                .next()
                .map_or(made.domain(rule.key), |(_, domain)| *domain);
            let domain = match known {
                NOWHERE => self.chosen_domain(paper, rule, kind, made, load)?,
                known => Some(known).filter(|known| self.admits_in(rule, *known))?,
            };
            if known == NOWHERE {
                decided.push((rule.key, domain));
            }
        }
        let offer = paper.cheapest(made, kind, &decided, load)?;
        Some(Berth {
            dearer: paper.price(offer) - paper.price(made.offer),
            slack: paper.slack(&paper.offers.get(offer)?.room, load, &kind.requests),
            node,
            team: made.team,
            offer,
            decided,
        })
    }

    /// What would be left on a node that exists; `None` if there is too little.
    fn slack_on(&self, paper: &Paper, kind: &Kind, node: usize) -> Option<i64> {
        let room = &paper.nodes.get(node)?.room;
        let load = self.load.row(node);
        let mut amounts = room.iter().zip(load).zip(&kind.requests);
        let fits = amounts.all(|((room, load), wanted)| load + wanted <= *room);
        fits.then(|| paper.slack(room, load, &kind.requests))
    }

    /// The domain of a label for a new node that could be in any: the emptiest that a rule allows, the cheapest of these.
    fn chosen_domain(
        &self,
        paper: &Paper,
        rule: &DomainRule,
        kind: &Kind,
        made: &Made,
        load: &[i64],
    ) -> Option<usize> {
        let domains = paper.offers_in.get(rule.key)?.len();
        let counts = self.in_domains.row(rule.row);
        let spreads = matches!(rule.demand, Some(Demand::Spread { .. }));
        let open = (0..domains).filter_map(|domain| {
            if !self.admits_in(rule, domain) {
                return None;
            }
            let offer = paper.cheapest(made, kind, &[(rule.key, domain)], load)?;
            let count = counts.get(domain).copied().filter(|_| spreads);
            Some((count.unwrap_or(0), paper.price(offer), domain))
        });
        open.min().map(|(_, _, domain)| domain)
    }
}

fn better(known: Option<Berth>, other: Option<Berth>) -> Option<Berth> {
    match (known, other) {
        (Some(known), Some(other)) => {
            let is_better = (other.dearer, other.slack) < (known.dearer, known.slack);
            Some(if is_better { other } else { known })
        }
        (known, other) => known.or(other),
    }
}
