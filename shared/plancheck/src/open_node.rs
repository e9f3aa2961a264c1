//! Nodes that do not exist yet, and what they may become.

use std::{borrow::Cow, collections::BTreeMap};

use model::{
    InstanceType, Offering, labels,
    node_claim::NodeClaimSpec,
    node_pool::NodePool,
    plan::Launch,
    requirement::{Requirement, Requirements},
    selector::Operator,
    taint::Taint,
};

use crate::{
    label::{Label, overlap},
    world::World,
};

/// A node that does not exist yet: one of several instance types, bought in one of several ways.
pub(crate) struct OpenNode<'a> {
    pub name: &'a str,
    pub pool: Option<&'a NodePool>,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub requirements: Requirements,
    pub options: Vec<Choice<'a>>,
    reservation_label: &'a str,
}

/// An instance type that a node may become, with the offerings it may be bought as.
pub(crate) struct Choice<'a> {
    pub instance_type: &'a InstanceType,
    pub offerings: Vec<&'a Offering>,
}

impl<'a> OpenNode<'a> {
    pub(crate) fn launched(world: &World<'a>, launch: &'a Launch) -> Self {
        Self::new(
            world,
            launch.name.as_str(),
            launch.node_pool.as_str(),
            &launch.labels,
            &launch.spec,
            Availability::Counts,
            |name| launch.instance_types.iter().any(|option| option == name),
        )
    }

    /// A node on its way, as what it is expected to become. `None` if there is none of that name.
    pub(crate) fn in_flight(world: &World<'a>, name: &str) -> Option<Self> {
        let known = world.in_flight.get(name)?;
        if let Some(intent) = known.intent {
            let launch = &intent.launch;
            let expected = &launch.cheapest;
            let mut node = Self::new(
                world,
                launch.name.as_str(),
                launch.node_pool.as_str(),
                &launch.labels,
                &launch.spec,
                Availability::Ignored,
                |name| name == expected.instance_type,
            );
            for choice in &mut node.options {
                choice.offerings.retain(|offering| {
                    offering.zone == expected.zone
                        && offering.capacity_type == expected.capacity_type
                });
            }
            return Some(node);
        }
        let claim = known.claim?;
        let pool = claim.labels.get(labels::NODE_POOL);
        Some(Self::new(
            world,
            claim.name.as_str(),
            pool.map_or("", String::as_str),
            &claim.labels,
            &claim.spec,
            Availability::Ignored,
            |_| true,
        ))
    }

    fn new(
        world: &World<'a>,
        name: &'a str,
        pool: &str,
        labels: &'a BTreeMap<String, String>,
        spec: &'a NodeClaimSpec,
        availability: Availability,
        is_listed: impl Fn(&str) -> bool,
    ) -> Self {
        let snapshot = world.snapshot;
        let mut node = Self {
            name,
            pool: world.pools.get(pool).copied(),
            labels,
            taints: &spec.taints,
            requirements: Requirements::from_selector(&spec.requirements),
            options: Vec::new(),
            reservation_label: snapshot.settings.reservation_id_label.as_str(),
        };
        let types: &'a [InstanceType] = snapshot
            .instance_types
            .get(&pool.into())
            .map_or(&[], |types| types.as_slice());
        node.options = types
            .iter()
            .filter(|instance_type| is_listed(&instance_type.name) && node.suits(instance_type))
            .map(|instance_type| Choice {
                instance_type,
                offerings: instance_type
                    .offerings
                    .iter()
                    .filter(|offering| {
                        (offering.available || availability == Availability::Ignored)
                            && node.is_offered_as(offering)
                    })
                    .collect(),
            })
            .filter(|choice| !choice.offerings.is_empty())
            .collect();
        node
    }

    /// Whether the node's requirements leave the type possible.
    pub(crate) fn suits(&self, instance_type: &InstanceType) -> bool {
        self.suits_but_for(instance_type, &[])
    }

    pub(crate) fn suits_but_for(&self, instance_type: &InstanceType, ignored: &[&str]) -> bool {
        self.requirements.0.values().all(|wanted| {
            ignored.contains(&wanted.key.as_str())
                || instance_type
                    .requirements
                    .get(&wanted.key)
                    .is_none_or(|own| {
                        overlap(own, wanted) || is_negative(own) && is_negative(wanted)
                    })
        })
    }

