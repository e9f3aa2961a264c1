//! Devices that pods claim: each place has as many as its pods request together (docs/spec/v1.15.md#dra-planning).
//!
//! CEL expressions are not evaluated. Devices are counted in total, and by driver if the DeviceClass's selector names
//! one.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    NodeName, PodKey, Uid,
    devices::{
        ClaimSpec, Device, DeviceAlternative, DeviceCount, DeviceObjects, PodClaim, ResourceClaim,
        ResourceSlice, qualified, slices_by_node,
    },
    labels,
    pod::Pod,
};

use crate::{
    Findings,
    place::{Place, Placements, machine},
    world::{Machine, World, is_terminal},
};

pub(crate) fn check<'a>(world: &World<'a>, placements: &Placements<'a>, findings: &mut Findings) {
    let has_claims = placements
        .placed
        .iter()
        .any(|placed| placed.pod.resource_claims);
    if !has_claims {
        return;
    }
    let claims = Claims::new(world, placements);
    let mut places_of_claims: BTreeMap<&PodKey, usize> = BTreeMap::new();
    for (place, placed) in placements.by_place() {
        let Some(known) = placements.places.get(place) else {
            continue;
        };
        let choices = claims.choices(world, known);
        let mut wanted = DeviceRequests::default();
        for placed in placed.iter().filter_map(|at| placements.placed.get(*at)) {
            let (pod, subject) = (placed.pod, placed.subject);
            if !pod.resource_claims {
                continue;
            }
            let mut refuse =
                |text: String| findings.add(subject, format!("pod {}: {text}", pod.key));
            if !world.snapshot.settings.device_claims {
                refuse("its resource claims are disabled by the settings".to_owned());
                continue;
            }
            for claim in pod.device_claims.iter().filter(|claim| !claim.is_void) {
                match claims.claim_use(pod, claim) {
                    None => refuse(format!("resource claim {} is not known", claim.name)),
                    Some(ClaimUse::Held(held)) => {
                        if !is_held_at(held, known.name(world)) {
                            refuse(format!("ResourceClaim {} is allocated elsewhere", held.key));
                        }
                    }
                    Some(ClaimUse::Shared(shared)) => {
                        match places_of_claims.insert(&shared.key, place) {
                            None => wanted.add(&shared.spec, &claims),
                            Some(other) if other == place => {}
                            Some(_) => {
                                refuse(format!("ResourceClaim {} is at two places", shared.key))
                            }
                        }
                    }
                    Some(ClaimUse::Own(spec)) => wanted.add(spec, &claims),
                }
            }
            let lacking = choices
                .iter()
                .find_map(|(name, free)| Some((name, wanted.shortage(free)?)));
            if let Some((name, shortage)) = lacking {
                refuse(format!("{name} has {shortage}"));
            }
        }
    }
}

/// Whether the claim's devices are on this node, whose pool has the node's name or whose selector names the node.
/// Devices that all nodes can access are on every node.
fn is_held_at(claim: &ResourceClaim, node: &str) -> bool {
    let Some(allocation) = &claim.allocation else {
        return false;
    };
    let at = |value: &String| value == node;
    let Some(terms) = &allocation.nodes else {
        return true;
    };
    let entries = terms
        .iter()
        .flat_map(|term| term.match_fields.iter().chain(&term.match_expressions));
    let mut values = entries.flat_map(|entry| &entry.values);
    values.any(at) || allocation.devices.iter().any(|device| device.pool == node)
}

struct Claims<'a> {
    objects: &'a DeviceObjects,
    by_key: BTreeMap<&'a PodKey, &'a ResourceClaim>,
    /// Drivers of DeviceClasses whose selector names one.
    drivers: BTreeMap<&'a str, &'a str>,
    /// Pods that release their devices.
    leaving: BTreeSet<&'a Uid>,
    slices: BTreeMap<&'a NodeName, Vec<&'a ResourceSlice>>,
}

