//! New nodes that are full already: further pods of the same kind would not lower their price per pod, so they need not
//! wait for the end of the batch.

use std::{collections::BTreeMap, rc::Rc};

use model::resources::{CPU, MEMORY};

use crate::{
    Input, NewNode, PrecomputedIndexes, SolveResult,
    algebra::SetId,
    lower_bound::{self, CpuAndMemory, DualPrices},
    setup,
};

/// Accepted excess of a full node's price over the value of its pods, in per mille.
const EXCESS: i128 = 20;

/// Returns which of the new nodes are full.
///
/// The pods of all nodes with the same requirements determine prices for a core and a gigabyte that no instance type
/// undercuts, counting only the capacity that whole pods can fill. A node whose price is close to the value of its pods
/// cannot become cheaper by waiting.
pub fn full_nodes(input: &Input<'_>, result: &SolveResult) -> Vec<bool> {
    let mut context =
        setup::set_up(&PrecomputedIndexes::of(input), &Rc::new(input.clone())).context;
    let mut by_requirements: BTreeMap<(usize, SetId), Vec<&NewNode>> = BTreeMap::new();
    let mut requirements_of = Vec::new();
    for node in &result.new_nodes {
        let required = context.algebra.set_of(node.requirements.0.values());
        by_requirements
            .entry((node.pool, required))
            .or_default()
            .push(node);
        requirements_of.push((node.pool, required));
    }
    let mut worths = BTreeMap::new();
    for ((pool, required), nodes) in &by_requirements {
        let pods = nodes.iter().flat_map(|node| &node.pods);
        let step = pods.clone().fold((0, 0), |step, pod| {
            let (cpu, memory) = amounts(input, *pod);
            (divisor(step.0, cpu), divisor(step.1, memory))
        });
        let mut offers = lower_bound::offers(&mut context, *pool, *required);
        for (_, room) in &mut offers {
            *room = (whole(room.0, step.0), whole(room.1, step.1));
        }
        let wanted = sum(pods.map(|pod| amounts(input, *pod)));
        worths.insert((*pool, *required), DualPrices::most(&offers, wanted));
    }
    let nodes = result.new_nodes.iter().zip(requirements_of);
    let is_full = nodes.map(|(node, requirements)| {
        let worth = worths.get(&requirements);
        let worth = worth.map_or(0, |worth| {
            worth.price_of(sum(node.pods.iter().map(|pod| amounts(input, *pod))))
        });
        let price = node.choices.first().map(|choice| choice.price);
        price.is_some_and(|price| {
            worth > 0 && i128::from(price.0) * 1_000 <= worth * (1_000 + EXCESS)
        })
    });
    is_full.collect()
}

fn amounts(input: &Input<'_>, pod: usize) -> CpuAndMemory {
    let requests = input.pods.get(pod).map(|pod| &pod.requests);
    let amount = |name| requests.map_or(0, |requests| i128::from(requests.get(name)));
    (amount(CPU), amount(MEMORY))
}

fn sum(all: impl Iterator<Item = CpuAndMemory>) -> CpuAndMemory {
    all.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

/// Greatest common divisor; with zero, the other number.
fn divisor(a: i128, b: i128) -> i128 {
    match b {
        0 => a,
        _ => divisor(b, a % b),
    }
}

/// Largest multiple of `step` within `room`.
fn whole(room: i128, step: i128) -> i128 {
    match step {
        0 => room,
        _ => room - room % step,
    }
}
