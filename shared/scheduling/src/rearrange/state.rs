//! One way to arrange the cluster, which is changed pod by pod and node by node.

use super::{
    grid::Grid,
    made::Made,
    paper::{NOWHERE, Paper},
    rules::DOMAINS_MAX,
};

/// Nodes that exist come first, then those to be made.
pub(super) struct State {
    /// Per pod, the node it is on; [`NOWHERE`] while it is being placed.
    pub(super) place: Vec<usize>,
    /// Per node, what its guests ask for: pods that are not at home there.
    pub(super) load: Grid<i64>,
    /// Per node and per rule that counts hosts, its guests.
    hosted: Grid<u32>,
    /// Per rule that counts domains.
    pub(super) in_domains: Grid<i64>,
    pub(super) guests: Vec<Vec<usize>>,
    /// Per leaver, whether it goes.
    pub(super) gone: Vec<bool>,
    /// Per leaver, the team with which it shares new nodes, and how many of its pods are there.
    pub(super) team: Vec<(usize, usize)>,
    /// Those to be made; an empty one is free.
    pub(super) made: Vec<Made>,
    /// The next team's number.
    pub(super) next_team: usize,
    /// What all of it costs per hour, in nano-dollars, evictions left out.
    pub(super) cost: i64,
    /// How many pods leave their homes.
    pub(super) evicted: usize,
}

impl Paper {
    /// Everything as it is.
    pub(super) fn at_home(&self) -> State {
        let count = self.nodes.len() + self.made_max();
        let mut in_domains = Grid::new(self.counted.in_domains.len(), DOMAINS_MAX);
        for (row, counts) in self.counted.in_domains.iter().enumerate() {
            in_domains.row_mut(row).copy_from_slice(counts);
        }
        let homes = self.pods.iter().map(|pod| self.home(pod.leaver));
        State {
            place: homes.collect(),
            load: Grid::new(count, self.dimensions),
            hosted: Grid::new(count, self.counted.host_columns()),
            in_domains,
            guests: vec![Vec::new(); count],
            gone: vec![false; self.leavers.len()],
            team: vec![(NOWHERE, 0); self.leavers.len()],
            made: (0..self.made_max())
                .map(|_| self.anything.clone())
                .collect(),
            next_team: 0,
            cost: self.leavers.iter().map(|leaver| leaver.price).sum(),
            evicted: 0,
        }
    }

    pub(super) fn made_max(&self) -> usize {
        self.leavers.len()
    }

    pub(super) fn home(&self, leaver: usize) -> usize {
        self.leavers.get(leaver).map_or(NOWHERE, |one| one.node)
    }

    pub(super) fn price(&self, offer: usize) -> i64 {
        self.offers.get(offer).map_or(0, |offer| offer.price)
    }
}

