//! Allocation of a node's devices to claims: a depth-first search through requests, alternatives and devices.

use std::collections::{BTreeMap, BTreeSet};

use model::devices::{Allowed, Attribute, Device, DeviceCapacity, DeviceCount};

use super::claims::{Alternative, EvaluatedClaim};

/// Devices of a node, as published or expected.
pub(crate) struct DeviceLayout<'a> {
    pub(super) devices: Vec<&'a Device>,
    /// Per device, its kind; selectors do not distinguish devices of a kind.
    pub(super) kinds: Vec<usize>,
}

/// Allocated devices of a node, as indexes into its layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceUsage {
    pub(super) whole: BTreeSet<usize>,
    /// Consumed capacity of shared devices.
    pub(super) parts: BTreeMap<usize, BTreeMap<String, i64>>,
}

/// Upper bound on devices tried for the claims of one pod on one node. Longer searches face constraints that few devices
/// can meet.
const ATTEMPTS_MAX: u32 = 20_000;
/// Upper bound on the devices of one claim, as in Kubernetes.
const DEVICES_MAX: usize = 32;

impl DeviceUsage {
    /// Drivers of the allocated devices.
    pub(crate) fn drivers<'a>(&self, layout: &DeviceLayout<'a>) -> BTreeSet<&'a str> {
        let taken = self.whole.iter().chain(self.parts.keys());
        let devices = taken.filter_map(|at| layout.devices.get(*at));
        devices.map(|device| device.driver.as_str()).collect()
    }
}

/// Allocates further claims. Returns all allocated devices; `None` if the claims cannot be allocated.
pub(crate) fn allocate(
    layout: &DeviceLayout<'_>,
    usage: &DeviceUsage,
    claims: &[&EvaluatedClaim],
) -> Option<DeviceUsage> {
    let mut search = AllocationSearch {
        layout,
        claims,
        usage: usage.clone(),
        chosen: Vec::new(),
        attempts: ATTEMPTS_MAX,
    };
    search
        .place(RequestIndex::default())
        .then_some(search.usage)
}

/// Devices chosen so far by the depth-first search, and the attempts that it has made.
struct AllocationSearch<'s, 'a> {
    layout: &'s DeviceLayout<'a>,
    claims: &'s [&'s EvaluatedClaim],
    usage: DeviceUsage,
    chosen: Vec<ChosenDevice>,
    attempts: u32,
}

/// Device chosen for an alternative of a request.
#[derive(Clone)]
struct ChosenDevice {
    step: RequestIndex,
    alternative: usize,
    device: usize,
    taken: Consumption,
}

/// Consumption of a device by one allocation.
#[derive(Clone)]
enum Consumption {
    Whole,
    /// Part of a shared device, with its previous consumption.
    Part(Option<BTreeMap<String, i64>>),
}

/// Position of a request among the claims.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct RequestIndex {
    claim: usize,
    request: usize,
}

impl AllocationSearch<'_, '_> {
    /// Satisfies all requests from this one on; on failure, restores the state.
    fn place(&mut self, step: RequestIndex) -> bool {
        let Some(spec) = self.claims.get(step.claim) else {
            return true;
        };
        let Some(request) = spec.requests.get(step.request) else {
            return self.place(RequestIndex {
                claim: step.claim + 1,
                request: 0,
            });
        };
        (0..request.alternatives.len()).any(|at| self.place_alternative(step, at))
    }

    fn place_alternative(&mut self, step: RequestIndex, at: usize) -> bool {
        let Some(alternative) = self.alternative(step, at) else {
            return false;
        };
        if alternative.failures(&self.layout.kinds).is_some() {
            return false;
        }
        let kinds = self.layout.kinds.iter().enumerate();
        let matching = kinds.filter(|(_, kind)| alternative.matches(**kind));
        let matching: Vec<usize> = matching.map(|(device, _)| device).collect();
        match alternative.count {
            DeviceCount::All => {
                let before = self.chosen.len();
                let all = !matching.is_empty()
                    && matching.iter().all(|device| self.choose(step, at, *device));
                if all && self.place(step.next()) {
                    return true;
                }
                self.undo(before);
                false
            }
            DeviceCount::Exactly(count) => self.place_some(step, at, &matching, count),
        }
    }

