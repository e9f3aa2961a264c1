//! Nodes that do not exist yet, and their possible outcomes.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use model::{
    InstanceType, Offering, labels,
    node_claim::NodeClaimSpec,
    node_pool::NodePool,
    plan::Launch,
    requirement::Requirements,
    selector::{NodeSelectorRequirement, Operator},
    taint::Taint,
};

use crate::{
    bits::Bits,
    catalog::{Catalog, is_absence},
    label::Label,
    world::World,
};

/// A node that does not exist yet: one of several instance types and offerings.
pub(crate) struct OpenNode<'a> {
    pub name: &'a str,
    pub pool: Option<&'a NodePool>,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    /// Requirements of the node. For a launch without that on the instance type, which `listed` represents.
    pub requirements: Requirements,
    pub catalog: Rc<Catalog<'a>>,
    /// Instance types that the node lists.
    pub listed: Bits,
    /// Listed names that the catalog does not have.
    pub unknown: Vec<&'a str>,
    /// Listed types that satisfy the requirements and have a suitable offering.
    pub options: Bits,
    /// Offerings of `options` that satisfy the requirements.
    pub offers: Bits,
}

impl<'a> OpenNode<'a> {
    pub(crate) fn launched(world: &World<'a>, launch: &'a Launch) -> Self {
        let catalog = world.catalog(launch.node_pool.as_str());
        let mut listed = Bits::none(catalog.len());
        let mut unknown = Vec::new();
        for name in &launch.instance_types {
            match catalog.index_of(name.as_str()) {
                Some(index) => listed.insert(index),
                None => unknown.push(name.as_str()),
            }
        }
        let requirements = Requirements::from_selector(
            launch
                .spec
                .requirements
                .iter()
                .filter(|requirement| !is_about_type(requirement)),
        );
        let offers = catalog.available().clone();
        let pool = launch.node_pool.as_str();
        let named = (launch.name.as_str(), pool, &launch.labels);
        let node = Self::new(
            world,
            named,
            &launch.spec,
            requirements,
            catalog,
            listed,
            offers,
        );
        Self { unknown, ..node }
    }

    /// A node in flight, as its expected offering; `None` if no node in flight has the name.
    pub(crate) fn in_flight(world: &World<'a>, name: &str) -> Option<Self> {
        let known = world.in_flight.get(name)?;
        if let Some(intent) = known.intent {
            let launch = &intent.launch;
            let expected = &launch.cheapest;
            let catalog = world.catalog(launch.node_pool.as_str());
            let at = catalog.index_of(&expected.instance_type);
            let listed = Bits::of(catalog.len(), |index| Some(*index) == at);
            let offers = catalog.offerings_where(|offering| {
                offering.zone == expected.zone && offering.capacity_type == expected.capacity_type
            });
            let requirements = Requirements::from_selector(
                launch
                    .spec
                    .requirements
                    .iter()
                    .filter(|requirement| !is_about_type(requirement)),
            );
            let pool = launch.node_pool.as_str();
            let named = (launch.name.as_str(), pool, &launch.labels);
            return Some(Self::new(
                world,
                named,
                &launch.spec,
                requirements,
                catalog,
                listed,
                offers,
            ));
        }
        let claim = known.claim?;
        let pool = claim
            .labels
            .get(labels::NODE_POOL)
            .map_or("", String::as_str);
        let catalog = world.catalog(pool);
        let listed = Bits::of(catalog.len(), |_| true);
        // Includes offerings that have become unavailable since the decision.
        let offers = catalog.offerings_where(|_| true);
        let requirements = Requirements::from_selector(&claim.spec.requirements);
        let named = (claim.name.as_str(), pool, &claim.labels);
        Some(Self::new(
            world,
            named,
            &claim.spec,
            requirements,
            catalog,
            listed,
            offers,
        ))
    }

    fn new(
        world: &World<'a>,
        (name, pool, labels): (&'a str, &str, &'a BTreeMap<String, String>),
        spec: &'a NodeClaimSpec,
        requirements: Requirements,
        catalog: Rc<Catalog<'a>>,
        listed: Bits,
        mut offers: Bits,
    ) -> Self {
        let mut suitable = listed.clone();
        for wanted in requirements.0.values() {
            suitable.intersect(&catalog.suitable(wanted));
            offers.intersect(&catalog.offered(wanted));
        }
        let mut options = Bits::none(catalog.len());
        let mut of_options = Bits::none(catalog.offerings_len());
        for index in suitable.iter() {
            for offering in catalog
                .offerings_of(index)
                .filter(|offering| offers.contains(*offering))
            {
                options.insert(index);
                of_options.insert(offering);
            }
        }
        Self {
            name,
            pool: world.pools.get(pool).copied(),
            labels,
            taints: &spec.taints,
            requirements,
            catalog,
            listed,
            unknown: Vec::new(),
            options,
            offers: of_options,
        }
    }

