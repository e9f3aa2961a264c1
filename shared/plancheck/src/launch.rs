//! Each launch by itself: its NodePool, what its NodeClaim says, and the instance types it may become.

use std::collections::BTreeSet;

use model::{
    Action, InstanceType, Plan, labels, node_pool::NodePool, plan::Launch,
    requirement::Requirements, snapshot::MinValuesPolicy,
};

use crate::{
    Findings, Subject,
    label::is_within,
    open_node::OpenNode,
    place::{Place, Placements},
    world::World,
};

/// The API server takes no NodeClaim with more (spec/scheduling §3.3).
const REQUIREMENTS_MAX: usize = 100;

pub(crate) fn check(
    world: &World<'_>,
    plan: &Plan,
    placements: &Placements<'_>,
    findings: &mut Findings,
) {
    for (index, place) in &placements.launches {
        let (Some(planned), Some(Place::Open(node))) =
            (plan.actions.get(*index), placements.places.get(*place))
        else {
            continue;
        };
        let Action::Launch(launch) = &planned.action else {
            continue;
        };
        let mut problems = Vec::new();
        Check {
            world,
            launch,
            node,
            problems: &mut problems,
        }
        .run();
        for problem in problems {
            findings.add(
                Subject::Action(*index),
                format!("NodeClaim {}: {problem}", launch.name),
            );
        }
    }
}

struct Check<'c, 'a> {
    world: &'c World<'a>,
    launch: &'c Launch,
    node: &'c OpenNode<'a>,
    problems: &'c mut Vec<String>,
}

impl Check<'_, '_> {
    fn run(&mut self) {
        let Some(pool) = self.node.pool else {
            return self.problem(format!("NodePool {} does not exist", self.launch.node_pool));
        };
        self.pool_is_usable(pool);
        self.template_is_followed(pool);
        self.requirements_stay_within(pool);
        self.options_are_possible();
        self.min_values_are_met(pool);
        self.cheapest_is_an_option();
    }

    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    fn pool_is_usable(&mut self, pool: &NodePool) {
        let name = &pool.name;
        if let Some(why) = &pool.not_ready {
            self.problem(format!("NodePool {name} is not ready: {why}"));
        }
        if pool.deleted_at.is_some() {
            self.problem(format!("NodePool {name} is being deleted"));
        }
        if pool.replicas.is_some() {
            self.problem(format!(
                "NodePool {name} is static: it does not grow for pods"
            ));
        }
        if pool.uid != self.launch.node_pool_uid {
            self.problem(format!(
                "NodePool {name} is another one: its uid is {}, not {}",
                pool.uid, self.launch.node_pool_uid
            ));
        }
    }

    fn template_is_followed(&mut self, pool: &NodePool) {
        let (spec, template) = (&self.launch.spec, &pool.template);
        if spec.node_class != template.node_class {
            self.problem(format!(
                "its NodeClass is {}, the NodePool's {}",
                spec.node_class.name, template.node_class.name
            ));
        }
        if spec.taints != template.taints {
            self.problem("its taints are not those of the NodePool".to_owned());
        }
        if spec.startup_taints != template.startup_taints {
            self.problem("its startup taints are not those of the NodePool".to_owned());
        }
        if self.launch.labels.get(labels::NODE_POOL) != Some(&pool.name.0) {
            self.problem(format!(
                "its label {} does not name its NodePool",
                labels::NODE_POOL
            ));
        }
        let missing: Vec<&str> = template
            .labels
            .iter()
            .filter(|(key, value)| self.launch.labels.get(*key) != Some(*value))
            .map(|(key, _)| key.as_str())
            .collect();
        for key in missing {
            self.problem(format!("it lacks the NodePool's label {key}"));
        }
        if spec.requirements.len() > REQUIREMENTS_MAX {
            self.problem(format!(
                "it has {} requirements, and {REQUIREMENTS_MAX} are possible",
                spec.requirements.len()
            ));
        }
    }

    /// Whatever the node becomes, it must be a node the NodePool allows.
    fn requirements_stay_within(&mut self, pool: &NodePool) {
        let pool_wants = Requirements::from_selector(&pool.template.requirements);
        for wanted in pool_wants.0.values() {
            let is_kept = match (
                self.node.requirements.get(&wanted.key),
                self.node.labels.get(&wanted.key),
            ) {
                (Some(own), _) => is_within(own, wanted),
                (None, Some(value)) => wanted.has(value),
                // Not said of the node: each option must keep it.
                (None, None) => self.node.options.iter().all(|choice| {
                    choice
                        .instance_type
                        .requirements
                        .get(&wanted.key)
                        .is_some_and(|own| is_within(own, wanted))
                }),
            };
            if !is_kept {
                self.problem(format!(
                    "it may be a node that the NodePool's requirement on {} forbids",
                    wanted.key
                ));
            }
        }
        for (key, value) in &self.launch.labels {
            // A label that contradicts its own NodePool leaves the key without any value (spec/scheduling, refinement 5).
            let said = self
                .node
                .requirements
                .get(key)
                .filter(|own| own.complement || !own.values.is_empty());
            if said.is_some_and(|own| !own.has(value)) {
                self.problem(format!(
                    "its label {key}={value} contradicts its requirements"
                ));
            }
        }
    }