    /// Whether the node's requirements leave the offering possible.
    pub(crate) fn is_offered_as(&self, offering: &Offering) -> bool {
        self.is_offered_but_for(offering, &[])
    }

    pub(crate) fn is_offered_but_for(&self, offering: &Offering, ignored: &[&str]) -> bool {
        self.requirements.0.values().all(|wanted| {
            let key = wanted.key.as_str();
            ignored.contains(&key)
                || match self.of_offering(offering, key) {
                    Some(Some(value)) => wanted.has(value),
                    Some(None) => is_negative(wanted),
                    None => offering
                        .requirements
                        .get(key)
                        .is_none_or(|own| overlap(own, wanted)),
                }
        })
    }

    /// The value an offering gives a label: `Some(None)` where it says that there is none, `None` where it says nothing.
    fn of_offering<'o>(&self, offering: &'o Offering, key: &str) -> Option<Option<&'o str>> {
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

    /// What a label may be once the node is launched as this.
    pub(crate) fn label<'p>(
        &'p self,
        key: &str,
        choice: &'p Choice<'a>,
        offering: &'p Offering,
    ) -> Label<'p> {
        let key = labels::normalized(key);
        match self.of_offering(offering, key) {
            Some(Some(value)) => return Label::Is(value),
            Some(None) => return Label::Absent,
            None => {}
        }
        let own = self.label_of_all(key);
        let sources = [
            choice.instance_type.requirements.get(key),
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
                    surely_there: true,
                },
                Label::Among { allowed, .. } => Label::Among {
                    allowed: Cow::Owned(allowed.intersection(known)),
                    surely_there: true,
                },
            }
        })
    }

    /// What a label may be, whatever is launched.
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
            surely_there: !allowed.complement || self.is_declared(key),
        }
    }

    /// Whether the NodePool gives its nodes this label. What only a pod asked not to be there is not given by that.
    fn is_declared(&self, key: &str) -> bool {
        self.pool.is_some_and(|pool| {
            pool.template.requirements.iter().any(|declared| {
                labels::normalized(&declared.key) == key
                    && !matches!(declared.operator, Operator::NotIn | Operator::DoesNotExist)
            })
        })
    }

    /// Every value a label may turn out to have; `None` where they cannot be listed.
    pub(crate) fn domains(&self, key: &str) -> Option<Vec<&str>> {
        if key == labels::HOSTNAME {
            return Some(vec![self.name]);
        }
        let mut values: Vec<&str> = Vec::new();
        for choice in &self.options {
            for offering in &choice.offerings {
                match self.of_offering(offering, key) {
                    Some(Some(value)) => values.push(value),
                    Some(None) => {}
                    None => self.push_values(key, choice, offering, &mut values)?,
                }
            }
            // Equal values pile up, by offering and by type.
            values.sort_unstable();
            values.dedup();
        }
        Some(values)
    }

    fn push_values<'p>(
        &'p self,
        key: &str,
        choice: &'p Choice<'a>,
        offering: &'p Offering,
        values: &mut Vec<&'p str>,
    ) -> Option<()> {
        if let Some(value) = self.labels.get(key) {
            values.push(value);
            return Some(());
        }
        let sources = [
            self.requirements.get(key),
            choice.instance_type.requirements.get(key),
            offering.requirements.get(key),
        ];
        let known: Vec<&Requirement> = sources.into_iter().flatten().collect();
        if known.is_empty() || known.iter().any(|known| is_absence(known)) {
            return Some(());
        }
        let listed = known.iter().find(|known| !known.complement)?;
        let is_allowed = |value: &&String| known.iter().all(|known| known.has(value));
        values.extend(listed.values.iter().filter(is_allowed).map(String::as_str));
        Some(())
    }
}

/// Whether what offers there are now matters: what was decided earlier stays decided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Availability {
    Counts,
    Ignored,
}

/// Whether a requirement says that the label is not there.
fn is_absence(requirement: &Requirement) -> bool {
    requirement.operator() == Operator::DoesNotExist
}

/// Whether a requirement holds where the label is not there.
fn is_negative(requirement: &Requirement) -> bool {
    matches!(
        requirement.operator(),
        Operator::DoesNotExist | Operator::NotIn
    )
}
