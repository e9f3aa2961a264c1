//! Instance types of a NodePool, with cached sets of the types and offerings that satisfy each requirement.

use std::{
    borrow::Borrow,
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use model::{
    InstanceType, Memo, Offering, Resources, labels,
    requirement::Requirement,
    selector::{NodeSelectorRequirement, Operator},
};

use crate::{
    bits::Bits,
    label::{Label, overlap},
};

pub(crate) struct Catalog<'a> {
    types: &'a [InstanceType],
    /// Indexes of the types, sorted by name.
    by_name: Vec<usize>,
    /// Indexes by name, because most plans name thousands of types.
    index_of: Memo<&'a str, usize>,
    /// Offerings of all types, grouped by type.
    offerings: Vec<&'a Offering>,
    /// Index of each type's first offering, and the number of offerings as the last entry.
    begin: Vec<usize>,
    available: Bits,
    reservation_label: &'a str,
    allocatable: Vec<OnceCell<Resources>>,
    /// By resource, the capacity (and below, the allocatable amount) of each type.
    capacities: RefCell<BTreeMap<String, Rc<[i64]>>>,
    allocatables: RefCell<BTreeMap<String, Rc<[i64]>>>,
    /// Whether an offering overrides capacity or overhead of its type.
    has_overrides: bool,
    suitable: RefCell<BTreeMap<Requirement, Rc<Bits>>>,
    offered: RefCell<BTreeMap<Requirement, Rc<Bits>>>,
    permitting: RefCell<BTreeMap<NodeSelectorRequirement, Rc<Bits>>>,
    values: RefCell<BTreeMap<String, Rc<Values<'a>>>>,
}

/// Values of one label on types and offerings, as sets of offerings.
#[derive(Default)]
pub(crate) struct Values<'a> {
    pub listed: Vec<(&'a str, Bits)>,
    /// Offerings whose type does not mention the label.
    pub silent: Bits,
    /// Offerings whose type allows any value except some.
    pub open: Bits,
}

impl<'a> Catalog<'a> {
    pub(crate) fn new(types: &'a [InstanceType], reservation_label: &'a str) -> Self {
        let names = || {
            types
                .iter()
                .map(|instance_type| instance_type.name.as_str())
                .zip(0..)
        };
        let mut by_name: Vec<(&str, usize)> = names().collect();
        by_name.sort_unstable();
        let mut index_of = Memo::default();
        for (name, index) in names() {
            index_of.get_or_insert(name, index);
        }
        let offerings: Vec<&Offering> = types
            .iter()
            .flat_map(|instance_type| &instance_type.offerings)
            .collect();
        let has_overrides = offerings.iter().any(|offering| {
            offering.capacity_override.is_some() || offering.overhead_override.is_some()
        });
        let mut begin = vec![0];
        begin.extend(types.iter().scan(0, |end, instance_type| {
            *end += instance_type.offerings.len();
            Some(*end)
        }));
        Self {
            available: Bits::of(offerings.len(), |index| {
                offerings
                    .get(*index)
                    .is_some_and(|offering| offering.available)
            }),
            allocatable: vec![OnceCell::new(); types.len()],
            types,
            by_name: by_name.into_iter().map(|(_, index)| index).collect(),
            index_of,
            offerings,
            begin,
            reservation_label,
            capacities: RefCell::default(),
            allocatables: RefCell::default(),
            has_overrides,
            suitable: RefCell::default(),
            offered: RefCell::default(),
            permitting: RefCell::default(),
            values: RefCell::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.index_of.get(name)
    }

    /// Names of these types, sorted.
    pub(crate) fn names(&self, types: &Bits) -> impl Iterator<Item = &'a str> {
        let listed = self.by_name.iter().filter(|index| types.contains(**index));
        listed
            .filter_map(|index| self.types.get(*index))
            .map(|instance_type| instance_type.name.as_str())
    }

