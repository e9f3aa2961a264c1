//! Simulates removing nodes: where their pods would be placed (docs/spec/lifecycle.md#simulation).

use std::collections::{BTreeMap, BTreeSet};

use model::{
    NanosPerHour, Resources,
    ids::Uid,
    ledger::{Place, PodAssignment},
    pod::{Pod, PodPhase},
};
use scheduling::{
    DroppedPreferences, Effort, Input, NewNode, PlacementTarget, SimulatedRemoval, SolveResult,
    share_of,
};

use super::{candidates::Candidate, context::DisruptionContext};
use crate::provision::planning_context::SolveRequest;

/// Existing nodes that a simulation may move pods to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestinationPolicy {
    /// Bound pods are not moved to nodes that are cooling down.
    Consolidation,
    Drift,
}

/// Placement of the pods that remain after nodes are removed, on existing and on new nodes.
#[derive(Clone)]
pub(super) struct Simulation<'a> {
    pub(super) pods: Vec<&'a Pod>,
    pub(super) moved: Vec<bool>,
    pub(super) gone: BTreeSet<usize>,
    /// Assignment that the caller asked for, as far as it was possible.
    pub(super) wanted: Vec<PodAssignment>,
    pub(super) new_nodes: Vec<NewNode>,
    /// Indexes of state nodes in the inventory, with the indexes of the pods placed on them.
    pub(super) existing: Vec<(usize, Vec<usize>)>,
    /// Value per hour of the preferences that the move would violate, without those that are unmet today.
    pub(super) preferences_lost: NanosPerHour,
    /// Bound pods that could not be placed, with the reasons.
    pub(super) left: Vec<(String, String)>,
}

/// Most pods whose lost preferences are compared with their current node. Each comparison takes as long as a small simulation.
const COMPARED_MAX: usize = 16;
/// Cost in nano-dollars per hour of a result that consolidation rejects anyway, because it has more than one new node.
const INADMISSIBLE: i128 = 1 << 64;
/// Most unplaced pods that a message names.
const PODS_NAMED: usize = 5;

impl<'a> DisruptionContext<'a> {
    pub(super) fn simulate(
        &self,
        leaving: &[&Candidate<'a>],
        policy: DestinationPolicy,
    ) -> Simulation<'a> {
        self.simulate_towards(leaving, policy, Vec::new())
    }

    /// [`Self::simulate`] with an assignment that the solver should prefer for some pods.
    pub(super) fn simulate_towards(
        &self,
        leaving: &[&Candidate<'a>],
        policy: DestinationPolicy,
        wanted: Vec<PodAssignment>,
    ) -> Simulation<'a> {
        let reschedulable = self.reschedulable;
        let mut pod_indexes: Vec<usize> = (0..reschedulable.waiting()).collect();
        let own = leaving
            .iter()
            .flat_map(|candidate| reschedulable.of_state_node(candidate.index));
        pod_indexes.extend(own);
        let size = pod_indexes.len() + self.inventory.state_nodes.len();
        self.simulated
            .set(self.simulated.get().saturating_add(size));
        let pods: Vec<&'a Pod> = pod_indexes
            .iter()
            .filter_map(|at| reschedulable.get(*at))
            .collect();
        let by_choice = |(at, pod): (usize, &&Pod)| {
            at >= reschedulable.waiting()
                && policy == DestinationPolicy::Consolidation
                && pod.phase != PodPhase::Pending
        };
        let moved: Vec<bool> = pods.iter().enumerate().map(by_choice).collect();
        let mut simulation = Simulation {
            pods,
            moved,
            gone: leaving.iter().map(|candidate| candidate.index).collect(),
            wanted,
            new_nodes: Vec::new(),
            existing: Vec::new(),
            preferences_lost: NanosPerHour(0),
            left: Vec::new(),
        };
        let places = self.destinations().iter().enumerate();
        let nodes = places.filter(|(_, state_node)| simulation.gone.contains(state_node));
        let removal = SimulatedRemoval {
            pods: pod_indexes
                .get(reschedulable.waiting()..)
                .unwrap_or_default(),
            moved: simulation
                .moved
                .get(reschedulable.waiting()..)
                .unwrap_or_default(),
            nodes: &nodes.map(|(node, _)| node).collect(),
            remaining: self.planning.remaining(self.inventory, &simulation.gone),
            wanted: &self.destinations_of(&simulation),
        };
        let result = match self.move_costs.prices_moves() && !leaving.is_empty() {
            true => self.standing().without_at_a_price(&removal, &|result| {
                self.simulated
                    .set(self.simulated.get().saturating_add(size));
                let lost = self.preferences_lost(result, &pod_indexes, leaving);
                let of_waiting = self.preferences_lost_by_pending(result);
                let is_of_use = policy == DestinationPolicy::Drift || result.new_nodes.len() <= 1;
                i128::from(lost.0) + of_waiting + if is_of_use { 0 } else { INADMISSIBLE }
            }),
            false => self.standing().without(&removal),
        };
        simulation.preferences_lost = self.preferences_lost(&result, &pod_indexes, leaving);
        self.read_result(result, &mut simulation);
        simulation
    }

