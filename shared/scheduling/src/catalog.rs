//! Column-wise index of one list of instance types: per label, the types with each value; per kind of offering, the types
//! that have it. Filtering by a set of requirements is an AND over a few words, memoized per set.

use std::{cell::OnceCell, collections::BTreeMap, rc::Rc};

use model::{
    CapacityType, InstanceType, Memo, NanosPerHour, Resources, catalog::Offering, labels,
    requirement::Requirement, selector::Operator, snapshot::Optimize,
};

use crate::{
    algebra::{Algebra, ReqId, SetId, Sym, Undefined},
    bits::BitSet,
    input::Options,
};

/// Instance type in one of its allocatable variants. Almost every type has one row (docs/spec/scheduling.md#offering).
pub(crate) struct Row {
    pub(crate) instance_type: usize,
    pub(crate) allocatable: Resources,
    pub(crate) offers: Vec<Offer>,
}

/// Available offering.
pub(crate) struct Offer {
    /// Requirements of the offering, such as zone and capacity type.
    pub(crate) set: SetId,
    /// Price of a node, including the NodePool's surcharge.
    pub(crate) price: NanosPerHour,
    pub(crate) capacity_type: CapacityType,
    /// Index into the type's offerings.
    pub(crate) index: usize,
}

/// Index of one list of instance types.
#[derive(Clone)]
pub(crate) struct Catalog<'a> {
    pub(crate) types: &'a [InstanceType],
    pub(crate) rows: Rc<[Row]>,
    columns: Rc<BTreeMap<Sym, Column>>,
    /// Per requirement set of offerings, the rows with an available one.
    offers: Rc<[(SetId, BitSet)]>,
    /// Per attach limit, the rows that have it, in ascending order.
    attach_limits: Rc<[(u32, BitSet)]>,
    /// Indexes into `found`.
    by_requirement: Memo<(Sym, ReqId), usize>,
    by_set: Memo<SetId, usize>,
    found: Vec<BitSet>,
    all: OnceCell<BitSet>,
}

/// Values of one label over all rows.
pub(crate) struct Column {
    without_label: BitSet,
    values: Vec<(ReqId, BitSet)>,
}

impl<'a> Catalog<'a> {
    pub(crate) fn new(
        types: &'a [InstanceType],
        surcharge: NanosPerHour,
        algebra: &mut Algebra,
        options: &Options<'_>,
    ) -> Self {
        let mut sets = OfferingSets::default();
        let rows: Vec<Row> = types
            .iter()
            .enumerate()
            .flat_map(|(at, instance_type)| {
                rows_of(at, instance_type, surcharge, &mut sets, algebra, options)
            })
            .collect();
        Self {
            types,
            columns: Rc::new(columns(&rows, types, algebra)),
            offers: offers(&rows),
            attach_limits: match options.optimize {
                Optimize::Cost => attach_limits(&rows, types),
                Optimize::Upstream => Rc::default(),
            },
            by_requirement: Memo::default(),
            by_set: Memo::default(),
            found: Vec::new(),
            all: OnceCell::new(),
            rows: rows.into(),
        }
    }

