//! Lower bound on the cost of a result's new nodes, to judge the quality of packing. The bound relaxes the problem: pods
//! may be split and nodes bought in fractions, but only of types that the NodePool may use, with the capacity that daemons
//! leave.

use std::rc::Rc;

use model::resources::{CPU, MEMORY};

use crate::{
    Input, NewNode, PrecomputedIndexes, SolveResult,
    algebra::{Algebra, SetId, Undefined},
    placement_context::PlacementContext,
    setup,
};

/// Number of CPU and memory price ratios that are tried. The largest bound counts.
const MIXES: i128 = 256;
/// Fractional bits of amounts and prices.
const BITS: u32 = 20;

/// Lower bound in nano-dollars per hour. The result never costs less, however it was found.
///
/// By linear programming duality, prices for a core and for a gigabyte prove a bound if no instance type costs less than
/// its capacity at these prices: the price of all pods' requests.
pub fn least_cost(input: &Input<'_>, result: &SolveResult) -> i64 {
    let mut context =
        setup::set_up(&PrecomputedIndexes::of(input), &Rc::new(input.clone())).context;
    let mut least = 0;
    for template in 0..context.templates.len() {
        let wanted = wanted(input, result, |node| node.pool == template);
        least += proven(&offers(&mut context, template, Algebra::EMPTY), wanted);
    }
    i64::try_from(least).unwrap_or(i64::MAX)
}

/// [`least_cost`] for pods that may use any NodePool.
pub(crate) fn least_cost_of_any(input: &Input<'_>, result: &SolveResult) -> i64 {
    let mut context =
        setup::set_up(&PrecomputedIndexes::of(input), &Rc::new(input.clone())).context;
    let mut all = Vec::new();
    for template in 0..context.templates.len() {
        all.extend(offers(&mut context, template, Algebra::EMPTY));
    }
    let least = proven(&all, wanted(input, result, |_| true));
    i64::try_from(least).unwrap_or(i64::MAX)
}

/// Summed requests of the pods of selected new nodes.
fn wanted(
    input: &Input<'_>,
    result: &SolveResult,
    which: impl Fn(&NewNode) -> bool,
) -> CpuAndMemory {
    let nodes = result.new_nodes.iter().filter(|node| which(node));
    let pods = nodes
        .flat_map(|node| &node.pods)
        .filter_map(|pod| input.pods.get(*pod));
    pods.fold((0, 0), |sum, pod| {
        let amount = |name| i128::from(pod.requests.get(name));
        (sum.0 + amount(CPU), sum.1 + amount(MEMORY))
    })
}

/// Prices and capacities of the instance types that a NodePool may launch and that meet `required`. Capacities exclude
/// daemons.
pub(crate) fn offers(
    context: &mut PlacementContext<'_>,
    template: usize,
    required: SetId,
) -> Vec<(i128, CpuAndMemory)> {
    let node_template = context.templates.get(template);
    let Some((catalog, set)) =
        node_template.map(|node_template| (node_template.catalog, node_template.set))
    else {
        return Vec::new();
    };
    let Some(set) = context.algebra.narrow(set, required, Undefined::WellKnown) else {
        return Vec::new();
    };
    let prices = context.prices(catalog, set);
    let Some(node_template) = context.templates.get(template) else {
        return Vec::new();
    };
    let names = context.dimensions.names();
    let place = |name| names.iter().position(|known| known == name);
    let (cpu, memory) = (place(CPU), place(MEMORY));
    let offers = prices.iter().filter_map(|(row, choice)| {
        let room = node_template.left.get(*row)?.as_ref()?;
        let amount = |at: Option<usize>| {
            let amount = at.and_then(|at| room.get(at)).copied().unwrap_or(0);
            i128::from(amount.max(0))
        };
        Some((i128::from(choice.price.0), (amount(cpu), amount(memory))))
    });
    offers.collect()
}

/// Millicores and bytes.
pub(crate) type CpuAndMemory = (i128, i128);

/// Largest bound over all price ratios.
fn proven(offers: &[(i128, CpuAndMemory)], wanted: CpuAndMemory) -> i128 {
    DualPrices::most(offers, wanted).price_of(wanted)
}

/// Prices for a core and for a gigabyte that no instance type undercuts.
pub(crate) struct DualPrices {
    mix: i128,
    /// Largest CPU and memory capacity of any type.
    most: CpuAndMemory,
    /// Lowest price per unit of the mix.
    rate: i128,
}

impl DualPrices {
    /// Returns the prices at which these requests cost most.
    pub(crate) fn most(offers: &[(i128, CpuAndMemory)], wanted: CpuAndMemory) -> Self {
        let most = |of: fn(&CpuAndMemory) -> i128| {
            let amounts = offers.iter().map(|(_, room)| of(room));
            amounts.max().unwrap_or(0).max(1)
        };
        let most = (most(|room| room.0), most(|room| room.1));
        let shares = offers
            .iter()
            .map(|(price, room)| (price << BITS, shares(*room, most)));
        let shares: Vec<(i128, CpuAndMemory)> = shares.collect();
        let worths = (0..=MIXES).map(|mix| {
            let worth = Self { mix, most, rate: 0 };
            // Capacities are rounded up and requests down, so that rounding never raises the bound.
            let rates = shares
                .iter()
                .map(|(price, shares)| price / (worth.mixed(*shares) + MIXES));
            Self {
                rate: rates.min().unwrap_or(0),
                ..worth
            }
        });
        let best = worths.max_by_key(|worth| worth.price_of(wanted));
        best.unwrap_or(Self {
            mix: 0,
            most,
            rate: 0,
        })
    }

    pub(crate) fn price_of(&self, wanted: CpuAndMemory) -> i128 {
        (self.rate * self.units(wanted)) >> BITS
    }

    fn units(&self, amounts: CpuAndMemory) -> i128 {
        self.mixed(shares(amounts, self.most))
    }

    fn mixed(&self, (cpu, memory): CpuAndMemory) -> i128 {
        self.mix * cpu + (MIXES - self.mix) * memory
    }
}

/// Fractions of the largest capacities, in fixed point.
fn shares((cpu, memory): CpuAndMemory, most: CpuAndMemory) -> CpuAndMemory {
    ((cpu << BITS) / most.0, (memory << BITS) / most.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU_HEAVY: (i128, (i128, i128)) = (1_000_000, (4_000, 4_000));
    const MEMORY_HEAVY: (i128, (i128, i128)) = (1_500_000, (4_000, 12_000));

    #[test]
    fn pods_that_fill_the_cheapest_type_have_its_price_as_bound() {
        let proven = proven(&[CPU_HEAVY, MEMORY_HEAVY], (8_000, 8_000));
        assert!((1_990_000..=2_000_000).contains(&proven), "{proven}");
    }

    #[test]
    fn bound_of_a_mix_of_types_uses_both_resources() {
        let proven = proven(&[CPU_HEAVY, MEMORY_HEAVY], (8_000, 16_000));
        assert!((2_490_000..=2_500_000).contains(&proven), "{proven}");
    }

    #[test]
    fn rounding_does_not_raise_the_bound() {
        let (dear, room) = (1_000_000_000, (4_000, 4_000));
        let proven = proven(&[(dear, room)], room);
        assert!((999_990_000..=dear).contains(&proven), "{proven}");
    }

    #[test]
    fn bound_is_zero_without_requests_or_offers() {
        assert_eq!(proven(&[CPU_HEAVY], (0, 0)), 0);
        assert_eq!(proven(&[], (8_000, 8_000)), 0);
    }
}
