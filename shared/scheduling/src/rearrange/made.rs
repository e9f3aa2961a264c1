//! Nodes to be made: what each could still be, and the cheapest of it.

use super::{
    paper::{Kind, NOWHERE, Paper},
    recreate::Berth,
    state::State,
};
use crate::bits::Bits;

/// A node to be made.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) team: usize,
    /// The cheapest that holds its guests.
    pub(super) offer: usize,
    /// What it could be for the kinds of its guests.
    pub(super) open: Bits,
    /// Per label that rules ask for.
    pub(super) domains: Vec<usize>,
}

impl Paper {
    /// The cheapest offer that a new node may become when a pod joins it, and some labels are decided on.
    pub(super) fn cheapest(
        &self,
        made: &Made,
        kind: &Kind,
        decided: &[(usize, usize)],
        load: &[i64],
    ) -> Option<usize> {
        let in_domain = |(key, domain): &(usize, usize)| self.offers_in.get(*key)?.get(*domain);
        let mut domains = decided.iter().map(in_domain);
        let (first, second) = (domains.next(), domains.next());
        let all = [
            Some(&kind.offers),
            first.unwrap_or(Some(&made.open)),
            second.unwrap_or(Some(&made.open)),
        ];
        let [Some(offers), Some(first), Some(second)] = all else {
            return None;
        };
        // With one more pod it is never cheaper than before.
        let from = if made.offer == NOWHERE { 0 } else { made.offer };
        let sets = [&made.open, offers, first, second];
        let amounts = load.iter().zip(&kind.requests);
        let amounts = amounts.map(|(load, wanted)| load + wanted);
        self.roomy.first(&self.offers, sets, from, amounts)
    }
}

impl State {
    /// Puts a pod on a new node.
    pub(super) fn lodge(&mut self, paper: &Paper, pod: usize, berth: &Berth) {
        let asked = paper.pods.get(pod);
        let kind = asked.and_then(|pod| paper.kinds.get(pod.kind));
        let at = berth.node.checked_sub(paper.nodes.len());
        let made = at.and_then(|at| self.made.get_mut(at));
        let (Some(asked), Some(kind), Some(made)) = (asked, kind, made) else {
            return;
        };
        if made.team == NOWHERE {
            made.open.copy_from(&paper.all_offers);
            made.domains.fill(NOWHERE);
            made.team = berth.team;
            self.next_team = self.next_team.max(berth.team + 1);
        }
        self.cost += paper.price(berth.offer) - paper.price(made.offer);
        made.offer = berth.offer;
        made.open.and(&kind.offers);
        for (key, domain) in &berth.decided {
            made.settle(paper, *key, *domain);
        }
        if let Some((team, _)) = self.team.get_mut(asked.leaver) {
            *team = berth.team;
        }
        self.put(paper, pod, berth.node);
    }

    /// What a new node becomes when pods have left it: a smaller one, or none.
    pub(super) fn shrink(&mut self, paper: &Paper, node: usize) {
        let Some(at) = node.checked_sub(paper.nodes.len()) else {
            return;
        };
        let guests = self.guests.get(node).map_or(&[][..], |guests| guests);
        let made = self.made.get_mut(at).filter(|made| made.team != NOWHERE);
        let Some(made) = made else {
            return;
        };
        let before = paper.price(made.offer);
        made.offer = NOWHERE;
        made.open.copy_from(&paper.all_offers);
        let domains = std::mem::replace(&mut made.domains, vec![NOWHERE; paper.counted.keys.len()]);
        let mut last = None;
        for guest in guests {
            let Some(kind) = paper.kind(*guest) else {
                continue;
            };
            made.open.and(&kind.offers);
            for rule in &kind.domains {
                let domain = domains.get(rule.key).copied().unwrap_or(NOWHERE);
                made.settle(paper, rule.key, domain);
            }
            last = Some(kind);
        }
        match last {
            Some(_) => {
                let load = self.load.row(node);
                let load = load.iter().copied();
                let cheapest = paper.roomy.first(&paper.offers, [&made.open; 4], 0, load);
                made.offer = cheapest.unwrap_or(NOWHERE);
            }
            None => made.team = NOWHERE,
        }
        self.cost += paper.price(made.offer) - before;
    }
}

impl Made {
    /// What could still be anything.
    pub(super) fn anything(offers: &Bits, keys: usize) -> Self {
        Self {
            team: NOWHERE,
            offer: NOWHERE,
            open: offers.clone(),
            domains: vec![NOWHERE; keys],
        }
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        if self.team == NOWHERE && other.team == NOWHERE {
            return;
        }
        self.team = other.team;
        self.offer = other.offer;
        self.open.copy_from(&other.open);
        self.domains.clone_from(&other.domains);
    }

    pub(super) fn domain(&self, key: usize) -> usize {
        self.domains.get(key).copied().unwrap_or(NOWHERE)
    }

    /// Decides on a domain of a label.
    pub(super) fn settle(&mut self, paper: &Paper, key: usize, domain: usize) {
        let offers = paper.offers_in.get(key).and_then(|table| table.get(domain));
        match offers {
            Some(offers) => self.open.and(offers),
            None => self.open.clear(),
        }
        if let Some(slot) = self.domains.get_mut(key) {
            *slot = domain;
        }
    }
}