    pub(crate) fn instance_type(&self, row: usize) -> Option<&'a InstanceType> {
        self.types.get(self.rows.get(row)?.instance_type)
    }

    pub(crate) fn all(&self) -> &BitSet {
        self.all.get_or_init(|| BitSet::all(self.rows.len()))
    }

    pub(crate) fn limits_attachments(&self) -> bool {
        !self.attach_limits.is_empty()
    }

    /// Number of EBS volumes that a row can attach; `None` without a limit.
    pub(crate) fn attach_limit(&self, row: usize) -> Option<u32> {
        let mut limits = self.attach_limits.iter();
        let limit = limits.find(|(_, having)| having.contains(row));
        limit.map(|(limit, _)| *limit)
    }

    /// Largest attach limit of these rows.
    pub(crate) fn most_attached(&self, rows: &BitSet) -> u32 {
        let mut limits = self.attach_limits.iter().rev();
        let most = limits.find(|(_, having)| rows.iter().any(|row| having.contains(row)));
        most.map_or(u32::MAX, |(limit, _)| *limit)
    }

    /// Keeps the rows that can attach this many EBS volumes.
    pub(crate) fn keep_attaching(&self, volumes: usize, rows: &mut BitSet) {
        let is_less = |limit: u32| usize::try_from(limit).is_ok_and(|limit| limit < volumes);
        for (_, exhausted) in self
            .attach_limits
            .iter()
            .filter(|(limit, _)| is_less(*limit))
        {
            rows.subtract(exhausted);
        }
    }

    /// Requirements that rows state for `key`, with the rows.
    pub(crate) fn column(&self, key: Sym) -> &[(ReqId, BitSet)] {
        self.columns
            .get(&key)
            .map_or(&[], |column| column.values.as_slice())
    }

    /// Rows whose labels agree with `set`, regardless of offerings.
    pub(crate) fn agreeing(&mut self, set: SetId, algebra: &mut Algebra) -> BitSet {
        let mut rows = self.all().clone();
        for &(key, req) in algebra.set(set).iter() {
            if let Some(at) = self.by_label(key, req, algebra)
                && let Some(found) = self.found.get(at)
            {
                rows.and(found);
            }
        }
        rows
    }

    fn by_label(&mut self, key: Sym, req: ReqId, algebra: &mut Algebra) -> Option<usize> {
        let column = self.columns.get(&key)?;
        if let Some(at) = self.by_requirement.get(&(key, req)) {
            return Some(at);
        }
        let mut rows = column.without_label.clone();
        for (stated, having) in &column.values {
            if algebra.agree(*stated, req) {
                rows.or(having);
            }
        }
        let at = self.found.len();
        self.found.push(rows);
        self.by_requirement.insert((key, req), at);
        Some(at)
    }

    /// Rows that agree with `set` and have an available offering that does, as an index for [`Self::memoized`].
    pub(crate) fn matching(&mut self, set: SetId, algebra: &mut Algebra) -> usize {
        if let Some(at) = self.by_set.get(&set) {
            return at;
        }
        let mut rows = self.agreeing(set, algebra);
        let mut offered = BitSet::none(self.rows.len());
        for (offer, having) in self.offers.iter() {
            if compatible(algebra, set, *offer) {
                offered.or(having);
            }
        }
        rows.and(&offered);
        let at = self.found.len();
        self.found.push(rows);
        self.by_set.insert(set, at);
        at
    }

    pub(crate) fn memoized(&self, at: usize) -> &BitSet {
        self.found.get(at).unwrap_or_else(|| self.all())
    }

    /// Rows with an available offering that `set` allows, regardless of labels.
    pub(crate) fn offering(&self, set: SetId, algebra: &mut Algebra) -> BitSet {
        let mut offered = BitSet::none(self.rows.len());
        for (offer, having) in self.offers.iter() {
            if compatible(algebra, set, *offer) {
                offered.or(having);
            }
        }
        offered
    }
}

fn offers(rows: &[Row]) -> Rc<[(SetId, BitSet)]> {
    let mut offers: BTreeMap<SetId, BitSet> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        for offer in &row.offers {
            let having = offers.entry(offer.set);
            having
                .or_insert_with(|| BitSet::none(rows.len()))
                .insert(at);
        }
    }
    offers.into_iter().collect()
}

fn attach_limits(rows: &[Row], types: &[InstanceType]) -> Rc<[(u32, BitSet)]> {
    let mut limits: BTreeMap<u32, BitSet> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(limit) = types
            .get(row.instance_type)
            .and_then(|known| known.ebs_attach_limit)
        {
            let having = limits.entry(limit);
            having
                .or_insert_with(|| BitSet::none(rows.len()))
                .insert(at);
        }
    }
    limits.into_iter().collect()
}

