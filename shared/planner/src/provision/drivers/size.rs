//! Finds what ruled out cheaper instance types for a new node.

use std::cell::OnceCell;

use model::{
    CapacityType, InstanceType, NanosPerHour, Resources,
    labels::{CAPACITY_TYPE, ZONE},
    requirement::Requirement,
    resources::amount_text,
};
use scheduling::{NewNode, Pool};

use super::label::Labels;

/// Instance types of a NodePool offered in one capacity type, by lowest price, available or not.
pub(super) struct TypesByPrice(Vec<PricedType>);

/// Instance type with its lowest price.
struct PricedType {
    price: NanosPerHour,
    instance_type: usize,
    allocatable: OnceCell<Resources>,
}

/// Most cheaper instance types examined: those nearest in price explain the choice.
const TYPES_EXAMINED_MAX: usize = 8;
/// Most obstacles named in a text.
const OBSTACLES_NAMED_MAX: usize = 2;

/// Nearest obstacle of each category that ruled out a cheaper instance type.
#[derive(Default)]
pub(super) struct Obstacles<'n> {
    size: Option<String>,
    /// Size of an instance type that a label rules out as well.
    size_besides: Option<String>,
    /// Requirement, with the name of the instance type that contradicts it.
    label: Option<(&'n Requirement, String)>,
    offer: Option<String>,
    rest: Option<String>,
}

impl TypesByPrice {
    pub(super) fn new(pool: &Pool<'_>, capacity_type: CapacityType) -> Self {
        let lowest = |instance_type: &InstanceType| {
            let offerings = instance_type.offerings.iter();
            // An offering without a price cannot be bought.
            let priced = offerings.filter(|offering| {
                offering.capacity_type == capacity_type
                    && (offering.available || offering.price.0 > 0)
            });
            let prices = priced.map(|offering| offering.price.plus(pool.surcharge));
            prices.min()
        };
        let priced_types = pool
            .types
            .iter()
            .enumerate()
            .filter_map(|(at, instance_type)| {
                Some(PricedType {
                    price: lowest(instance_type)?,
                    instance_type: at,
                    allocatable: OnceCell::new(),
                })
            });
        let mut priced_types: Vec<PricedType> = priced_types.collect();
        priced_types.sort_by_key(|priced| (priced.price, priced.instance_type));
        Self(priced_types)
    }

    pub(super) fn obstacles<'n>(
        &self,
        node: &'n NewNode,
        options: &[bool],
        types: &[InstanceType],
        labels: &Labels<'_>,
    ) -> Obstacles<'n> {
        let mut found = Obstacles::default();
        let Some(choice) = node.choices.first() else {
            return found;
        };
        let cheaper = self.0.partition_point(|priced| priced.price < choice.price);
        let ruled_out = self.0.iter().take(cheaper).rev();
        let ruled_out =
            ruled_out.filter(|priced| options.get(priced.instance_type) == Some(&false));
        for priced in ruled_out.take(TYPES_EXAMINED_MAX) {
            if let Some(other) = types.get(priced.instance_type) {
                found.examine(node, other, priced, labels);
            }
        }
        found
    }
}

impl<'n> Obstacles<'n> {
    fn examine(
        &mut self,
        node: &'n NewNode,
        other: &InstanceType,
        priced: &PricedType,
        labels: &Labels<'_>,
    ) {
        let named = || format!("{} at ${}/h", other.name, priced.price);
        let conflicts = || {
            let wanted = node.requirements.0.values();
            wanted.filter(|wanted| {
                let said = other.requirements.get(&wanted.key);
                ![ZONE, CAPACITY_TYPE].contains(&wanted.key.as_str())
                    && said.is_some_and(|said| !said.intersects(wanted))
            })
        };
        let room = priced.allocatable.get_or_init(|| other.allocatable());
        let mut requests = node.requests.iter();
        let lacking = requests.find(|(name, wanted)| *wanted > room.get(name));
        let lacking = lacking.map(|(name, wanted)| {
            let (wanted, has) = (amount_text(name, wanted), amount_text(name, room.get(name)));
            format!("{wanted} {name} ({} has {has})", named())
        });
        if let Some(first) = conflicts().next() {
            // The instance type would be too small without the requirement as well.
            if let Some(lacking) = lacking {
                self.size_besides.get_or_insert(lacking);
                return;
            }
            self.label.get_or_insert_with(|| {
                // A requirement of pods applies in any NodePool.
                let is_for_pods = |wanted: &&Requirement| {
                    let narrowing = labels.narrowing(wanted);
                    narrowing.is_some_and(|narrowing| narrowing.is_for_pods())
                };
                (conflicts().find(is_for_pods).unwrap_or(first), named())
            });
            return;
        }
        if let Some(lacking) = lacking {
            self.size.get_or_insert(lacking);
            return;
        }
        if is_on_offer(node, other) {
            let what = match node.drivers.is_empty() {
                true => "limits or daemons",
                false => "devices that its pods claim",
            };
            self.rest
                .get_or_insert_with(|| format!("{what} (not {})", named()));
        } else {
            self.offer
                .get_or_insert_with(|| format!("what is on offer (no {})", named()));
        }
    }

    /// Key of the label that the text names.
    pub(super) fn key(&self) -> Option<&str> {
        self.label.as_ref().map(|(wanted, _)| wanted.key.as_str())
    }

    /// Returns `None` if nothing ruled out a cheaper instance type.
    pub(super) fn text(&self, labels: &Labels<'_>) -> Option<String> {
        let label = self.label.as_ref().map(|(wanted, other)| {
            let narrowed = match labels.narrowing(wanted) {
                Some(narrowing) => narrowing.to_string(),
                None => wanted.values_text(),
            };
            format!("{} {narrowed} (not {other})", wanted.key)
        });
        let besides = self.size_besides.clone().filter(|_| label.is_none());
        let all = [
            self.size.clone().or(besides),
            label,
            self.offer.clone(),
            self.rest.clone(),
        ];
        let obstacles: Vec<String> = all
            .into_iter()
            .flatten()
            .take(OBSTACLES_NAMED_MAX)
            .collect();
        (!obstacles.is_empty()).then(|| format!("for {}", obstacles.join(" and ")))
    }
}

fn is_on_offer(node: &NewNode, other: &InstanceType) -> bool {
    let allows = |key: &str, value: &str| {
        let left = node.requirements.get(key);
        left.is_none_or(|left| left.has(value))
    };
    other.offerings.iter().any(|offering| {
        offering.available
            && allows(CAPACITY_TYPE, offering.capacity_type.as_str())
            && allows(ZONE, &offering.zone)
    })
}
