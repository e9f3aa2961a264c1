//! What the new nodes of an answer cost at least: the yardstick of packing. It lets every pod be cut into pieces, and bins
//! be bought in fractions, but only from types their NodePool may use and with the room that daemons leave.

use std::rc::Rc;

use model::resources::{CPU, MEMORY};

use crate::{
    Input, NewNode, PrecomputedIndexes, SolveResult,
    algebra::{Algebra, SetId, Undefined},
    setup,
    world::World,
};

/// Mixes of CPU and memory that are tried; the one that proves most counts.
const MIXES: i128 = 256;
/// Fixed point of amounts and prices.
const BITS: u32 = 20;

/// In nano-dollars per hour; never more than the answer costs, whichever way it was found.
///
/// Any price for a core and for a gigabyte proves a bound if no type sells both for less: what all pods would pay.
pub fn least_cost(input: &Input<'_>, answer: &SolveResult) -> i64 {
    let mut world = setup::set_up(&PrecomputedIndexes::of(input), &Rc::new(input.clone())).world;
    let mut least = 0;
    for template in 0..world.templates.len() {
        let wanted = wanted(input, answer, |node| node.pool == template);
        least += proven(&offers(&mut world, template, Algebra::EMPTY), wanted);
    }
    i64::try_from(least).unwrap_or(i64::MAX)
}

/// [`least_cost`] if pods need not go to the NodePools that were chosen for them.
pub(crate) fn least_cost_of_any(input: &Input<'_>, answer: &SolveResult) -> i64 {
    let mut world = setup::set_up(&PrecomputedIndexes::of(input), &Rc::new(input.clone())).world;
    let mut all = Vec::new();
    for template in 0..world.templates.len() {
        all.extend(offers(&mut world, template, Algebra::EMPTY));
    }
    let least = proven(&all, wanted(input, answer, |_| true));
    i64::try_from(least).unwrap_or(i64::MAX)
}

/// Requests of the pods of these new nodes.
fn wanted(input: &Input<'_>, answer: &SolveResult, which: impl Fn(&NewNode) -> bool) -> Amounts {
    let nodes = answer.new_nodes.iter().filter(|node| which(node));
    let pods = nodes
        .flat_map(|node| &node.pods)
        .filter_map(|pod| input.pods.get(*pod));
    pods.fold((0, 0), |sum, pod| {
        let amount = |name| i128::from(pod.requests.get(name));
        (sum.0 + amount(CPU), sum.1 + amount(MEMORY))
    })
}

/// Prices of the types that a NodePool may buy and that meet these requirements, with the room that daemons leave.
pub(crate) fn offers(world: &mut World<'_>, template: usize, asked: SetId) -> Vec<(i128, Amounts)> {
    let node_template = world.templates.get(template);
    let Some((catalog, set)) =
        node_template.map(|node_template| (node_template.catalog, node_template.set))
    else {
        return Vec::new();
    };
    let Some(set) = world.algebra.narrow(set, asked, Undefined::WellKnown) else {
        return Vec::new();
    };
    let prices = world.prices(catalog, set);
    let Some(node_template) = world.templates.get(template) else {
        return Vec::new();
    };
    let names = world.dimensions.names();
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
pub(crate) type Amounts = (i128, i128);

/// The most that one of the mixes proves.
fn proven(offers: &[(i128, Amounts)], wanted: Amounts) -> i128 {
    DualPrices::most(offers, wanted).of(wanted)
}

/// Prices for a core and for a gigabyte that no type undercuts.
pub(crate) struct DualPrices {
    mix: i128,
    /// CPU and memory of the roomiest type.
    most: Amounts,
    /// Least price of a unit of the mix.
    rate: i128,
}

impl DualPrices {
    /// Returns the prices at which these pods would pay most.
    pub(crate) fn most(offers: &[(i128, Amounts)], wanted: Amounts) -> Self {
        let most = |of: fn(&Amounts) -> i128| {
            let amounts = offers.iter().map(|(_, room)| of(room));
            amounts.max().unwrap_or(0).max(1)
        };
        let most = (most(|room| room.0), most(|room| room.1));
        let shares = offers
            .iter()
            .map(|(price, room)| (price << BITS, shares(*room, most)));
        let shares: Vec<(i128, Amounts)> = shares.collect();
        let worths = (0..=MIXES).map(|mix| {
            let worth = Self { mix, most, rate: 0 };
            // Room is rounded up and what pods want down, so that rounding proves nothing.
            let rates = shares
                .iter()
                .map(|(price, shares)| price / (worth.mixed(*shares) + MIXES));
            Self {
                rate: rates.min().unwrap_or(0),
                ..worth
            }
        });
        let best = worths.max_by_key(|worth| worth.of(wanted));
        best.unwrap_or(Self {
            mix: 0,
            most,
            rate: 0,
        })
    }

    pub(crate) fn of(&self, wanted: Amounts) -> i128 {
        (self.rate * self.units(wanted)) >> BITS
    }

    fn units(&self, amounts: Amounts) -> i128 {
        self.mixed(shares(amounts, self.most))
    }

    fn mixed(&self, (cpu, memory): Amounts) -> i128 {
        self.mix * cpu + (MIXES - self.mix) * memory
    }
}

/// Parts of the roomiest type, in fixed point.
fn shares((cpu, memory): Amounts, most: Amounts) -> Amounts {
    ((cpu << BITS) / most.0, (memory << BITS) / most.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: (i128, (i128, i128)) = (1_000_000, (4_000, 4_000));
    const ROOMY: (i128, (i128, i128)) = (1_500_000, (4_000, 12_000));

    #[test]
    fn pods_that_fill_the_cheapest_type_prove_its_price() {
        let proven = proven(&[CORES, ROOMY], (8_000, 8_000));
        assert!((1_990_000..=2_000_000).contains(&proven), "{proven}");
    }

    #[test]
    fn a_mix_of_types_is_priced_by_both_resources() {
        let proven = proven(&[CORES, ROOMY], (8_000, 16_000));
        assert!((2_490_000..=2_500_000).contains(&proven), "{proven}");
    }

    #[test]
    fn rounding_proves_nothing() {
        let (dear, room) = (1_000_000_000, (4_000, 4_000));
        let proven = proven(&[(dear, room)], room);
        assert!((999_990_000..=dear).contains(&proven), "{proven}");
    }

    #[test]
    fn nothing_wanted_or_nothing_offered_proves_nothing() {
        assert_eq!(proven(&[CORES], (0, 0)), 0);
        assert_eq!(proven(&[], (8_000, 8_000)), 0);
    }
}