    /// Worth of the preferences that pending pods lose; nodes for them are bought anyway.
    fn preferences_lost_by_pending(&self, result: &SolveResult) -> i128 {
        let dropped_preferences = result.dropped_preferences.iter();
        let of_waiting =
            dropped_preferences.filter(|dropped| dropped.pod < self.reschedulable.waiting());
        of_waiting
            .map(|dropped| self.move_costs.of_preferences(dropped))
            .sum()
    }

    fn preferences_lost(
        &self,
        result: &SolveResult,
        pod_indexes: &[usize],
        leaving: &[&Candidate<'a>],
    ) -> NanosPerHour {
        let dropped_preferences = result.dropped_preferences.iter();
        let dropped_preferences =
            dropped_preferences.filter(|dropped| dropped.pod >= self.reschedulable.waiting());
        let dropped_preferences: Vec<&DroppedPreferences> = dropped_preferences.collect();
        if dropped_preferences.is_empty() || !self.move_costs.prices_moves() {
            return NanosPerHour(0);
        }
        let lost = dropped_preferences.iter().take(COMPARED_MAX).map(|after| {
            let pod = pod_indexes.get(after.pod)?;
            let mut nodes = leaving.iter();
            let own = nodes.find(|candidate| {
                self.reschedulable
                    .of_state_node(candidate.index)
                    .any(|own| own == *pod)
            })?;
            let today = self.unmet_today(*pod, own.index)?;
            let lost = DroppedPreferences {
                weight: after.weight.saturating_sub(today),
                share: share(own, self.reschedulable.get(*pod)?),
                ..**after
            };
            Some(self.move_costs.of_preferences(&lost))
        });
        let lost: i128 = lost.flatten().sum();
        // The remaining pods are assumed to lose as much on average.
        let (all, compared) = (
            dropped_preferences.len(),
            dropped_preferences.len().min(COMPARED_MAX),
        );
        let lost = lost * i128::try_from(all).unwrap_or(i128::MAX)
            / i128::try_from(compared).unwrap_or(1).max(1);
        NanosPerHour(i64::try_from(lost).unwrap_or(i64::MAX))
    }

    /// Weight of a pod's unmet preferences on its current node.
    fn unmet_today(&self, pod: usize, state_node: usize) -> Option<u32> {
        let known = self.unmet_today.borrow().get(&pod).copied();
        known.unwrap_or_else(|| {
            let place = self.destinations().iter().position(|at| *at == state_node);
            let unmet = place.and_then(|place| self.standing().unmet(pod, place));
            self.unmet_today.borrow_mut().insert(pod, unmet);
            unmet
        })
    }

    /// Translates the wanted assignment to the solver's indexes. Nodes and NodePools that no longer exist are left out.
    fn destinations_of(&self, simulation: &Simulation<'a>) -> Vec<(usize, PlacementTarget)> {
        if simulation.wanted.is_empty() {
            return Vec::new();
        }
        let gone = simulation.gone.iter();
        let own = gone.flat_map(|at| self.reschedulable.of_state_node(*at));
        let own = own.filter_map(|at| Some((&self.reschedulable.get(at)?.uid, at)));
        let own: BTreeMap<&Uid, usize> = own.collect();
        let state_nodes = self.destinations().iter().enumerate();
        let state_nodes = state_nodes.filter_map(|(place, at)| {
            let state_node = self.inventory.state_nodes.get(*at)?;
            Some((state_node.name, place))
        });
        let state_nodes: BTreeMap<&str, usize> = state_nodes.collect();
        let mut found = Vec::new();
        for (number, wanted) in simulation.wanted.iter().enumerate() {
            let destination = match &wanted.place {
                Place::Node(name) => {
                    let place = state_nodes.get(name.as_str());
                    place.map(|place| PlacementTarget::Node(*place))
                }
                Place::New(name) => {
                    let mut pools = self.planning.offering();
                    let pool = pools.position(|(pool, _)| pool.name == *name);
                    pool.map(|pool| PlacementTarget::New { pool, number })
                }
            };
            let pods = wanted.pods.iter().filter_map(|pod| own.get(pod).copied());
            found.extend(pods.filter_map(|pod| Some((pod, destination?))));
        }
        found
    }

    /// Translates the solver's assignment to names, the reverse of [`Self::destinations_of`].
    pub(super) fn wanted(&self, places: &[(usize, PlacementTarget)]) -> Vec<PodAssignment> {
        let mut by_place: BTreeMap<PlacementTarget, Vec<Uid>> = BTreeMap::new();
        for (pod, destination) in places {
            let pod = self.reschedulable.get(*pod).map(|pod| pod.uid.clone());
            by_place.entry(*destination).or_default().extend(pod);
        }
        let wanted = by_place.into_iter().filter_map(|(destination, pods)| {
            let place = match destination {
                PlacementTarget::Node(place) => {
                    let at = *self.destinations().get(place)?;
                    Place::Node(self.inventory.state_nodes.get(at)?.name.to_owned())
                }
                PlacementTarget::New { pool, .. } => {
                    Place::New(self.planning.offering().nth(pool)?.0.name.clone())
                }
            };
            Some(PodAssignment { place, pods })
        });
        wanted.collect()
    }

    /// Solver input of the simulation.
    pub(super) fn solver_input<'q>(&'q self, simulation: &'q Simulation<'a>) -> Input<'q> {
        self.planning.solver_input(
            self.inventory,
            SolveRequest {
                pods: simulation.pods.clone(),
                moved: simulation.moved.clone(),
                gone: &simulation.gone,
                cooling_down: &self.cooling_down,
                unavailable: &self.unavailable,
                reserved: self.options.reserved,
                effort: Effort::First,
            },
        )
    }

    fn read_result(&self, result: SolveResult, simulation: &mut Simulation<'a>) {
        let mut left: Vec<(usize, String)> = Vec::new();
        for unplaced in result.unplaced {
            let reasons = unplaced
                .reasons
                .iter()
                .map(|(_, reason)| reason.to_string());
            left.push((unplaced.pod, reasons.collect::<Vec<_>>().join("; ")));
        }
        for (node, pods) in result.existing {
            let Some(at) = self.destinations().get(node).copied() else {
                continue;
            };
            let Some(state_node) = self.inventory.state_nodes.get(at) else {
                continue;
            };
            if state_node.claim.is_some() && !state_node.initialized {
                let moving = pods
                    .iter()
                    .filter(|pod| **pod >= self.reschedulable.waiting());
                left.extend(moving.map(|pod| {
                    let name = state_node.name;
                    (
                        *pod,
                        format!("would wait for node {name}, which is not initialized"),
                    )
                }));
            }
            simulation.existing.push((at, pods));
        }
        // Pending pods block nothing.
        let named = left.into_iter().filter_map(|(at, why)| {
            let pod = simulation.pods.get(at)?;
            pod.node_name.as_ref()?;
            Some((pod.key.to_string(), why))
        });
        simulation.left = named.collect();
        simulation.new_nodes = result.new_nodes;
    }
}

/// Share of its node's price that is attributed to a pod.
fn share(node: &Candidate<'_>, pod: &Pod) -> NanosPerHour {
    let mut all = Resources::default();
    for own in &node.state_node.pods {
        all.add(&own.requests);
    }
    share_of(node.price, &pod.requests, &all)
}

impl Simulation<'_> {
    /// Returns why bound pods could not be placed; `None` if all could.
    pub(super) fn obstacle(&self) -> Option<String> {
        if self.left.is_empty() {
            return None;
        }
        let named = self.left.iter().take(PODS_NAMED);
        let named: Vec<String> = named.map(|(pod, why)| format!("{pod} => {why}")).collect();
        let more = self.left.len().saturating_sub(PODS_NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        Some(format!(
            "Not all pods would schedule, {}{more}",
            named.join(", ")
        ))
    }
}
