//! Pod affinity, anti-affinity and hard topology spread, judged on where all pods are once the plan is carried out.
//!
//! A node that may still turn out to be in several domains counts as being in any of them, whichever is worse.

mod affinity;
mod anti_affinity;
mod matching;
mod spread;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use model::{PodKey, pod::Pod};

use crate::{
    Findings, Subject,
    place::{PlaceId, Placements},
    world::World,
};

pub(crate) fn check<'a>(world: &World<'a>, placements: &Placements<'a>, findings: &mut Findings) {
    let scene = Scene::new(world, placements);
    if !scene.is_concerned() {
        return;
    }
    anti_affinity::check(&scene, findings);
    affinity::check(&scene, findings);
    spread::check(&scene, findings);
}

/// Every pod that stays or is placed, in order: those that are there first.
struct Scene<'s, 'a> {
    world: &'s World<'a>,
    placements: &'s Placements<'a>,
    located: Vec<Located<'a>>,
    domains: RefCell<Domains<'s>>,
}

#[derive(Clone, Copy)]
struct Located<'a> {
    pod: &'a Pod,
    place: PlaceId,
    /// The decision that put it there; `None` for pods that run already.
    subject: Option<Subject>,
}

impl<'s, 'a> Scene<'s, 'a> {
    fn new(world: &'s World<'a>, placements: &'s Placements<'a>) -> Self {
        let moved: BTreeMap<&PodKey, ()> = placements
            .placed
            .iter()
            .map(|placed| (&placed.pod.key, ()))
            .collect();
        let mut located = Vec::new();
        for (place, machine) in world.machines.iter().enumerate() {
            let staying = machine
                .residents
                .iter()
                .filter(|pod| pod.deletion.is_none() && !moved.contains_key(&pod.key));
            located.extend(staying.map(|pod| Located {
                pod,
                place,
                subject: None,
            }));
        }
        located.extend(placements.placed.iter().map(|placed| Located {
            pod: placed.pod,
            place: placed.place,
            subject: Some(placed.subject),
        }));
        Self {
            world,
            placements,
            located,
            domains: RefCell::default(),
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

    /// Every domain a pod's node may be in. Where they cannot be listed, what is known is that it may be in any: that is
    /// reported as none, which no rule about it survives.
    fn domains(&self, located: &Located<'a>, key: &str) -> Rc<Vec<&'s str>> {
        let of_key = {
            let mut known = self.domains.borrow_mut();
            match known.get(key) {
                Some(of_key) => Rc::clone(of_key),
                None => Rc::clone(known.entry(key.to_owned()).or_default()),
            }
        };
        let known = of_key.borrow().get(&located.place).map(Rc::clone);
        known.unwrap_or_else(|| {
            let place = self.placements.places.get(located.place);
            let domains = place
                .and_then(|place| place.domains(self.world, key))
                .unwrap_or_default();
            let domains = Rc::new(domains);
            of_key
                .borrow_mut()
                .insert(located.place, Rc::clone(&domains));
            domains
        })
    }
}

/// By topology key: what places may be in.
type Domains<'s> = BTreeMap<String, Rc<RefCell<BTreeMap<PlaceId, Rc<Vec<&'s str>>>>>>;