impl State {
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.place.clone_from(&other.place);
        self.load.copy_from(&other.load);
        self.hosted.copy_from(&other.hosted);
        self.in_domains.copy_from(&other.in_domains);
        self.guests.clone_from(&other.guests);
        self.gone.clone_from(&other.gone);
        self.team.clone_from(&other.team);
        for (made, other) in self.made.iter_mut().zip(&other.made) {
            made.copy_from(other);
        }
        self.next_team = other.next_team;
        self.cost = other.cost;
        self.evicted = other.evicted;
    }

    pub(super) fn made_at(&self, paper: &Paper, node: usize) -> Option<&Made> {
        self.made.get(node.checked_sub(paper.nodes.len())?)
    }

    /// The nodes to be made that have guests.
    pub(super) fn made_nodes(&self, paper: &Paper) -> impl Iterator<Item = (usize, &Made)> {
        let made = self.made.iter().enumerate();
        let used = made.filter(|(_, made)| made.team != NOWHERE);
        let first = paper.nodes.len();
        used.map(move |(at, made)| (first + at, made))
    }

    pub(super) fn is_open(&self, paper: &Paper, node: usize) -> bool {
        let leaver = paper.nodes.get(node).and_then(|node| node.leaver);
        leaver.is_none_or(|leaver| self.gone.get(leaver) != Some(&true))
    }

    /// The team of a leaver whose pods are on new nodes.
    pub(super) fn team_of(&self, leaver: usize) -> Option<usize> {
        let (team, lodgers) = self.team.get(leaver)?;
        (*lodgers > 0).then_some(*team)
    }

    /// How many pods a rule counts on a node.
    pub(super) fn on_host(&self, paper: &Paper, node: usize, column: usize) -> i64 {
        let residents = paper.nodes.get(node).map_or(&[][..], |node| &node.hosted);
        let residents = residents.get(column).copied().unwrap_or(0);
        i64::from(residents) + i64::from(self.hosted.at(node, column))
    }

    /// The domain of a label that a node is in.
    pub(super) fn domain(&self, paper: &Paper, node: usize, key: usize) -> usize {
        let known = match paper.nodes.get(node) {
            Some(node) => &node.domains,
            None => match self.made_at(paper, node) {
                Some(made) => &made.domains,
                None => return NOWHERE,
            },
        };
        known.get(key).copied().unwrap_or(NOWHERE)
    }

    /// Lets a node go. Its pods and its guests are nowhere then.
    pub(super) fn leave(&mut self, paper: &Paper, leaver: usize, waiting: &mut Vec<usize>) {
        let Some(one) = paper.leavers.get(leaver) else {
            return;
        };
        self.turn_out(paper, one.node, waiting);
        for pod in &one.pods {
            if self.place.get(*pod) == Some(&one.node) {
                self.take(paper, *pod);
                waiting.push(*pod);
            }
        }
        if let Some(gone) = self.gone.get_mut(leaver) {
            *gone = true;
        }
        self.cost += one.disturbance - one.price;
        self.evicted += one.pods.len();
    }

    /// Lets a node stay after all, with its own pods; returns the nodes to be made that they leave.
    pub(super) fn come_back(&mut self, paper: &Paper, leaver: usize) -> Vec<usize> {
        let Some(one) = paper.leavers.get(leaver) else {
            return Vec::new();
        };
        let mut left = Vec::new();
        for pod in &one.pods {
            left.extend(
                self.take(paper, *pod)
                    .filter(|node| *node >= paper.nodes.len()),
            );
            self.put(paper, *pod, one.node);
        }
        if let Some(gone) = self.gone.get_mut(leaver) {
            *gone = false;
        }
        self.cost += one.price - one.disturbance;
        self.evicted -= one.pods.len();
        left
    }

    /// Takes the guests of a node away.
    pub(super) fn turn_out(&mut self, paper: &Paper, node: usize, waiting: &mut Vec<usize>) {
        let guests = self.guests.get_mut(node).map(std::mem::take);
        for pod in guests.unwrap_or_default() {
            self.take(paper, pod);
            waiting.push(pod);
        }
    }

    /// Takes a pod from where it is.
    fn take(&mut self, paper: &Paper, pod: usize) -> Option<usize> {
        let place = self.place.get_mut(pod)?;
        let node = std::mem::replace(place, NOWHERE);
        if node == NOWHERE {
            return None;
        }
        self.count(paper, pod, node, false);
        if let Some(guests) = self.guests.get_mut(node)
            && let Some(at) = guests.iter().position(|guest| *guest == pod)
        {
            guests.swap_remove(at);
        }
        Some(node)
    }

    /// Puts a pod on a node.
    pub(super) fn put(&mut self, paper: &Paper, pod: usize, node: usize) {
        self.count(paper, pod, node, true);
        if let Some(place) = self.place.get_mut(pod) {
            *place = node;
        }
        let leaver = paper.pods.get(pod).map_or(NOWHERE, |pod| pod.leaver);
        if node != paper.home(leaver)
            && let Some(guests) = self.guests.get_mut(node)
        {
            guests.push(pod);
        }
    }

    /// Counts a pod on a node that it joins or leaves.
    fn count(&mut self, paper: &Paper, pod: usize, node: usize, joins: bool) {
        let sign = if joins { 1 } else { -1 };
        let Some(pod) = paper.pods.get(pod) else {
            return;
        };
        let Some(kind) = paper.kinds.get(pod.kind) else {
            return;
        };
        for rule in kind.domains.iter().filter(|rule| rule.counts) {
            let domain = self.domain(paper, node, rule.key);
            let count = self.in_domains.at(rule.row, domain);
            if domain != NOWHERE {
                self.in_domains
                    .set(rule.row, domain, count + i64::from(sign));
            }
        }
        // What its own pods take of a node is not there to be had, whether they are there or not.
        if node == paper.home(pod.leaver) {
            return;
        }
        for (load, wanted) in self.load.row_mut(node).iter_mut().zip(&kind.requests) {
            *load += i64::from(sign) * wanted;
        }
        for rule in kind.hosts.iter().filter(|rule| rule.counts) {
            let count = self.hosted.at(node, rule.column);
            let count = count.saturating_add_signed(sign);
            self.hosted.set(node, rule.column, count);
        }
        if node >= paper.nodes.len()
            && let Some((_, lodgers)) = self.team.get_mut(pod.leaver)
        {
            *lodgers = lodgers.saturating_add_signed(if joins { 1 } else { -1 });
        }
    }
}