enum ClaimUse<'a> {
    /// The claim stays allocated.
    Held(&'a ResourceClaim),
    Shared(&'a ResourceClaim),
    Own(&'a ClaimSpec),
}

impl<'a> Claims<'a> {
    fn new(world: &World<'a>, placements: &Placements<'a>) -> Self {
        let objects = &world.snapshot.devices;
        let moving = placements.placed.iter().map(|placed| placed.pod);
        let moving = moving.filter(|pod| pod.node_name.is_some());
        let ended = world.snapshot.pods.iter();
        let ended = ended.filter(|pod| pod.deletion.is_some() || is_terminal(pod));
        let classes = objects.classes.iter();
        let drivers = classes.filter_map(|class| {
            let mut selectors = class.selectors.iter();
            Some((
                class.name.as_str(),
                selectors.find_map(|text| driver_of(text))?,
            ))
        });
        Self {
            by_key: objects
                .claims
                .iter()
                .map(|claim| (&claim.key, claim))
                .collect(),
            drivers: drivers.collect(),
            leaving: moving.chain(ended).map(|pod| &pod.uid).collect(),
            slices: slices_by_node(&objects.slices),
            objects,
        }
    }

    fn is_held(&self, claim: &ResourceClaim) -> bool {
        let users = &claim.reserved_for;
        claim.allocation.is_some()
            && (users.is_empty() || users.iter().any(|user| !self.leaving.contains(user)))
    }

    fn claim_use(&self, pod: &Pod, claim: &PodClaim) -> Option<ClaimUse<'a>> {
        let key = |name: &String| PodKey {
            namespace: pod.key.namespace.clone(),
            name: name.clone(),
        };
        let object = claim.claim.as_ref();
        let object = object.and_then(|name| self.by_key.get(&key(name)).copied());
        match object {
            Some(known) if self.is_held(known) => Some(ClaimUse::Held(known)),
            Some(known) if known.owner.is_none() => Some(ClaimUse::Shared(known)),
            Some(known) => Some(ClaimUse::Own(&known.spec)),
            None => {
                let name = key(claim.template.as_ref()?);
                let mut templates = self.objects.templates.iter();
                let template = templates.find(|template| template.key == name)?;
                Some(ClaimUse::Own(&template.spec))
            }
        }
    }

    /// Free devices of each node that the place may become.
    fn choices(&self, world: &World<'_>, place: &Place<'_>) -> Vec<(String, FreeDevices)> {
        match place {
            Place::Open(node) => {
                let types = node.types();
                types
                    .map(|(_, known)| (known.name.clone(), FreeDevices::of(known.devices.iter())))
                    .collect()
            }
            Place::Machine(index) => {
                let machine = machine(world, *index);
                let free =
                    machine.map(|machine| (machine.name.to_owned(), self.free(world, machine)));
                free.into_iter().collect()
            }
        }
    }

    fn free(&self, world: &World<'_>, machine: &Machine<'_>) -> FreeDevices {
        let held = self.by_key.values().filter(|claim| self.is_held(claim));
        let held = held.flat_map(|claim| {
            claim
                .allocation
                .iter()
                .flat_map(|allocation| &allocation.devices)
        });
        let held: BTreeSet<(&str, &str, &str)> = held
            .filter(|device| device.consumed.is_none())
            .map(|device| (&*device.driver, &*device.pool, &*device.device))
            .collect();
        let is_free = |device: &&Device| {
            let pool = if device.pool.is_empty() {
                machine.name
            } else {
                &device.pool
            };
            !held.contains(&(&*device.driver, pool, &*device.name))
        };
        match machine.node.filter(|_| machine.initialized) {
            Some(node) => {
                let slices = self.slices.get(&node.name).into_iter().flatten();
                FreeDevices::of(slices.flat_map(|slice| &slice.devices).filter(is_free))
            }
            None => {
                let label = |key: &str| machine.labels.get(key).map_or("", String::as_str);
                let catalog = world.catalog(label(labels::NODE_POOL));
                let at = catalog.index_of(label(labels::INSTANCE_TYPE));
                let known = at.and_then(|at| catalog.get(at));
                FreeDevices::of(
                    known
                        .into_iter()
                        .flat_map(|known| &known.devices)
                        .filter(is_free),
                )
            }
        }
    }
}

/// The driver in an expression of the form `device.driver == "<driver>"`.
fn driver_of(expression: &str) -> Option<&str> {
    let (_, rest) = expression.split_once("device.driver")?;
    let rest = rest.trim_start().strip_prefix("==")?.trim_start();
    let quote = rest
        .chars()
        .next()
        .filter(|quote| matches!(quote, '"' | '\''))?;
    rest.get(1..)?.split_once(quote).map(|(driver, _)| driver)
}

/// Free devices of a node by driver, and the capacity of shared ones.
#[derive(Default)]
struct FreeDevices {
    whole: BTreeMap<String, u64>,
    shared: BTreeMap<String, BTreeMap<String, SharedCapacity>>,
}

#[derive(Default)]
struct SharedCapacity {
    value: i64,
    /// Amount used by a claim that requests none.
    default: i64,
}

impl FreeDevices {
    fn of<'d>(devices: impl Iterator<Item = &'d Device>) -> Self {
        let mut free = Self::default();
        for device in devices {
            if !device.is_shared {
                *free.whole.entry(device.driver.clone()).or_default() += 1;
                continue;
            }
            let shared = free.shared.entry(device.driver.clone()).or_default();
            for (name, capacity) in &device.capacity {
                let known = shared.entry(name.clone()).or_default();
                known.value = known.value.saturating_add(capacity.value);
                let default = capacity.policy.as_ref().and_then(|policy| policy.default);
                known.default = default.unwrap_or(capacity.value);
            }
        }
        free
    }
}