    /// Chooses `count` of these devices in their order, and continues with the next request.
    fn place_some(&mut self, step: RequestIndex, at: usize, of: &[usize], count: u32) -> bool {
        if count == 0 {
            return self.place(step.next());
        }
        let mut refused: Vec<usize> = Vec::new();
        for (place, device) in of.iter().enumerate() {
            let left = of.get(place..).unwrap_or_default();
            if !self.has_enough(left, count) {
                return false;
            }
            // A device equal to a refused one is refused as well.
            if refused.iter().any(|other| self.are_alike(*other, *device)) {
                continue;
            }
            let before = self.chosen.len();
            if self.choose(step, at, *device) {
                let is_shared = self
                    .layout
                    .devices
                    .get(*device)
                    .is_some_and(|device| device.is_shared);
                let from = if is_shared { place } else { place + 1 };
                let rest = of.get(from..).unwrap_or_default();
                if self.place_some(step, at, rest, count - 1) {
                    return true;
                }
                self.undo(before);
            }
            if self.attempts == 0 {
                return false;
            }
            refused.push(*device);
        }
        false
    }

    /// Whether this many devices may be free. Shared devices may serve several times.
    fn has_enough(&self, devices: &[usize], count: u32) -> bool {
        let mut free = 0_u32;
        devices.iter().any(|at| {
            let is_shared = self
                .layout
                .devices
                .get(*at)
                .is_some_and(|device| device.is_shared);
            free += u32::from(!self.usage.whole.contains(at));
            is_shared || free >= count
        })
    }

    fn are_alike(&self, a: usize, b: usize) -> bool {
        let devices = &self.layout.devices;
        let (Some(first), Some(second)) = (devices.get(a), devices.get(b)) else {
            return false;
        };
        first.attributes == second.attributes
            && first.capacity == second.capacity
            && self.layout.kinds.get(a) == self.layout.kinds.get(b)
            && self.usage.parts.get(&a) == self.usage.parts.get(&b)
            && self.usage.whole.contains(&a) == self.usage.whole.contains(&b)
    }

    /// Takes a device for a request, if it is free and meets the constraints of the claim.
    fn choose(&mut self, step: RequestIndex, alternative: usize, device: usize) -> bool {
        self.attempts = self.attempts.saturating_sub(1);
        let of_claim = self
            .chosen
            .iter()
            .filter(|chosen| chosen.step.claim == step.claim);
        if self.attempts == 0
            || of_claim.count() >= DEVICES_MAX
            || !self.meets_constraints(step, alternative, device)
        {
            return false;
        }
        let Some(wanted) = self.alternative(step, alternative) else {
            return false;
        };
        let Some(known) = self.layout.devices.get(device) else {
            return false;
        };
        if self.usage.whole.contains(&device) {
            return false;
        }
        let taken = if known.is_shared {
            let used = self.usage.parts.get(&device);
            let part = part(known, wanted);
            let Some(part) = part.filter(|part| has_room(known, used, part)) else {
                return false;
            };
            let before = used.cloned();
            let used = self.usage.parts.entry(device).or_default();
            for (name, amount) in part {
                *used.entry(name).or_default() += amount;
            }
            Consumption::Part(before)
        } else {
            if !has_capacity(known, wanted) {
                return false;
            }
            self.usage.whole.insert(device);
            Consumption::Whole
        };
        self.chosen.push(ChosenDevice {
            step,
            alternative,
            device,
            taken,
        });
        true
    }

    fn undo(&mut self, to: usize) {
        let DeviceUsage { whole, parts } = &mut self.usage;
        for chosen in self.chosen.drain(to..).rev() {
            match chosen.taken {
                Consumption::Whole => whole.remove(&chosen.device),
                Consumption::Part(None) => parts.remove(&chosen.device).is_some(),
                Consumption::Part(Some(before)) => parts.insert(chosen.device, before).is_some(),
            };
        }
    }

