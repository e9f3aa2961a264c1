//! Where would the pods of some nodes go if these went? (spec/lifecycle §18.2)

use std::collections::BTreeSet;

use model::{
    pod::{Pod, PodPhase},
    snapshot::{Optimize, ReservedOfferingMode},
};
use scheduling::{Answer, Input, Leaving, NewNode};

use super::{candidates::Candidate, scene::Scene};
use crate::provision::question::Asked;

/// What a disruption may do with other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freedom {
    /// Nothing is moved to nodes that are settling.
    Consolidation,
    Drift,
}

/// An answer to that question.
#[derive(Clone)]
pub(super) struct Simulation<'a> {
    pub(super) pods: Vec<&'a Pod>,
    pub(super) moved: Vec<bool>,
    pub(super) gone: BTreeSet<usize>,
    /// How new nodes were packed.
    pub(super) optimize: Optimize,
    pub(super) new_nodes: Vec<NewNode>,
    /// Machines, by their place in the inventory, with the pods that go there.
    pub(super) existing: Vec<(usize, Vec<usize>)>,
    /// Pods that run today and would have no place, with why.
    pub(super) left: Vec<(String, String)>,
}

/// So many pods without a place are named.
const PODS_NAMED: usize = 5;

impl<'a> Scene<'a> {
    pub(super) fn simulate(&self, leaving: &[&Candidate<'a>], freedom: Freedom) -> Simulation<'a> {
        // One answer, quickly: there are many questions, and most of them have none.
        self.simulate_for(leaving, freedom, Optimize::Upstream)
    }

    pub(super) fn simulate_for(
        &self,
        leaving: &[&Candidate<'a>],
        freedom: Freedom,
        optimize: Optimize,
    ) -> Simulation<'a> {
        let movers = self.movers;
        let mut asked: Vec<usize> = (0..movers.waiting()).collect();
        let own = leaving.iter().flat_map(|one| movers.of_machine(one.at));
        asked.extend(own);
        let size = asked.len() + self.inventory.machines.len();
        self.simulated
            .set(self.simulated.get().saturating_add(size));
        let pods: Vec<&'a Pod> = asked.iter().filter_map(|at| movers.get(*at)).collect();
        let by_choice = |(at, pod): (usize, &&Pod)| {
            at >= movers.waiting()
                && freedom == Freedom::Consolidation
                && pod.phase != PodPhase::Pending
        };
        let moved: Vec<bool> = pods.iter().enumerate().map(by_choice).collect();
        let mut simulation = Simulation {
            pods,
            moved,
            gone: leaving.iter().map(|candidate| candidate.at).collect(),
            optimize,
            new_nodes: Vec::new(),
            existing: Vec::new(),
            left: Vec::new(),
        };
        let places = self.destinations().iter().enumerate();
        let nodes = places.filter(|(_, machine)| simulation.gone.contains(machine));
        let answer = self.standing().without(&Leaving {
            pods: asked.get(movers.waiting()..).unwrap_or_default(),
            moved: simulation.moved.get(movers.waiting()..).unwrap_or_default(),
            nodes: &nodes.map(|(node, _)| node).collect(),
            remaining: self.ground.remaining(self.inventory, &simulation.gone),
            optimize,
        });
        self.read(answer, &mut simulation);
        simulation
    }

    /// What was asked.
    pub(super) fn question<'q>(&'q self, simulation: &'q Simulation<'a>) -> Input<'q> {
        self.ground.question(
            self.inventory,
            Asked {
                pods: simulation.pods.clone(),
                moved: simulation.moved.clone(),
                gone: &simulation.gone,
                settling: &self.settling,
                closed: &self.closed,
                reserved: ReservedOfferingMode::Fallback,
                optimize: Optimize::Upstream,
            },
        )
    }

    fn read(&self, answer: Answer, simulation: &mut Simulation<'a>) {
        let mut left: Vec<(usize, String)> = Vec::new();
        for one in answer.unplaced {
            let reasons = one.reasons.iter().map(|(_, reason)| reason.to_string());
            left.push((one.pod, reasons.collect::<Vec<_>>().join("; ")));
        }
        for (node, pods) in answer.existing {
            let Some(at) = self.destinations().get(node).copied() else {
                continue;
            };
            let Some(machine) = self.inventory.machines.get(at) else {
                continue;
            };
            if machine.claim.is_some() && !machine.initialized {
                let moving = pods.iter().filter(|pod| **pod >= self.movers.waiting());
                left.extend(moving.map(|pod| {
                    let name = machine.name;
                    (
                        *pod,
                        format!("would wait for node {name}, which is not initialized"),
                    )
                }));
            }
            simulation.existing.push((at, pods));
        }
        // Pods that wait anyway hold up nothing.
        let named = left.into_iter().filter_map(|(at, why)| {
            let pod = simulation.pods.get(at)?;
            pod.node_name.as_ref()?;
            Some((pod.key.to_string(), why))
        });
        simulation.left = named.collect();
        simulation.new_nodes = answer.new_nodes;
    }
}

impl Simulation<'_> {
    /// Why some pods that run today would have no place; `None` if all have one.
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
