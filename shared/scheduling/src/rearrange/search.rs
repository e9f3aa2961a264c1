//! The search: some nodes are opened or closed, some pods lose their place and find another, and the outcome is kept if it is
//! hardly dearer than the best so far, less and less so as time passes. (Ruin and recreate, with record-to-record travel.)

use model::NanosPerHour;

use super::{
    Rearranging,
    draws::Draws,
    made::Made,
    paper::{NOWHERE, Paper},
    recreate::Bounds,
    state::State,
};

/// How many nodes give up their guests in one attempt, at most.
const TURNED_OUT_MAX: usize = 4;
/// One in so many attempts opens and closes no node.
const NO_FLIP: usize = 4;
/// So many degrees of reluctance to make one more node.
const RELUCTANCE: usize = 10;
/// At first an outcome may be dearer than the best by this part of what everything costs.
const DEARER: i64 = 240;

pub(super) struct Search<'s> {
    paper: &'s Paper,
    asked: &'s Rearranging<'s>,
    draws: Draws,
    best: State,
    current: State,
    attempt: State,
    per_eviction: NanosPerHour,
}

impl<'s> Search<'s> {
    pub(super) fn new(paper: &'s Paper, asked: &'s Rearranging<'s>) -> Self {
        Self {
            paper,
            asked,
            draws: Draws::new(),
            best: paper.at_home(),
            current: paper.at_home(),
            attempt: paper.at_home(),
            per_eviction: NanosPerHour(0),
        }
    }

    /// The cheapest arrangement that is found where evictions cost so much; the search goes on from the one before.
    pub(super) fn cheapest(&mut self, per_eviction: NanosPerHour) -> &State {
        self.per_eviction = per_eviction;
        self.current.copy_from(&self.best);
        let all = self.paper.leavers.iter().map(|leaver| leaver.price);
        let start: i64 = all.sum();
        let attempts = i64::try_from(self.asked.attempts).unwrap_or(i64::MAX);
        for left in (0..attempts).rev() {
            self.attempt.copy_from(&self.current);
            let best = cost(&self.best, self.per_eviction);
            let most = best.saturating_add(dearer(start, left, attempts));
            if self.change(most) {
                self.current.copy_from(&self.attempt);
                let [current, best] = [&self.current, &self.best];
                if cost(current, self.per_eviction) < cost(best, self.per_eviction) {
                    self.best.copy_from(&self.current);
                }
            }
        }
        &self.best
    }

    /// Changes the attempt; `false` if that leads nowhere, or to more than `most`.
    fn change(&mut self, most: i64) -> bool {
        let Self {
            paper,
            asked,
            draws,
            attempt: state,
            per_eviction,
            ..
        } = self;
        let (mut waiting, mut left) = (Vec::new(), Vec::new());
        let flips = match draws.one_in(NO_FLIP) {
            true => 0,
            false => 1 + draws.below(2),
        };
        for _ in 0..flips {
            let leaver = draws.below(paper.leavers.len());
            match state.gone.get(leaver) {
                Some(true) => left.extend(state.come_back(paper, leaver)),
                _ => state.leave(paper, leaver, &mut waiting),
            }
        }
        let made: Vec<usize> = state.made_nodes(paper).map(|(node, _)| node).collect();
        for _ in 0..draws.below(TURNED_OUT_MAX) + usize::from(flips == 0) {
            let node = match draws.one_in(3) {
                false if !made.is_empty() => made.get(draws.below(made.len())).copied(),
                _ => Some(draws.below(paper.nodes.len())),
            };
            if let Some(node) = node {
                state.turn_out(paper, node, &mut waiting);
                left.push(node);
            }
        }
        for node in left {
            state.shrink(paper, node);
        }
        waiting.retain(|pod| state.place.get(*pod) == Some(&NOWHERE));
        waiting.sort_unstable();
        waiting.dedup();
        // Large ones first, more or less, or in any order.
        let order = draws.below(3);
        waiting.sort_by_cached_key(|pod| {
            let size = paper.kind(*pod).map_or(0, |kind| kind.size);
            -match order {
                0 => size,
                1 => size.saturating_mul(i64::try_from(50 + draws.below(100)).unwrap_or(100)) / 100,
                _ => i64::try_from(draws.below(1_000)).unwrap_or(0),
            }
        });
        let bounds = Bounds {
            replacements_max: asked.replacements_max,
            reluctance: i64::try_from(draws.below(RELUCTANCE)).unwrap_or(0),
        };
        // A place for one more pod makes nothing cheaper.
        waiting.into_iter().all(|pod| {
            state.find_place(paper, pod, bounds, draws) && cost(state, *per_eviction) <= most
        }) && cost(state, *per_eviction) <= most
            && teams_hold(paper, state, asked)
    }
}

/// By how much an outcome may be dearer than the best with so many of the attempts left.
fn dearer(start: i64, left: i64, attempts: i64) -> i64 {
    start / DEARER * left / attempts
}

