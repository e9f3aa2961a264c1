//! The places that a plan gives to pods: existing machines, nodes in flight, and the plan's own launches.

use std::collections::BTreeMap;

use model::{
    Action, Plan, labels,
    plan::{Expected, PodRef},
    pod::Pod,
    taint::Taint,
};

use crate::{
    Findings, Subject,
    label::Label,
    open_node::OpenNode,
    world::{Machine, World},
};

/// Index into [`Placements::places`].
pub(crate) type PlaceId = usize;

pub(crate) struct Placements<'a> {
    /// The machines of the world in their order, followed by open nodes.
    pub places: Vec<Place<'a>>,
    /// Placed pods in the order of the plan, nominations first. If two collide, the earlier one keeps its place.
    pub placed: Vec<Placed<'a>>,
    /// Places of the plan's launches, by the index of the action.
    pub launches: BTreeMap<usize, PlaceId>,
}

pub(crate) struct Placed<'a> {
    pub pod: &'a Pod,
    pub place: PlaceId,
    pub subject: Subject,
}

pub(crate) enum Place<'a> {
    Machine(usize),
    Open(OpenNode<'a>),
}

impl<'a> Placements<'a> {
    pub(crate) fn new(world: &World<'a>, plan: &'a Plan, findings: &mut Findings) -> Self {
        let mut placements = Self {
            places: (0..world.machines.len()).map(Place::Machine).collect(),
            placed: Vec::new(),
            launches: BTreeMap::new(),
        };
        placements.add_nominations(world, plan, findings);
        placements.add_launches(world, plan);
        placements
    }

    fn add_nominations(&mut self, world: &World<'a>, plan: &'a Plan, findings: &mut Findings) {
        let mut in_flight: BTreeMap<&str, PlaceId> = BTreeMap::new();
        for (index, nomination) in plan.nominations.iter().enumerate() {
            let subject = Subject::Nomination(index);
            let machine = match &nomination.node {
                Expected::Node(name) => world.machine_of_node.get(name.as_str()),
                Expected::NodeClaim(name) => world.machine_of_claim.get(name.as_str()).copied(),
            };
            let place = match (&nomination.node, machine) {
                (_, Some(machine)) => Some(machine),
                (Expected::Node(_), None) => None,
                (Expected::NodeClaim(name), None) => match in_flight.get(name.as_str()) {
                    Some(place) => Some(*place),
                    None => OpenNode::in_flight(world, name.as_str()).map(|node| {
                        let place = self.places.len();
                        self.places.push(Place::Open(node));
                        in_flight.insert(name.as_str(), place);
                        place
                    }),
                },
            };
            let Some(place) = place else {
                findings.add(subject, format!("{} does not exist", nomination.node));
                continue;
            };
            let leaving = match self.places.get(place) {
                Some(Place::Machine(machine)) => world
                    .machines
                    .get(*machine)
                    .is_some_and(|machine| machine.leaving),
                Some(Place::Open(_)) | None => {
                    let name = match &nomination.node {
                        Expected::Node(name) => name.as_str(),
                        Expected::NodeClaim(name) => name.as_str(),
                    };
                    let claim = world.in_flight.get(name).and_then(|known| known.claim);
                    claim.is_some_and(|claim| claim.deleted_at.is_some())
                }
            };
            if leaving {
                findings.add(subject, format!("{} is being deleted", nomination.node));
            }
            self.place(world, &nomination.pod, place, subject);
        }
    }

    fn add_launches(&mut self, world: &World<'a>, plan: &'a Plan) {
        for (index, planned) in plan.actions.iter().enumerate() {
            let Action::Launch(launch) = &planned.action else {
                continue;
            };
            let place = self.places.len();
            self.places
                .push(Place::Open(OpenNode::launched(world, launch)));
            self.launches.insert(index, place);
            for pod in &launch.pods {
                self.place(world, pod, place, Subject::Action(index));
            }
        }
    }

    /// Unknown pods are skipped here, because `identity` reports them.
    fn place(&mut self, world: &World<'a>, pod: &PodRef, place: PlaceId, subject: Subject) {
        if let Some(pod) = world.pods.get(&pod.key) {
            self.placed.push(Placed {
                pod,
                place,
                subject,
            });
        }
    }

    /// Pods of each place, as indexes into `placed`.
    pub(crate) fn by_place(&self) -> BTreeMap<PlaceId, Vec<usize>> {
        let mut by_place: BTreeMap<PlaceId, Vec<usize>> = BTreeMap::new();
        for (index, placed) in self.placed.iter().enumerate() {
            by_place.entry(placed.place).or_default().push(index);
        }
        by_place
    }
}

impl<'a> Place<'a> {
    pub(crate) fn name<'w>(&self, world: &'w World<'a>) -> &'w str
    where
        'a: 'w,
    {
        match self {
            Self::Machine(index) => machine(world, *index).map_or("", |machine| machine.name),
            Self::Open(node) => node.name,
        }
    }

    /// All topology domains that the place may be in; empty if it has none, `None` if they cannot be enumerated.
    pub(crate) fn domains<'p>(&'p self, world: &'p World<'a>, key: &str) -> Option<Vec<&'p str>> {
        match self {
            Self::Open(node) => node.domains(key),
            Self::Machine(index) => {
                let machine = machine(world, *index)?;
                let value = if key == labels::HOSTNAME {
                    Some(machine.hostname())
                } else {
                    machine.labels.get(key).map(String::as_str)
                };
                Some(value.into_iter().collect())
            }
        }
    }

    /// Knowledge of a label that holds for every outcome of the place.
    pub(crate) fn label<'p>(&'p self, world: &'p World<'a>, key: &str) -> Label<'p> {
        match self {
            Self::Open(node) => node.label_of_all(key),
            Self::Machine(index) => {
                machine(world, *index).map_or(Label::Absent, |machine| machine.label(key))
            }
        }
    }

    pub(crate) fn taints<'p>(&'p self, world: &'p World<'a>) -> Vec<&'p Taint> {
        match self {
            Self::Open(node) => node.taints.iter().collect(),
            Self::Machine(index) => {
                machine(world, *index).map_or_else(Vec::new, |machine| machine.taints.clone())
            }
        }
    }
}

pub(crate) fn machine<'w, 'a>(world: &'w World<'a>, index: usize) -> Option<&'w Machine<'a>> {
    world.machines.get(index)
}

impl Machine<'_> {
    pub(crate) fn label(&self, key: &str) -> Label<'_> {
        if key == labels::HOSTNAME {
            return Label::Is(self.hostname());
        }
        let value = self
            .labels
            .get(key)
            .or_else(|| self.labels.get(labels::normalized(key)));
        value.map_or(Label::Absent, |value| Label::Is(value))
    }
}
