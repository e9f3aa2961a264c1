//! Price lists: per set of requirements, every type with its cheapest usable offering, computed once.

use std::{collections::BTreeMap, rc::Rc};

use model::NanosPerHour;

use crate::{
    algebra::SetId, bits::BitSet, catalog, outcome::Choice, placement_context::PlacementContext,
};

/// Per catalog and requirement set, the usable rows, cheapest first, ties by name.
pub(crate) type Prices = BTreeMap<(usize, SetId), Rc<[(usize, Choice)]>>;

impl PlacementContext<'_> {
    pub(crate) fn prices(&mut self, catalog: usize, set: SetId) -> Rc<[(usize, Choice)]> {
        if let Some(known) = self.prices.get(&(catalog, set)) {
            return Rc::clone(known);
        }
        let list: Rc<[(usize, Choice)]> = self.price_list(catalog, set).into();
        self.prices.insert((catalog, set), Rc::clone(&list));
        list
    }

    /// Price of the cheapest of `rows`.
    pub(crate) fn cheapest(&mut self, template: usize, set: SetId, rows: &BitSet) -> NanosPerHour {
        let catalog = self
            .templates
            .get(template)
            .map_or(0, |template| template.catalog);
        let prices = self.prices(catalog, set);
        let cheapest = prices.iter().find(|(row, _)| rows.contains(*row));
        cheapest.map_or(NanosPerHour(i64::MAX), |(_, choice)| choice.price)
    }

    fn price_list(&mut self, at: usize, set: SetId) -> Vec<(usize, Choice)> {
        let Some(catalog) = self.catalogs.get(at) else {
            return Vec::new();
        };
        let mut list: Vec<(usize, Choice)> = Vec::new();
        for (row, variant) in catalog.rows.iter().enumerate() {
            let usable = variant
                .offers
                .iter()
                .filter(|offer| catalog::compatible(&mut self.algebra, set, offer.set));
            let cheapest = usable.min_by_key(|offer| (offer.price, offer.index));
            list.extend(cheapest.map(|offer| {
                let choice = Choice::new(variant.instance_type, offer.index, offer.price);
                (row, choice)
            }));
        }
        list.sort_by_key(|(_, choice)| {
            let name = catalog
                .types
                .get(choice.instance_type())
                .map(|t| t.name.as_str());
            (choice.price, name)
        });
        list
    }
}
