//! Each launch on its own: its NodePool, its NodeClaim and the instance types it may become.

use std::collections::BTreeSet;

use model::{
    Action, Plan, labels, node_pool::NodePool, plan::Launch, requirement::Requirements,
    selector::Operator, snapshot::MinValuesPolicy,
};

use crate::{
    Findings, Subject,
    label::is_within,
    open_node::OpenNode,
    place::{Place, Placements},
    world::World,
};

/// Upper bound on a NodeClaim's requirements, enforced by the API server (docs/spec/scheduling.md#node-claim).
const REQUIREMENTS_MAX: usize = 100;

pub(crate) fn check<'a>(
    world: &World<'a>,
    plan: &Plan,
    placements: &Placements<'a>,
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
            plan,
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
    plan: &'c Plan,
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
        if pool.replicas.is_some() {
            return self.static_pool_does_not_grow(pool);
        }
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
        if pool.uid != self.launch.node_pool_uid {
            self.problem(format!(
                "NodePool {name} was recreated: its uid is {}, not {}",
                pool.uid, self.launch.node_pool_uid
            ));
        }
    }

    /// A static NodePool launches one node per node that the plan deletes, and none for pods
    /// (docs/spec/lifecycle.md#static-drift).
    fn static_pool_does_not_grow(&mut self, pool: &NodePool) {
        let actions = || self.plan.actions.iter().map(|planned| &planned.action);
        let launched = actions().filter(
            |action| matches!(action, Action::Launch(launch) if launch.node_pool == pool.name),
        );
        let taken = actions().filter(|action| match action {
            Action::DeleteNodeClaim(target) => {
                let index = self.world.machine_of_claim.get(target.name.as_str());
                let machine = index.and_then(|index| self.world.machines.get(*index));
                machine.is_some_and(|machine| machine.node_pool() == Some(pool.name.as_str()))
            }
            Action::Launch(_)
            | Action::Reboot(_)
            | Action::UpdateNode(_)
            | Action::UpdateNodeClaim(_)
            | Action::Evict { .. }
            | Action::DeletePod { .. }
            | Action::Terminate { .. } => false,
        });
        if !self.launch.pods.is_empty() || launched.count() > taken.count() {
            self.problem(format!(
                "NodePool {} is static: it does not grow for pods",
                pool.name
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

    /// Every outcome of the launch must satisfy the NodePool's requirements.
    fn requirements_stay_within(&mut self, pool: &NodePool) {
        let pool_wants = Requirements::from_selector(&pool.template.requirements);
        for wanted in pool_wants.0.values() {
            let is_kept = match (
                self.node.requirements.get(&wanted.key),
                self.node.labels.get(&wanted.key),
            ) {
                (Some(own), _) => is_within(own, wanted),
                (None, Some(value)) => wanted.has(value),
                // The node does not specify the key, so every type must satisfy it.
                (None, None) => self.node.types().all(|(_, instance_type)| {
                    let own = instance_type.requirements.get(&wanted.key);
                    own.is_some_and(|own| is_within(own, wanted))
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
            // A label that contradicts its own NodePool leaves the key without any value
            // (docs/spec/scheduling.md#contradicting-label).
            let named = self
                .node
                .requirements
                .get(key)
                .filter(|own| own.complement || !own.values.is_empty());
            if named.is_some_and(|own| !own.has(value)) {
                self.problem(format!(
                    "its label {key}={value} contradicts its requirements"
                ));
            }
        }
    }

    fn options_are_possible(&mut self) {
        let (launch, node) = (self.launch, self.node);
        let count = launch.instance_types.len();
        if count == 0 {
            return self.problem("no instance type is left".to_owned());
        }
        if count > Launch::INSTANCE_TYPES_MAX {
            let most = Launch::INSTANCE_TYPES_MAX;
            self.problem(format!(
                "{count} instance types are left, and {most} are possible"
            ));
        }
        if node.listed.iter().count() + node.unknown.len() < count {
            self.problem("an instance type is listed twice".to_owned());
        }
        for name in &node.unknown {
            self.problem(format!(
                "instance type {name} is not among those of the NodePool"
            ));
        }
        if node.options.is_empty() {
            return self.problem("none of its instance types can be bought".to_owned());
        }
        for index in node
            .listed
            .iter()
            .filter(|index| !node.options.contains(*index))
        {
            self.impossible_option(index);
        }
        self.instance_type_requirement();
    }

    /// Reports why a listed type cannot be launched. Types are listed before a reservation is chosen, so the
    /// requirements that follow from that choice are ignored.
    fn impossible_option(&mut self, index: usize) {
        let reservation_label = self.world.snapshot.settings.reservation_id_label.as_str();
        let late = [labels::CAPACITY_TYPE, reservation_label];
        let ignored: &[&str] = if self.is_reserved() { &late } else { &[] };
        let name = self
            .node
            .catalog
            .get(index)
            .map_or("", |instance_type| instance_type.name.as_str());
        match self.node.satisfies_except(index, ignored) {
            (false, _) => {
                self.problem(format!(
                    "instance type {name} does not satisfy the node's requirements"
                ));
            }
            (true, false) => self.problem(format!(
                "instance type {name} has no available offering for the node's requirements"
            )),
            (true, true) => {}
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

    /// The NodeClaim's requirement on the instance type must list exactly the types of the plan.
    fn instance_type_requirement(&mut self) {
        let requirements = &self.launch.spec.requirements;
        let mut named = requirements
            .iter()
            .filter(|requirement| labels::normalized(&requirement.key) == labels::INSTANCE_TYPE);
        let lists_types = match (named.next(), named.next()) {
            (Some(named), None) if named.operator == Operator::In => {
                let listed = self.node.catalog.names(&self.node.listed);
                if named.values.is_sorted() {
                    listed.eq(&named.values)
                } else {
                    let named: BTreeSet<&str> = named.values.iter().map(String::as_str).collect();
                    listed.eq(named)
                }
            }
            _ => false,
        };
        if !lists_types {
            let key = labels::INSTANCE_TYPE;
            self.problem(format!(
                "its requirement on {key} does not list its instance types"
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
            // Includes types that cannot be bought any more because a reservation was chosen later.
            let types = self
                .node
                .listed
                .iter()
                .filter_map(|index| self.node.catalog.get(index));
            let values: BTreeSet<&str> = types
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

    fn cheapest_is_an_option(&mut self) {
        let (expected, node) = (&self.launch.cheapest, self.node);
        let surcharge = self.world.surcharge(Some(self.launch.node_pool.as_str()));
        let at = node.catalog.index_of(&expected.instance_type);
        let is_option = at
            .filter(|index| node.options.contains(*index))
            .is_some_and(|index| {
                node.offerings(index).any(|offering| {
                    offering.zone == expected.zone
                        && offering.capacity_type == expected.capacity_type
                        && offering.price.plus(surcharge) == expected.price
                })
            });
        if !is_option {
            self.problem(format!(
                "its cheapest offering, {} {} in {} for {} $/h, is none of its options",
                expected.instance_type, expected.capacity_type, expected.zone, expected.price
            ));
            return;
        }
        let offers = node
            .offers
            .iter()
            .filter_map(|index| node.catalog.offering(index));
        let cheapest = offers.map(|offering| offering.price.plus(surcharge)).min();
        if let Some(cheapest) = cheapest.filter(|price| *price < expected.price) {
            self.problem(format!(
                "its cheapest offering is counted with {} $/h, but one costs {cheapest} $/h",
                expected.price
            ));
        }
    }
}