    fn alternative(&self, step: RequestIndex, at: usize) -> Option<&'_ Alternative> {
        let claims: &[&EvaluatedClaim] = self.claims;
        let request = claims.get(step.claim)?.requests.get(step.request)?;
        request.alternatives.get(at)
    }

    /// Whether the device has the attributes that constraints match, with the values of the devices chosen before.
    fn meets_constraints(&self, step: RequestIndex, alternative: usize, device: usize) -> bool {
        let Some(spec) = self.claims.get(step.claim) else {
            return false;
        };
        let value = |device: usize, attribute: &str| -> Option<&Attribute> {
            self.layout.devices.get(device)?.attributes.get(attribute)
        };
        let mut constraints = spec.constraints.iter();
        constraints.all(|constraint| {
            if !spec.is_about(constraint, step.request, alternative) {
                return true;
            }
            let Some(own) = value(device, &constraint.attribute) else {
                return false;
            };
            let mut others = self.chosen.iter().filter(|chosen| {
                chosen.step.claim == step.claim
                    && spec.is_about(constraint, chosen.step.request, chosen.alternative)
            });
            others.all(|other| value(other.device, &constraint.attribute) == Some(own))
        })
    }
}

impl RequestIndex {
    fn next(self) -> Self {
        Self {
            request: self.request + 1,
            ..self
        }
    }
}

/// Requested capacity, by its qualified name or by its name in the driver's domain.
fn wanted<'w>(device: &Device, alternative: &'w Alternative, name: &str) -> Option<&'w i64> {
    let short = name.strip_prefix(device.driver.as_str());
    let short = short.and_then(|rest| rest.strip_prefix('/'));
    let all = &alternative.capacity;
    all.get(name).or_else(|| all.get(short?))
}

fn knows_all(device: &Device, alternative: &Alternative) -> bool {
    let found = device.capacity.keys();
    let found = found.filter(|name| wanted(device, alternative, name).is_some());
    found.count() == alternative.capacity.len()
}

/// Whether an unshared device has the requested capacities.
fn has_capacity(device: &Device, alternative: &Alternative) -> bool {
    knows_all(device, alternative)
        && device.capacity.iter().all(|(name, capacity)| {
            wanted(device, alternative, name).is_none_or(|wanted| *wanted <= capacity.value)
        })
}

/// Amounts that a claim consumes of a shared device; `None` if the device's policy does not allow the request.
fn part(device: &Device, alternative: &Alternative) -> Option<BTreeMap<String, i64>> {
    if !knows_all(device, alternative) {
        return None;
    }
    let capacity = device.capacity.iter();
    let parts = capacity.map(|(name, capacity)| {
        let amount = amount(capacity, wanted(device, alternative, name).copied())?;
        Some((name.clone(), amount))
    });
    parts.collect()
}

fn amount(capacity: &DeviceCapacity, wanted: Option<i64>) -> Option<i64> {
    match (wanted, &capacity.policy) {
        (None, None) => Some(capacity.value),
        (None, Some(policy)) => Some(policy.default.unwrap_or(capacity.value)),
        (Some(wanted), None) => Some(wanted),
        (Some(wanted), Some(policy)) => match &policy.allowed {
            Allowed::Range { least, most, step } => {
                let step = step.unwrap_or(1).max(1);
                let above = wanted.saturating_sub(*least).max(0);
                let steps = above / step + i64::from(above % step > 0);
                let amount = least.saturating_add(steps.saturating_mul(step));
                most.is_none_or(|most| amount <= most).then_some(amount)
            }
            Allowed::Values(values) if values.is_empty() => Some(wanted),
            Allowed::Values(values) => values.iter().copied().find(|value| *value >= wanted),
        },
    }
}

fn has_room(
    device: &Device,
    used: Option<&BTreeMap<String, i64>>,
    part: &BTreeMap<String, i64>,
) -> bool {
    part.iter().all(|(name, amount)| {
        let used = used.and_then(|used| used.get(name)).copied().unwrap_or(0);
        let most = device.capacity.get(name).map_or(0, |known| known.value);
        used.saturating_add(*amount) <= most
    })
}