/// Of the nodes, and of the evictions that it takes.
fn cost(state: &State, per_eviction: NanosPerHour) -> i64 {
    let evicted = i64::try_from(state.evicted).unwrap_or(i64::MAX);
    let evictions = evicted.saturating_mul(per_eviction.0);
    state.cost.saturating_add(evictions)
}

/// What a team of nodes goes for.
struct Balance {
    team: usize,
    before: i64,
    after: i64,
    /// Of those that have to save something, what they cost and what they have to save.
    bound: (i64, i64),
    leavers: usize,
    all_spot: bool,
    may_be_spot: bool,
}

/// Whether every team saves enough, is no larger than it may be, and goes for nothing that may not replace it.
fn teams_hold(paper: &Paper, state: &State, asked: &Rearranging<'_>) -> bool {
    let mut teams: Vec<Balance> = Vec::new();
    let mut members: Vec<(usize, usize)> = Vec::new();
    for (at, leaver) in paper.leavers.iter().enumerate() {
        if state.gone.get(at) == Some(&true) && leaver.price < leaver.least_saving {
            return false;
        }
        let Some(team) = state.team_of(at) else {
            continue;
        };
        members.push((team, leaver.budget));
        let balance = of_team(&mut teams, team);
        balance.before += leaver.price;
        if leaver.least_saving > 0 {
            balance.bound.0 += leaver.price;
            balance.bound.1 += leaver.least_saving;
        }
        balance.leavers += 1;
        balance.all_spot &= leaver.is_spot;
    }
    members.sort_unstable();
    let mut together = members.chunk_by(|one, other| one == other);
    let fits = together.all(|same| {
        let budget = same
            .first()
            .and_then(|(_, budget)| asked.together_max.get(*budget));
        budget.is_none_or(|most| same.len() <= *most)
    });
    for (_, made) in state.made_nodes(paper) {
        let balance = of_team(&mut teams, made.team);
        if balance.leavers > 1 && has_own(paper, state, made) {
            return false;
        }
        balance.after += paper.price(made.offer);
        balance.may_be_spot |= made.open.intersects(&paper.spot_offers);
    }
    fits && teams.iter().all(|balance| balance.holds(asked))
}

/// Whether a new node is what one of those is that go for it.
fn has_own(paper: &Paper, state: &State, made: &Made) -> bool {
    let mut own = paper.own_offers.iter().enumerate();
    own.any(|(at, own)| own.contains(made.offer) && state.team_of(at) == Some(made.team))
}

fn of_team(teams: &mut Vec<Balance>, team: usize) -> &mut Balance {
    let known = teams.iter().position(|balance| balance.team == team);
    let at = known.unwrap_or_else(|| {
        teams.push(Balance {
            team,
            before: 0,
            after: 0,
            bound: (0, 0),
            leavers: 0,
            all_spot: true,
            may_be_spot: false,
        });
        teams.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "it was found or pushed just now")]
    &mut teams[at]
}

impl Balance {
    fn holds(&self, asked: &Rearranging<'_>) -> bool {
        let saved = i128::from(self.before - self.after);
        let (own, least) = self.bound;
        // One spot node goes for another only if many types are cheaper, which is not known here.
        let spot_to_spot = self.all_spot && self.may_be_spot;
        saved > 0
            && saved * i128::from(own) >= i128::from(least) * i128::from(self.before)
            && (!spot_to_spot || asked.spot_to_spot && self.leavers > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_and_less_dearer_outcomes_are_kept() {
        let dearer = [1_000, 500, 1, 0].map(|left| dearer(240_000, left, 1_000));
        assert_eq!(dearer, [1_000, 500, 1, 0]);
    }

    fn holds(change: impl Fn(&mut Balance), spot_to_spot: bool) -> bool {
        let mut balance = Balance {
            team: 0,
            before: 72,
            after: 19,
            bound: (0, 0),
            leavers: 2,
            all_spot: false,
            may_be_spot: true,
        };
        change(&mut balance);
        balance.holds(&Rearranging {
            leavers: &[],
            together_max: &[],
            replacements_max: 0,
            spot_to_spot,
            attempts: 0,
        })
    }

    #[test]
    fn a_team_saves_something() {
        let for_ = |after| holds(|balance| balance.after = after, false);
        assert!(for_(71) && !for_(72) && !for_(73));
    }

    /// Of what a team saves, each node has the part that it has of what they cost.
    #[test]
    fn a_team_saves_as_much_as_those_have_to_that_have_to() {
        let least = |least| holds(|balance| balance.bound = (36, least), false);
        assert!(least(26) && !least(27));
    }

    #[test]
    fn spot_nodes_go_for_what_may_be_spot_several_at_once_where_that_is_allowed() {
        let all_spot = |leavers, may_be_spot, allowed| {
            let change = |balance: &mut Balance| {
                balance.all_spot = true;
                (balance.leavers, balance.may_be_spot) = (leavers, may_be_spot);
            };
            holds(change, allowed)
        };
        assert!(all_spot(2, true, true) && all_spot(1, false, false));
        assert!(!all_spot(2, true, false) && !all_spot(1, true, true));
    }
}