    fn options_are_possible(&mut self) {
        let launch = self.launch;
        let listed: BTreeSet<&str> = launch.instance_types.iter().map(String::as_str).collect();
        if listed.is_empty() {
            return self.problem("no instance type is left".to_owned());
        }
        if launch.instance_types.len() > Launch::INSTANCE_TYPES_MAX {
            self.problem(format!(
                "{} instance types are left, and {} are possible",
                launch.instance_types.len(),
                Launch::INSTANCE_TYPES_MAX
            ));
        }
        if listed.len() != launch.instance_types.len() {
            self.problem("an instance type is listed twice".to_owned());
        }
        let possible: BTreeSet<&str> = self
            .node
            .options
            .iter()
            .map(|choice| choice.instance_type.name.as_str())
            .collect();
        if possible.is_empty() {
            return self.problem("none of its instance types can be bought".to_owned());
        }
        for name in listed.difference(&possible) {
            self.impossible_option(name);
        }
        self.instance_type_requirement(&listed);
    }

    /// Says why a listed type cannot be launched, unless a reservation was chosen after the types were.
    fn impossible_option(&mut self, name: &str) {
        let Some(instance_type) = self
            .world
            .instance_type(self.launch.node_pool.as_str(), name)
        else {
            return self.problem(format!(
                "instance type {name} is not among those of the NodePool"
            ));
        };
        let reservation_label = self.world.snapshot.settings.reservation_id_label.as_str();
        let late = [labels::CAPACITY_TYPE, reservation_label];
        let ignored: &[&str] = if self.is_reserved() { &late } else { &[] };
        if !self.node.suits_but_for(instance_type, ignored) {
            self.problem(format!(
                "instance type {name} does not satisfy the node's requirements"
            ));
        } else if !instance_type
            .offerings
            .iter()
            .any(|offering| offering.available && self.node.is_offered_but_for(offering, ignored))
        {
            self.problem(format!(
                "instance type {name} has no available offering for the node's requirements"
            ));
        }
    }

    fn is_reserved(&self) -> bool {
        self.node
            .requirements
            .get(labels::CAPACITY_TYPE)
            .is_some_and(|wanted| {
                !wanted.complement && wanted.values.iter().all(|value| value == "reserved")
            })
    }

    /// The NodeClaim tells EC2 which types may be launched: exactly those that were checked.
    fn instance_type_requirement(&mut self, listed: &BTreeSet<&str>) {
        let said = self.node.requirements.get(labels::INSTANCE_TYPE);
        let is_told = said.is_some_and(|said| {
            !said.complement
                && said
                    .values
                    .iter()
                    .map(String::as_str)
                    .eq(listed.iter().copied())
        });
        if !is_told {
            self.problem(format!(
                "its requirement on {} does not list its instance types",
                labels::INSTANCE_TYPE
            ));
        }
    }

    fn min_values_are_met(&mut self, pool: &NodePool) {
        if self.world.snapshot.settings.min_values_policy == MinValuesPolicy::BestEffort {
            return;
        }
        for wanted in &pool.template.requirements {
            let Some(floor) = wanted.min_values else {
                continue;
            };
            let key = labels::normalized(&wanted.key);
            let values: BTreeSet<&str> = self
                .listed_types()
                .filter_map(|instance_type| instance_type.requirements.get(key))
                .filter(|own| !own.complement)
                .flat_map(|own| own.values.iter().map(String::as_str))
                .collect();
            let reached = u32::try_from(values.len()).unwrap_or(u32::MAX);
            if reached < floor {
                self.problem(format!(
                    "its instance types have {reached} values of {key}, minValues is {floor}"
                ));
            }
        }
    }

    /// What the launch lists, whether or not it can still be bought.
    fn listed_types(&self) -> impl Iterator<Item = &InstanceType> {
        let listed: BTreeSet<&str> = self
            .launch
            .instance_types
            .iter()
            .map(String::as_str)
            .collect();
        let types = self
            .world
            .snapshot
            .instance_types
            .get(&self.launch.node_pool);
        types
            .into_iter()
            .flat_map(|types| types.iter())
            .filter(move |instance_type| listed.contains(instance_type.name.as_str()))
    }

    fn cheapest_is_an_option(&mut self) {
        let expected = &self.launch.cheapest;
        let choice = self
            .node
            .options
            .iter()
            .find(|choice| choice.instance_type.name == expected.instance_type);
        let offering = choice.and_then(|choice| {
            choice.offerings.iter().find(|offering| {
                offering.zone == expected.zone
                    && offering.capacity_type == expected.capacity_type
                    && offering.price == expected.price
            })
        });
        if offering.is_none() {
            self.problem(format!(
                "its cheapest offering, {} {} in {} for {} $/h, is none of its options",
                expected.instance_type, expected.capacity_type, expected.zone, expected.price
            ));
            return;
        }
        let cheapest = self
            .node
            .options
            .iter()
            .flat_map(|choice| &choice.offerings)
            .map(|offering| offering.price)
            .min();
        if let Some(cheapest) = cheapest.filter(|price| *price < expected.price) {
            self.problem(format!(
                "its cheapest offering is counted with {} $/h, but one costs {cheapest} $/h",
                expected.price
            ));
        }
    }
}
