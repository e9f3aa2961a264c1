//! What the search counts as it goes is what there is to count where the pods are in the end.

use model::{
    NanosPerHour, labels,
    pod::{HostPort, PodShape},
};

use super::{
    super::{
        Rearranging,
        paper::{NOWHERE, Paper},
        search::Search,
        state::State,
    },
    by_zone, selecting, wasteful,
    world::{CENT, World},
};

/// What each pod of a world has to obey.
type Rule = fn(&mut PodShape);

const RULES: [Rule; 6] = [
    |_| {},
    |shape| {
        shape.host_ports = vec![HostPort {
            ip: String::new(),
            port: 80,
            protocol: "TCP".to_owned(),
        }];
    },
    |shape| shape.pod_anti_affinity.required = vec![selecting(labels::HOSTNAME)],
    |shape| shape.pod_affinity.required = vec![selecting(labels::ZONE)],
    |shape| shape.topology_spread = vec![by_zone(2)],
    |shape| {
        let mut by_host = by_zone(3);
        by_host.topology_key = labels::HOSTNAME.to_owned();
        shape.topology_spread = vec![by_zone(4), by_host];
    },
];

#[test]
fn whatever_was_tried_the_books_are_right() {
    let mut gone = 0;
    for (seed, rule) in (0..).zip(RULES) {
        let world = wasteful(seed).with(rule);
        searched(&world, |paper, state| {
            placed_as_they_may_be(paper, state);
            assert_eq!(state.cost, cost(paper, state), "rule {seed}");
            assert_eq!(state.evicted, moved(paper, state).count(), "rule {seed}");
            counted_where_they_are(paper, state);
            as_cheap_as_they_can_be(paper, state);
            gone += state.gone.iter().filter(|gone| **gone).count();
        });
    }
    assert!(gone > 100, "{gone}");
}

/// Shows what is found with few changes tried, and with more, while an eviction becomes dearer and cheaper.
fn searched(world: &World, mut shown: impl FnMut(&Paper, &State)) {
    let mut leavers = world.leavers();
    for leaver in &mut leavers {
        leaver.disturbance = NanosPerHour(CENT / 8);
    }
    for attempts in [20, 100, 600] {
        let asked = Rearranging {
            leavers: &leavers,
            together_max: &[usize::MAX],
            replacements_max: 3,
            spot_to_spot: false,
            attempts,
        };
        world.standing(|standing| {
            let paper = Paper::new(&mut standing.solver(), &leavers).unwrap();
            let mut search = Search::new(&paper, &asked);
            for eighths in [8, 0, 20, 2] {
                shown(&paper, search.cheapest(NanosPerHour(eighths * CENT / 8)));
            }
        });
    }
}

/// The pods of nodes that go.
fn moved<'p>(paper: &'p Paper, state: &'p State) -> impl Iterator<Item = usize> {
    (0..paper.pods.len()).filter(|pod| state.gone[paper.pods[*pod].leaver])
}

fn cost(paper: &Paper, state: &State) -> i64 {
    let leavers = paper.leavers.iter().zip(&state.gone);
    let nodes = leavers.map(|(leaver, gone)| match gone {
        true => leaver.disturbance,
        false => leaver.price,
    });
    let made = state.made_nodes(paper);
    nodes.sum::<i64>() + made.map(|(_, made)| paper.price(made.offer)).sum::<i64>()
}

/// Those that stay are at home, others on nodes that are open, have room, and admit them.
fn placed_as_they_may_be(paper: &Paper, state: &State) {
    for (at, pod) in paper.pods.iter().enumerate() {
        let (node, home) = (state.place[at], paper.home(pod.leaver));
        assert_eq!(node == home, !state.gone[pod.leaver]);
        if node == home {
            continue;
        }
        let kind = &paper.kinds[pod.kind];
        match state.made_at(paper, node) {
            Some(made) => {
                assert_eq!(state.team_of(pod.leaver), Some(made.team));
                assert!(made.open.contains(made.offer) && kind.offers.contains(made.offer));
                let mut domains = made.domains.iter().enumerate();
                assert!(domains.all(|(key, domain)| {
                    *domain == NOWHERE || paper.offers_in[key][*domain].contains(made.offer)
                }));
            }
            None => assert!(state.is_open(paper, node) && kind.nodes.contains(&node)),
        }
        for rule in &kind.hosts {
            assert!(rule.column < paper.counted.host_columns());
            let others = state.on_host(paper, node, rule.column) - i64::from(rule.counts);
            assert!(rule.most.is_none_or(|most| others <= most));
        }
        for rule in &kind.domains {
            let domain = state.domain(paper, node, rule.key);
            assert!(rule.eligible >> domain & 1 == 1);
        }
    }
}

/// A new node has guests, and is the cheapest that holds them.
fn as_cheap_as_they_can_be(paper: &Paper, state: &State) {
    for (node, made) in state.made_nodes(paper) {
        assert!(!state.guests[node].is_empty());
        let load = state.load.row(node);
        let holds = |offer: &usize| {
            let room = &paper.offers[*offer].room;
            made.open.contains(*offer) && load.iter().zip(room).all(|(load, room)| load <= room)
        };
        assert_eq!((0..paper.offers.len()).find(holds), Some(made.offer));
    }
}

fn counted_where_they_are(paper: &Paper, state: &State) {
    for (leaver, (_, lodgers)) in state.team.iter().enumerate() {
        let own = moved(paper, state).filter(|pod| paper.pods[*pod].leaver == leaver);
        let is_new = |pod: &usize| state.place[*pod] >= paper.nodes.len();
        assert_eq!(own.filter(is_new).count(), *lodgers);
    }
    let count = paper.nodes.len() + paper.made_max();
    for node in 0..count {
        let guests = || moved(paper, state).filter(move |pod| state.place[*pod] == node);
        let mut known = state.guests[node].clone();
        known.sort_unstable();
        assert_eq!(known, guests().collect::<Vec<_>>());
        let room = match state.made_at(paper, node) {
            Some(made) if made.team != NOWHERE => &paper.offers[made.offer].room[..],
            Some(_) => &[],
            None => &paper.nodes[node].room[..],
        };
        for at in 0..paper.dimensions {
            let load = guests().map(|pod| paper.kind(pod).unwrap().requests[at]);
            let load: i64 = load.sum();
            assert_eq!(state.load.at(node, at), load);
            assert!(load == 0 || room.get(at).is_some_and(|room| load <= *room));
        }
        for column in 0..paper.counted.host_columns() {
            let residents = paper.nodes.get(node).map_or(0, |node| node.hosted[column]);
            let counts = |pod: &usize| {
                let mut rules = paper.kind(*pod).unwrap().hosts.iter();
                rules.any(|rule| rule.column == column && rule.counts)
            };
            let guests = i64::try_from(guests().filter(counts).count()).unwrap();
            let counted = state.on_host(paper, node, column);
            assert_eq!(counted, i64::from(residents) + guests);
        }
    }
    let mut in_domains = paper.counted.in_domains.clone();
    for pod in moved(paper, state) {
        let home = paper.home(paper.pods[pod].leaver);
        for rule in paper.kind(pod).unwrap().domains.iter() {
            if rule.counts {
                in_domains[rule.row][state.domain(paper, home, rule.key)] -= 1;
                in_domains[rule.row][state.domain(paper, state.place[pod], rule.key)] += 1;
            }
        }
    }
    for (row, counts) in in_domains.iter().enumerate() {
        assert_eq!(state.in_domains.row(row), counts);
    }
}