fn columns(rows: &[Row], types: &[InstanceType], algebra: &mut Algebra) -> BTreeMap<Sym, Column> {
    let mut columns: BTreeMap<Sym, BTreeMap<ReqId, BitSet>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(instance_type) = types.get(row.instance_type) else {
            continue;
        };
        for requirement in instance_type.requirements.0.values() {
            let (key, req) = algebra.requirement(requirement);
            let values = columns.entry(key).or_default();
            values
                .entry(req)
                .or_insert_with(|| BitSet::none(rows.len()))
                .insert(at);
        }
    }
    let columns = columns.into_iter().map(|(key, values)| {
        let mut without_label = BitSet::all(rows.len());
        for rows in values.values() {
            without_label.subtract(rows);
        }
        let values = values.into_iter().collect();
        (
            key,
            Column {
                without_label,
                values,
            },
        )
    });
    columns.collect()
}

/// Whether a node with the requirements `set` may be launched from this offering.
pub(crate) fn compatible(algebra: &mut Algebra, set: SetId, offer: SetId) -> bool {
    algebra.narrow(set, offer, Undefined::WellKnown).is_some()
}

/// Base row of a type, and one row per distinct override of its available offerings.
fn rows_of<'a>(
    type_index: usize,
    instance_type: &'a InstanceType,
    surcharge: NanosPerHour,
    sets: &mut OfferingSets<'a>,
    algebra: &mut Algebra,
    options: &Options<'_>,
) -> Vec<Row> {
    let base = Row {
        instance_type: type_index,
        allocatable: instance_type.allocatable(),
        offers: Vec::new(),
    };
    let mut rows = vec![((None, None), base)];
    for (index, offering) in instance_type.offerings.iter().enumerate() {
        if !offering.available {
            continue;
        }
        let offer = Offer {
            set: sets.set_of(offering, algebra, options),
            price: offering.price.plus(surcharge),
            capacity_type: offering.capacity_type,
            index,
        };
        let overrides = (
            offering.capacity_override.as_ref(),
            offering.overhead_override.as_ref(),
        );
        let at = rows.iter().position(|(known, _)| *known == overrides);
        match at.and_then(|at| rows.get_mut(at)) {
            Some((_, row)) => row.offers.push(offer),
            None => rows.push((
                overrides,
                Row {
                    instance_type: type_index,
                    allocatable: instance_type.allocatable_with(overrides.0, overrides.1),
                    offers: vec![offer],
                },
            )),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Interned requirements of offerings. Thousands of offerings share a few zones, capacity types and reservations.
#[derive(Default)]
struct OfferingSets<'a>(BTreeMap<(CapacityType, &'a str, &'a str, Option<&'a str>), SetId>);

impl<'a> OfferingSets<'a> {
    fn set_of(
        &mut self,
        offering: &'a Offering,
        algebra: &mut Algebra,
        options: &Options<'_>,
    ) -> SetId {
        if !offering.requirements.0.is_empty() {
            return offering_set(offering, algebra, options);
        }
        let reservation = offering.reservation.as_ref();
        let alike = (
            offering.capacity_type,
            offering.zone.as_str(),
            offering.zone_id.as_str(),
            reservation.map(|reservation| reservation.id.as_str()),
        );
        let known = self.0.entry(alike);
        *known.or_insert_with(|| offering_set(offering, algebra, options))
    }
}

fn offering_set(offering: &Offering, algebra: &mut Algebra, options: &Options<'_>) -> SetId {
    let value_of = |key: &str, value: &str| Requirement::new(key, Operator::In, [value.to_owned()]);
    let mut requirements = vec![
        value_of(labels::ZONE, &offering.zone),
        value_of(labels::CAPACITY_TYPE, offering.capacity_type.as_str()),
    ];
    let knows_zone_ids = options
        .well_known_labels
        .iter()
        .any(|key| key == labels::ZONE_ID);
    if knows_zone_ids && !offering.zone_id.is_empty() {
        requirements.push(value_of(labels::ZONE_ID, &offering.zone_id));
    }
    let label = options.reservation_id_label;
    if !label.is_empty() {
        requirements.push(match &offering.reservation {
            Some(reservation) => value_of(label, &reservation.id),
            None => Requirement::new(label, Operator::DoesNotExist, []),
        });
    }
    requirements.extend(offering.requirements.0.values().cloned());
    algebra.set_of(&requirements)
}

#[cfg(test)]
mod tests;