    pub(crate) fn get(&self, index: usize) -> Option<&'a InstanceType> {
        self.types.get(index)
    }

    pub(crate) fn offering(&self, index: usize) -> Option<&'a Offering> {
        self.offerings.get(index).copied()
    }

    /// Indexes of a type's offerings.
    pub(crate) fn offerings_of(&self, index: usize) -> std::ops::Range<usize> {
        let at = |index: usize| self.begin.get(index).copied().unwrap_or(0);
        at(index)..at(index + 1)
    }

    pub(crate) fn offerings_len(&self) -> usize {
        self.offerings.len()
    }

    pub(crate) fn offerings_where(&self, is_in: impl Fn(&Offering) -> bool) -> Bits {
        Bits::of(self.offerings.len(), |index| {
            self.offering(*index).is_some_and(&is_in)
        })
    }

    pub(crate) fn available(&self) -> &Bits {
        &self.available
    }

    pub(crate) fn allocatable(&self, index: usize) -> Option<&Resources> {
        let instance_type = self.types.get(index)?;
        let known = self.allocatable.get(index)?;
        Some(known.get_or_init(|| instance_type.allocatable()))
    }

    /// Capacity of each type, by index.
    pub(crate) fn capacities(&self, name: &str) -> Rc<[i64]> {
        cached(&self.capacities, name, || {
            self.types
                .iter()
                .map(|instance_type| instance_type.capacity.get(name))
                .collect()
        })
    }

    /// Allocatable amount of each type without offering overrides, by index.
    pub(crate) fn allocatables(&self, name: &str) -> Rc<[i64]> {
        cached(&self.allocatables, name, || {
            let there = (0..self.types.len()).map(|index| self.allocatable(index));
            there
                .map(|there| there.map_or(0, |there| there.get(name)))
                .collect()
        })
    }

    pub(crate) fn has_overrides(&self) -> bool {
        self.has_overrides
    }

    /// Types whose requirements are compatible with `wanted`.
    pub(crate) fn suitable(&self, wanted: &Requirement) -> Rc<Bits> {
        cached(&self.suitable, wanted, || {
            Rc::new(Bits::of(self.types.len(), |index| {
                let own = self
                    .types
                    .get(*index)
                    .and_then(|instance_type| instance_type.requirements.get(&wanted.key));
                own.is_none_or(|own| {
                    overlap(own, wanted) || is_negative(own) && is_negative(wanted)
                })
            }))
        })
    }

    /// Offerings that are compatible with `wanted`, by the labels they specify.
    pub(crate) fn offered(&self, wanted: &Requirement) -> Rc<Bits> {
        let key = wanted.key.as_str();
        cached(&self.offered, wanted, || {
            Rc::new(Bits::of(self.offerings.len(), |index| {
                let Some(offering) = self.offerings.get(*index) else {
                    return false;
                };
                match self.of_offering(offering, key) {
                    Some(Some(value)) => wanted.has(value),
                    Some(None) => is_negative(wanted),
                    None => offering
                        .requirements
                        .get(key)
                        .is_none_or(|own| overlap(own, wanted)),
                }
            }))
        })
    }

    /// Types on which the expression may hold, by the labels they specify.
    pub(crate) fn permitting(&self, wanted: &NodeSelectorRequirement) -> Rc<Bits> {
        cached(&self.permitting, wanted, || {
            let key = labels::normalized(&wanted.key);
            Rc::new(Bits::of(self.types.len(), |index| {
                let own = self
                    .types
                    .get(*index)
                    .and_then(|instance_type| instance_type.requirements.get(key));
                own.is_none_or(|own| Label::of_known(own).permits(wanted))
            }))
        })
    }

    /// Whether types or offerings specify this label.
    pub(crate) fn knows(&self, key: &str) -> bool {
        let is_of_offerings =
            matches!(key, labels::ZONE | labels::CAPACITY_TYPE) || key == self.reservation_label;
        is_of_offerings
            || self
                .types
                .iter()
                .any(|instance_type| instance_type.requirements.get(key).is_some())
    }

    pub(crate) fn values(&self, key: &str) -> Rc<Values<'a>> {
        cached(&self.values, key, || Rc::new(self.find_values(key)))
    }

    fn find_values(&self, key: &str) -> Values<'a> {
        let size = self.offerings.len();
        let mut listed: BTreeMap<&str, Bits> = BTreeMap::new();
        let mut values = Values {
            listed: Vec::new(),
            silent: Bits::none(size),
            open: Bits::none(size),
        };
        for (at, instance_type) in self.types.iter().enumerate() {
            let of_type = instance_type.requirements.get(key);
            for index in self.offerings_of(at) {
                let Some(offering) = self.offering(index) else {
                    continue;
                };
                let mut list = |value| {
                    listed
                        .entry(value)
                        .or_insert_with(|| Bits::none(size))
                        .insert(index)
                };
                match (self.of_offering(offering, key), of_type) {
                    (Some(value), _) => value.into_iter().for_each(list),
                    (None, None) => values.silent.insert(index),
                    (None, Some(known)) if known.complement => values.open.insert(index),
                    (None, Some(known)) => known.values.iter().for_each(|value| list(value)),
                }
            }
        }
        values.listed = listed.into_iter().collect();
        values
    }

    /// Value of a label on an offering: `Some(None)` if the offering is known not to have it, `None` if it does not
    /// specify it.
    pub(crate) fn of_offering(&self, offering: &'a Offering, key: &str) -> Option<Option<&'a str>> {
        match key {
            labels::ZONE => Some(Some(&offering.zone)),
            labels::CAPACITY_TYPE => Some(Some(offering.capacity_type.as_str())),
            labels::ZONE_ID if !offering.zone_id.is_empty() => Some(Some(&offering.zone_id)),
            _ if key == self.reservation_label => Some(
                offering
                    .reservation
                    .as_ref()
                    .map(|reservation| reservation.id.as_str()),
            ),
            _ => None,
        }
    }
}

fn cached<K: Borrow<Q> + Ord, Q: Ord + ToOwned<Owned = K> + ?Sized, V: ?Sized>(
    cache: &RefCell<BTreeMap<K, Rc<V>>>,
    key: &Q,
    find: impl FnOnce() -> Rc<V>,
) -> Rc<V> {
    if let Some(known) = cache.borrow().get(key) {
        return Rc::clone(known);
    }
    let found = find();
    cache.borrow_mut().insert(key.to_owned(), Rc::clone(&found));
    found
}

/// Whether a requirement demands that the label is absent.
pub(crate) fn is_absence(requirement: &Requirement) -> bool {
    requirement.operator() == Operator::DoesNotExist
}

/// Whether a requirement is satisfied by an absent label.
pub(crate) fn is_negative(requirement: &Requirement) -> bool {
    matches!(
        requirement.operator(),
        Operator::DoesNotExist | Operator::NotIn
    )
}

#[cfg(test)]
mod tests;