/// Device requests of the pods of a place.
#[derive(Default)]
struct DeviceRequests {
    requests: Vec<(Option<String>, DeviceAlternative, u64)>,
}

impl DeviceRequests {
    fn add(&mut self, spec: &ClaimSpec, claims: &Claims<'_>) {
        for request in &spec.requests {
            // Of several alternatives, only the smallest number of devices is certain.
            let least = request
                .alternatives
                .iter()
                .min_by_key(|alternative| count(alternative));
            if let Some(least) = least {
                let driver = match request.alternatives.len() {
                    1 => claims.drivers.get(least.class.as_str()),
                    _ => None,
                };
                let driver = driver.map(|driver| (*driver).to_owned());
                self.requests.push((driver, least.clone(), count(least)));
            }
        }
    }

    /// Describes the first device count or capacity that exceeds these free devices.
    fn shortage(&self, free: &FreeDevices) -> Option<String> {
        let drivers: BTreeSet<&Option<String>> =
            self.requests.iter().map(|(driver, ..)| driver).collect();
        drivers.into_iter().find_map(|driver| match driver {
            Some(driver) => self.shortage_of_driver(driver, free),
            None => self.shortage_in_total(free),
        })
    }

    fn shortage_of_driver(&self, driver: &str, free: &FreeDevices) -> Option<String> {
        let own = self.requests.iter();
        let own = own.filter(|(known, ..)| known.as_deref() == Some(driver));
        let Some(shared) = free.shared.get(driver) else {
            let wanted: u64 = own.map(|(_, _, count)| count).sum();
            let there = free.whole.get(driver).copied().unwrap_or(0);
            return (wanted > there).then(|| {
                format!("{there} free devices of {driver} for the {wanted} that are claimed")
            });
        };
        shared.iter().find_map(|(name, capacity)| {
            let wanted = own.clone().map(|(_, asked, count)| {
                let amount = asked.capacity.iter();
                let mut amount = amount.filter(|(short, _)| qualified(short, driver) == *name);
                let amount = amount
                    .next()
                    .map_or(capacity.default, |(_, amount)| *amount);
                amount.saturating_mul(i64::try_from(*count).unwrap_or(i64::MAX))
            });
            let wanted = wanted.fold(0_i64, i64::saturating_add);
            let there = capacity.value;
            (wanted > there).then(|| format!("{there} of {name} for the {wanted} that are claimed"))
        })
    }

    fn shortage_in_total(&self, free: &FreeDevices) -> Option<String> {
        if !free.shared.is_empty() {
            return None;
        }
        let wanted: u64 = self.requests.iter().map(|(_, _, count)| count).sum();
        let there: u64 = free.whole.values().sum();
        (wanted > there).then(|| format!("{there} free devices for the {wanted} that are claimed"))
    }
}

fn count(alternative: &DeviceAlternative) -> u64 {
    match alternative.count {
        DeviceCount::Exactly(count) => u64::from(count),
        DeviceCount::All => 1,
    }
}
