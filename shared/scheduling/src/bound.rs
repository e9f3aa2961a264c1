//! What the new nodes of an answer cost at least: the yardstick of packing. It lets every pod be cut into pieces, and bins
//! be bought in fractions, but only from types their NodePool may use and with the room that daemons leave.

use std::rc::Rc;

use model::resources::{CPU, MEMORY};

use crate::{Answer, Groundwork, Input, setup};

/// Mixes of CPU and memory that are tried; the one that proves most counts.
const MIXES: i128 = 256;
/// Fixed point of amounts and prices.
const BITS: u32 = 20;

/// In nano-dollars per hour; never more than the answer costs, whichever way it was found.
///
/// Any price for a core and for a gigabyte proves a bound if no type sells both for less: what all pods would pay.
pub fn least_cost(input: &Input<'_>, answer: &Answer) -> i64 {
    let mut world = setup::set_up(&Groundwork::of(input), &Rc::new(input.clone())).world;
    let mut least = 0;
    for template in 0..world.templates.len() {
        let nodes = answer.new_nodes.iter().filter(|node| node.pool == template);
        let pods = nodes
            .flat_map(|node| &node.pods)
            .filter_map(|pod| input.pods.get(*pod));
        let wanted = pods.fold((0, 0), |sum: (i128, i128), pod| {
            let requests = &pod.requests;
            (
                sum.0 + i128::from(requests.get(CPU)),
                sum.1 + i128::from(requests.get(MEMORY)),
            )
        });
        let Some((catalog, set)) = world
            .templates
            .get(template)
            .map(|mould| (mould.catalog, mould.set))
        else {
            continue;
        };
        let prices = world.prices(catalog, set);
        let Some(mould) = world.templates.get(template) else {
            continue;
        };
        let names = world.dimensions.names();
        let place = |name| names.iter().position(|known| known == name);
        let (cpu, memory) = (place(CPU), place(MEMORY));
        let offers = prices.iter().filter_map(|(row, choice)| {
            let room = mould.left.get(*row)?.as_ref()?;
            let amount = |at: Option<usize>| {
                let amount = at.and_then(|at| room.get(at)).copied().unwrap_or(0);
                i128::from(amount.max(0))
            };
            Some((i128::from(choice.price.0), (amount(cpu), amount(memory))))
        });
        least += proven(&offers.collect::<Vec<_>>(), wanted);
    }
    i64::try_from(least).unwrap_or(i64::MAX)
}

/// The most that one of the mixes proves.
fn proven(offers: &[(i128, (i128, i128))], wanted: (i128, i128)) -> i128 {
    let most = |of: fn(&(i128, i128)) -> i128| {
        let amounts = offers.iter().map(|(_, room)| of(room));
        amounts.max().unwrap_or(0).max(1)
    };
    let (cpu, memory) = (most(|room| room.0), most(|room| room.1));
    let mixes = (0..=MIXES).map(|mix| {
        let units = |amounts: (i128, i128)| {
            mix * ((amounts.0 << BITS) / cpu) + (MIXES - mix) * ((amounts.1 << BITS) / memory)
        };
        // Room is rounded up and what pods want down, so that rounding proves nothing.
        let rates = offers
            .iter()
            .map(|(price, room)| (price << BITS) / (units(*room) + MIXES));
        (rates.min().unwrap_or(0) * units(wanted)) >> BITS
    });
    mixes.max().unwrap_or(0)
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
