//! Pod affinity, anti-affinity and hard topology spread, judged on where all pods are once the plan is carried out.
//!
//! A node that may still turn out to be in several domains counts as being in any of them, whichever is worse.

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
    let mut scene = Scene::new(world, placements);
    let counts_daemons = world.snapshot.settings.optimize == Optimize::Cost;
    let mut daemons = world.snapshot.daemon_sets.iter();
    let do_daemons_shun =
        counts_daemons && daemons.any(|daemon| !daemon.pod.pod_anti_affinity.required.is_empty());
    if !do_daemons_shun && !scene.is_concerned() {
        return;
    }
    if counts_daemons {
        let to_come = daemons_to_come(world, placements);
        let there = scene.located.partition_point(|one| one.subject.is_none());
        scene.located.splice(there..there, to_come);
    }
    anti_affinity::check(&scene, findings);
    affinity::check(&scene, findings);
    spread::check(&scene, findings);
}

/// Every pod that stays or is placed, in order: those that are there first.
struct Scene<'s, 'a> {
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
    /// The decision that put it there; `None` for pods that run already, and for daemons.
    subject: Option<Subject>,
    /// A daemon that the node will run, and does not run yet as far as is known. Spreads count it once it runs.
    is_to_come: bool,
}

impl<'s, 'a> Scene<'s, 'a> {
    fn new(world: &'s World<'a>, placements: &'s Placements<'a>) -> Self {
        let placed = placements.placed.iter().map(|placed| placed.pod);
        let moved: BTreeSet<&PodKey> = placed
            .filter(|pod| pod.node_name.is_some())
            .map(|pod| &pod.key)
            .collect();
        let mut located = Vec::new();
        for (place, machine) in world.machines.iter().enumerate() {
            let staying = machine
                .residents
                .iter()
                .filter(|pod| pod.deletion.is_none() && !moved.contains(&pod.key));
            located.extend(staying.map(|pod| Located {
                pod,
                place,
                subject: None,
                is_to_come: false,
            }));
        }
        located.extend(placements.placed.iter().map(|placed| Located {
            pod: placed.pod,
            place: placed.place,
            subject: Some(placed.subject),
            is_to_come: false,
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

    /// Whether any of the rules can matter: most plans are about pods without them, and nobody shuns those.
    fn is_concerned(&self) -> bool {
        self.located.iter().any(|located| {
            let pod = located.pod;
            !pod.pod_anti_affinity.required.is_empty()
                || located.subject.is_some()
                    && !(pod.pod_affinity.required.is_empty() && pod.topology_spread.is_empty())
        })
    }

    /// The pods a term is about, as indexes into `located`, in its order.
    fn matching(&self, term: &Term) -> Vec<usize> {
        self.index.matching(&self.located, term)
    }

    /// By place, every domain that it may be in.
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

    /// The label that a topology key is about: old spellings are on nodes as well as new ones, which upstream does not use.
    fn topology_key<'k>(&self, key: &'k str) -> &'k str {
        match self.world.snapshot.settings.optimize {
            Optimize::Upstream => key,
            Optimize::Cost => labels::normalized(key),
        }
    }

    /// The domains in which a NodePool can make nodes.
    fn offered(&self, pool: &'a NodePool, key: &str) -> Domains {
        let mut offered = self.offered.borrow_mut();
        let known = offered.entry((pool.name.as_str(), key.to_owned()));
        let found =
            known.or_insert_with(|| Rc::new(offered::by_pool(self.world.snapshot, pool, key)));
        Rc::clone(found)
    }
}

/// The daemons that nodes run once they have joined: pods that wait for such a node find them there.
fn daemons_to_come<'a>(world: &World<'a>, placements: &Placements<'a>) -> Vec<Located<'a>> {
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
            is_to_come: true,
        }));
    }
    located
}

/// The domains of one topology key. Where a place's cannot be listed, what is known is that it may be in any: that is
/// reported as none, which no rule about it survives.
struct Column<'s> {
    of: Vec<Vec<&'s str>>,
    /// Every domain once; its number is its place here.
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

    /// As [`Self::of`], by number.
    fn numbers(&self, place: PlaceId) -> &[usize] {
        self.numbers.get(place).map_or(&[], Vec::as_slice)
    }
}
