//! Where would the pods of some nodes go if these went? (spec/lifecycle §18.2)

use std::{borrow::Cow, collections::BTreeSet};

use model::{
    pod::{Pod, PodPhase},
    snapshot::{Optimize, ReservedOfferingMode},
};
use scheduling::{Answer, Input, NewNode};

use super::{candidates::Candidate, scene::Scene};
use crate::{
    inventory::Machine,
    provision::{default_spread::with_default, movable::is_movable, question::Asked},
};

/// What a disruption may do with other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freedom {
    /// Nothing is moved to nodes that are settling.
    Consolidation,
    Drift,
}

/// An answer to that question.
pub(super) struct Simulation<'a> {
    pub(super) pods: Vec<Cow<'a, Pod>>,
    pub(super) moved: Vec<bool>,
    pub(super) gone: BTreeSet<usize>,
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
        let mut pods = self.waiting.clone();
        let mut moved = vec![false; pods.len()];
        for candidate in leaving {
            let own = candidate.machine.pods.iter().copied();
            for pod in own.filter(|pod| is_movable(pod, &self.guards, self.now)) {
                pods.push(with_default(pod, self.snapshot));
                moved.push(freedom == Freedom::Consolidation && pod.phase != PodPhase::Pending);
            }
        }
        let mut simulation = Simulation {
            pods,
            moved,
            gone: leaving.iter().map(|candidate| candidate.at).collect(),
            new_nodes: Vec::new(),
            existing: Vec::new(),
            left: Vec::new(),
        };
        let answer = scheduling::solve(&self.question(&simulation));
        self.read(answer, &mut simulation);
        simulation
    }

    /// What was asked.
    pub(super) fn question<'q>(&'q self, simulation: &'q Simulation<'a>) -> Input<'q> {
        self.ground.question(
            self.inventory,
            Asked {
                pods: &simulation.pods,
                moved: simulation.moved.clone(),
                gone: &simulation.gone,
                settling: &self.settling,
                closed: &self.closed,
                reserved: ReservedOfferingMode::Fallback,
                // One answer, quickly: there are many questions, and most of them have none.
                optimize: Optimize::Upstream,
            },
        )
    }

    fn read(&self, answer: Answer, simulation: &mut Simulation<'a>) {
        let destinations: Vec<(usize, &Machine<'_>)> = self
            .ground
            .destinations(self.inventory, &simulation.gone, &self.closed)
            .collect();
        let mut left: Vec<(usize, String)> = Vec::new();
        for one in answer.unplaced {
            let reasons = one.reasons.iter().map(|(_, reason)| reason.to_string());
            left.push((one.pod, reasons.collect::<Vec<_>>().join("; ")));
        }
        for (node, pods) in answer.existing {
            let Some((at, machine)) = destinations.get(node).copied() else {
                continue;
            };
            if machine.claim.is_some() && !machine.initialized {
                let moving = pods.iter().filter(|pod| **pod >= self.waiting.len());
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
