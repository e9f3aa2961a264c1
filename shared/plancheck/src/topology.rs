//! Pod affinity, anti-affinity and hard topology spread, checked against the positions of all pods after the plan.
//!
//! A node that may be in several domains counts as being in any of them, whichever is worse for the plan.

mod affinity;
mod anti_affinity;
mod matching;
mod offered;
mod spread;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{Memo, PodKey, labels, node_pool::NodePool, pod::Pod, snapshot::Optimize};

use self::matching::{Index, Term};
use crate::{
    Findings, Subject,
    daemons::Daemons,
    place::{Place, PlaceId, Placements},
    volumes::Storage,
    world::World,
};

pub(crate) fn check<'a>(world: &World<'a>, placements: &Placements<'a>, findings: &mut Findings) {
    let mut context = TopologyContext::new(world, placements);
    let counts_daemons = world.snapshot.settings.optimize == Optimize::Cost;
    let mut daemons = world.snapshot.daemon_sets.iter();
    let daemons_have_anti_affinity =
        counts_daemons && daemons.any(|daemon| !daemon.pod.pod_anti_affinity.required.is_empty());
    if !daemons_have_anti_affinity && !context.is_concerned() {
        return;
    }
    if counts_daemons {
        let to_come = expected_daemons(world, placements);
        let there = context
            .located
            .partition_point(|located| located.subject.is_none());
        context.located.splice(there..there, to_come);
    }
    anti_affinity::check(&context, findings);
    affinity::check(&context, findings);
    spread::check(&context, findings);
}

/// All pods that stay or are placed by the plan, those that run already first.
struct TopologyContext<'s, 'a> {
    world: &'s World<'a>,
    placements: &'s Placements<'a>,
    storage: Storage<'a>,
    located: Vec<Located<'a>>,
    index: Index<'a>,
    columns: RefCell<BTreeMap<String, Rc<Column<'s>>>>,
    offered: RefCell<BTreeMap<(&'a str, String), Domains>>,
}

/// Values of one topology key.
type Domains = Rc<BTreeSet<String>>;

#[derive(Clone, Copy)]
struct Located<'a> {
    pod: &'a Pod,
    place: PlaceId,
    /// The decision that places the pod; `None` for running pods and daemons.
    subject: Option<Subject>,
    /// Whether the pod is a daemon that the node will run, but does not run yet as far as is known. Topology spread
    /// counts it only once it runs.
    is_expected: bool,
}

impl<'s, 'a> TopologyContext<'s, 'a> {
    fn new(world: &'s World<'a>, placements: &'s Placements<'a>) -> Self {
        let placed = placements.placed.iter().map(|placed| placed.pod);
        let moved: BTreeSet<&PodKey> = placed
            .filter(|pod| pod.node_name.is_some())
            .map(|pod| &pod.key)
            .collect();
        let mut located = Vec::new();
        for (place, machine) in world.machines.iter().enumerate() {
            let staying = machine
                .bound_pods
                .iter()
                .filter(|pod| pod.deletion.is_none() && !moved.contains(&pod.key));
            located.extend(staying.map(|pod| Located {
                pod,
                place,
                subject: None,
                is_expected: false,
            }));
        }
        located.extend(placements.placed.iter().map(|placed| Located {
            pod: placed.pod,
            place: placed.place,
            subject: Some(placed.subject),
            is_expected: false,
        }));
        Self {
            world,
            placements,
            storage: Storage::new(world),
            located,
            index: Index::default(),
            columns: RefCell::default(),
            offered: RefCell::default(),
        }
    }

    /// Whether any of the rules can be violated. Most plans place pods without such rules, which no anti-affinity
    /// concerns.
    fn is_concerned(&self) -> bool {
        self.located.iter().any(|located| {
            let pod = located.pod;
            !pod.pod_anti_affinity.required.is_empty()
                || located.subject.is_some()
                    && !(pod.pod_affinity.required.is_empty() && pod.topology_spread.is_empty())
        })
    }

    /// Pods that a term selects, as indexes into `located`, in its order.
    fn matching(&self, term: &Term) -> Vec<usize> {
        self.index.matching(&self.located, term)
    }

    /// Possible domains of each place for a topology key.
    fn column(&self, key: &str) -> Rc<Column<'s>> {
        if let Some(known) = self.columns.borrow().get(key) {
            return Rc::clone(known);
        }
        let places = self.placements.places.iter();
        let domains = places.map(|place| place.domains(self.world, key).unwrap_or_default());
        let column = Rc::new(Column::new(domains.collect()));
        self.columns
            .borrow_mut()
            .insert(key.to_owned(), Rc::clone(&column));
        column
    }

    /// The label that a topology key refers to. Nodes carry deprecated keys and their replacements, which Karpenter
    /// does not treat as equal.
    fn topology_key<'k>(&self, key: &'k str) -> &'k str {
        match self.world.snapshot.settings.optimize {
            Optimize::Upstream => key,
            Optimize::Cost => labels::normalized(key),
        }
    }

    /// The domains in which a NodePool can launch nodes.
    fn offered(&self, pool: &'a NodePool, key: &str) -> Domains {
        let mut offered = self.offered.borrow_mut();
        let known = offered.entry((pool.name.as_str(), key.to_owned()));
        let found =
            known.or_insert_with(|| Rc::new(offered::by_pool(self.world.snapshot, pool, key)));
        Rc::clone(found)
    }
}

/// Daemons that run on nodes once those have joined: placed pods will meet them there.
fn expected_daemons<'a>(world: &World<'a>, placements: &Placements<'a>) -> Vec<Located<'a>> {
    let daemons = Daemons::new(world);
    let mut located = Vec::new();
    for (at, place) in placements.places.iter().enumerate() {
        let to_come: Vec<&Pod> = match place {
            Place::Open(node) => daemons.candidates(node).for_certain(node).collect(),
            Place::Machine(machine) => match world.machines.get(*machine) {
                Some(machine) if !machine.initialized => daemons.on_machine(machine).collect(),
                _ => Vec::new(),
            },
        };
        located.extend(to_come.into_iter().map(|pod| Located {
            pod,
            place: at,
            subject: None,
            is_expected: true,
        }));
    }
    located
}

/// Possible domains of each place for one topology key. A place whose domains cannot be enumerated has none, which
/// fails every rule about it.
struct Column<'s> {
    of: Vec<Vec<&'s str>>,
    /// The distinct domains; a domain's number is its index.
    names: Vec<&'s str>,
    numbers: Vec<Vec<usize>>,
}

impl<'s> Column<'s> {
    fn new(of: Vec<Vec<&'s str>>) -> Self {
        let mut names = Vec::new();
        let mut known: Memo<&str, usize> = Memo::default();
        let mut number = |name: &&'s str| {
            let next = names.len();
            let number = known.get_or_insert(*name, next);
            if number == next {
                names.push(*name);
            }
            number
        };
        let numbers = of
            .iter()
            .map(|domains| domains.iter().map(&mut number).collect());
        let numbers = numbers.collect();
        Self { of, names, numbers }
    }

    fn of(&self, place: PlaceId) -> &[&'s str] {
        self.of.get(place).map_or(&[], Vec::as_slice)
    }

    /// Like [`Self::of`], by number.
    fn numbers(&self, place: PlaceId) -> &[usize] {
        self.numbers.get(place).map_or(&[], Vec::as_slice)
    }
}