    /// Possible instance types, with their indexes in the catalog.
    pub(crate) fn types(&self) -> impl Iterator<Item = (usize, &'a InstanceType)> {
        self.options
            .iter()
            .filter_map(|index| Some((index, self.catalog.get(index)?)))
    }

    /// Possible offerings of a type.
    pub(crate) fn offerings(&self, of_type: usize) -> impl Iterator<Item = &'a Offering> {
        self.catalog
            .offerings_of(of_type)
            .filter(|index| self.offers.contains(*index))
            .filter_map(|index| self.catalog.offering(index))
    }

    /// Whether the type satisfies the requirements without those on the `ignored` keys, and whether an available
    /// offering does.
    pub(crate) fn satisfies_except(&self, of_type: usize, ignored: &[&str]) -> (bool, bool) {
        let considered = || {
            self.requirements
                .0
                .values()
                .filter(|requirement| !ignored.contains(&requirement.key.as_str()))
        };
        let suits = considered().all(|wanted| self.catalog.suitable(wanted).contains(of_type));
        let is_offered = self.catalog.offerings_of(of_type).any(|index| {
            self.catalog.available().contains(index)
                && considered().all(|wanted| self.catalog.offered(wanted).contains(index))
        });
        (suits, is_offered)
    }

    /// Knowledge of a label if the node is launched with this type and offering.
    pub(crate) fn label<'p>(
        &'p self,
        key: &str,
        instance_type: &'p InstanceType,
        offering: &'a Offering,
    ) -> Label<'p> {
        let key = labels::normalized(key);
        match self.catalog.of_offering(offering, key) {
            Some(Some(value)) => return Label::Is(value),
            Some(None) => return Label::Absent,
            None => {}
        }
        let own = self.label_of_all(key);
        let sources = [
            instance_type.requirements.get(key),
            offering.requirements.get(key),
        ];
        sources.into_iter().flatten().fold(own, |label, known| {
            if is_absence(known) {
                return Label::Absent;
            }
            match label {
                Label::Is(value) => Label::Is(value),
                Label::Absent => Label::Among {
                    allowed: Cow::Borrowed(known),
                    always_present: true,
                },
                Label::Among { allowed, .. } => Label::Among {
                    allowed: Cow::Owned(allowed.intersection(known)),
                    always_present: true,
                },
            }
        })
    }

    /// Knowledge of a label that holds for every outcome.
    pub(crate) fn label_of_all(&self, key: &str) -> Label<'_> {
        let key = labels::normalized(key);
        if key == labels::HOSTNAME {
            return Label::Is(self.name);
        }
        if matches!(key, labels::REGISTERED | labels::INITIALIZED) {
            return Label::Is("true");
        }
        if let Some(value) = self.labels.get(key) {
            return Label::Is(value);
        }
        let Some(allowed) = self.requirements.get(key) else {
            return Label::Absent;
        };
        if is_absence(allowed) {
            return Label::Absent;
        }
        Label::Among {
            allowed: Cow::Borrowed(allowed),
            always_present: !allowed.complement || self.is_declared(key),
        }
    }

    /// Whether the node certainly lacks this label.
    pub(crate) fn is_without(&self, key: &str) -> bool {
        self.requirements
            .get(labels::normalized(key))
            .is_some_and(is_absence)
    }

    /// Whether the NodePool's requirements make nodes carry this label. A requirement that only demands absence, or
    /// other values, does not.
    fn is_declared(&self, key: &str) -> bool {
        self.pool.is_some_and(|pool| {
            pool.template.requirements.iter().any(|declared| {
                labels::normalized(&declared.key) == key
                    && !matches!(declared.operator, Operator::NotIn | Operator::DoesNotExist)
            })
        })
    }

    /// All possible values of a label; `None` if the values cannot be enumerated.
    pub(crate) fn domains(&self, key: &str) -> Option<Vec<&str>> {
        if key == labels::HOSTNAME {
            return Some(vec![self.name]);
        }
        if let Some(value) = self.labels.get(key) {
            return Some(vec![value]);
        }
        let own = self.requirements.get(key);
        if own.is_some_and(is_absence) {
            return Some(Vec::new());
        }
        let values = self.catalog.values(key);
        let mut domains: Vec<&str> = values
            .listed
            .iter()
            .filter(|(value, _)| own.is_none_or(|own| own.has(value)))
            .filter(|(_, offerings)| offerings.overlaps(&self.offers))
            .map(|(value, _)| *value)
            .collect();
        let is_open = self.offers.overlaps(&values.open);
        let listed = own.filter(|own| !own.complement);
        match listed {
            Some(own) if is_open || self.offers.overlaps(&values.silent) => {
                domains.extend(own.values.iter().map(String::as_str));
                domains.sort_unstable();
                domains.dedup();
            }
            None if is_open || own.is_some() && self.offers.overlaps(&values.silent) => {
                return None;
            }
            _ => {}
        }
        Some(domains)
    }
}

fn is_about_type(requirement: &NodeSelectorRequirement) -> bool {
    labels::normalized(&requirement.key) == labels::INSTANCE_TYPE
}
