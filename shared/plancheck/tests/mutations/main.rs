//! A valid plan passes. Each mutation is reported at the decision that it invalidates, and only invalid decisions are
//! dropped.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the cluster and the plan are written down here"
)]

mod affinity_groups;
mod allowed;
mod budgeted;
mod cluster;
mod counting;
mod devices;
mod dropping;
mod existing_nodes;
mod few;
mod fitting;
mod given;
mod launching;
mod moving;
mod placing;
mod ports;
mod removing;
mod repairing;
mod spreading;
mod together;

use cluster::*;
use model::{
    Action, CapacityType, NanosPerHour, Plan, Resources, Snapshot,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    ledger::{Command, CommandState, Intent, IntentState},
    node::ConditionStatus,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, NodePool},
    plan::{Expected, Launch, NodeClaimUpdate, Target},
    pod::{NodeSelectorTerm, Pod, PodPhase},
    selector::Operator,
    snapshot::PodDisruptionBudget,
};
use plancheck::{Subject, Violation, check, filter};

struct World {
    snapshot: Snapshot,
    plan: Plan,
}

impl World {
    fn valid() -> Self {
        let snapshot = snapshot();
        let plan = plan(&snapshot);
        Self { snapshot, plan }
    }

    /// Texts of the plan's violations.
    fn refusals(&self) -> Vec<String> {
        let violations = check(&self.snapshot, &self.plan);
        violations
            .into_iter()
            .map(|violation| violation.text)
            .collect()
    }

    fn launch(&mut self, index: usize) -> &mut Launch {
        let action = &mut self.plan.actions[index].action;
        let Action::Launch(launch) = action else {
            panic!("{action:?} is no launch")
        };
        launch
    }

    fn pod(&mut self, name: &str) -> &mut Pod {
        self.snapshot
            .pods
            .iter_mut()
            .find(|pod| pod.key.name == name)
            .unwrap()
    }

    /// Changes the DaemonSet's template and all of its pods.
    fn daemon(&mut self, change: impl Fn(&mut Pod)) {
        let running = self.snapshot.pods.iter_mut();
        running.filter(|pod| pod.owner.is_some()).for_each(&change);
        change(&mut self.snapshot.daemon_sets[0].pod);
    }

    fn pool(&mut self, name: &str) -> &mut NodePool {
        self.snapshot
            .node_pools
            .iter_mut()
            .find(|pool| pool.name.as_str() == name)
            .unwrap()
    }

    fn claim(&mut self, name: &str) -> &mut NodeClaim {
        self.snapshot
            .node_claims
            .iter_mut()
            .find(|claim| claim.name.as_str() == name)
            .unwrap()
    }

    fn node(&mut self, name: &str) -> &mut model::node::Node {
        self.snapshot
            .nodes
            .iter_mut()
            .find(|node| node.name.as_str() == name)
            .unwrap()
    }

    fn delete_target(&mut self) -> &mut Target {
        let action = &mut self.plan.actions[DELETE].action;
        let Action::DeleteNodeClaim(target) = action else {
            panic!("{action:?} is no delete")
        };
        target
    }

    fn update(&mut self, index: usize) -> &mut NodeClaimUpdate {
        let action = &mut self.plan.actions[index].action;
        let Action::UpdateNodeClaim(update) = action else {
            panic!("{action:?} is no update")
        };
        update
    }

    /// Restricts the launch to this instance type and adjusts the expected price.
    fn only_type(&mut self, index: usize, name: &str) {
        let launch = self.launch(index);
        let (pool, zone) = (launch.node_pool.0.clone(), launch.cheapest.zone.clone());
        let pods: Vec<String> = launch.pods.iter().map(|pod| pod.key.name.clone()).collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let requirements = [
            one_of(INSTANCE_TYPE, &[name]),
            one_of(ZONE, &[&zone]),
            one_of(CAPACITY_TYPE, &["on-demand"]),
        ];
        let launch_name = launch.name.0.clone();
        self.plan.actions[index] =
            launch_of(&self.snapshot, &launch_name, &pool, &requirements, &pods);
    }
}

use cluster::launch as launch_of;

/// Name of the mutation, the mutation, the subject of the expected violation, and part of its text.
type Mutation = (&'static str, fn(&mut World), Subject, &'static str);

const fn at(index: usize) -> Subject {
    Subject::Action(index)
}

fn mutations() -> impl Iterator<Item = &'static Mutation> {
    [
        placing::MUTATIONS,
        launching::MUTATIONS,
        fitting::MUTATIONS,
        together::MUTATIONS,
        removing::MUTATIONS,
        budgeted::MUTATIONS,
        existing_nodes::MUTATIONS,
    ]
    .into_iter()
    .flatten()
}

fn term(requirements: &[model::selector::NodeSelectorRequirement]) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: requirements.to_vec(),
        match_fields: Vec::new(),
    }
}

fn intent(launch: Launch) -> Intent {
    let launch = Launch {
        name: if launch.name.as_str() == "claim-n-3" {
            launch.name
        } else {
            "on-its-way".into()
        },
        ..launch
    };
    Intent {
        plan: "p".into(),
        generation: 1,
        launch,
        state: IntentState::Intended,
        lease: None,
        committed_at: now(),
    }
}

fn make_unavailable(world: &mut World, name: &str, zone: &str) {
    for types in world.snapshot.instance_types.values_mut() {
        let types = std::sync::Arc::make_mut(types);
        let instance_type = types
            .iter_mut()
            .find(|instance_type| instance_type.name == name)
            .unwrap();
        let offerings = instance_type.offerings.iter_mut();
        for offering in offerings.filter(|offering| {
            offering.zone == zone && offering.capacity_type == CapacityType::OnDemand
        }) {
            offering.available = false;
        }
    }
}

#[test]
fn valid_plan_passes_unchanged() {
    let World { snapshot, plan } = World::valid();
    let violations: Vec<String> = check(&snapshot, &plan)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(violations, Vec::<String>::new());
    let checked = filter(&snapshot, plan.clone());
    assert_eq!((checked.plan, checked.refused.len()), (plan, 0));
}

#[test]
fn every_mutation_is_reported_at_its_decision() {
    let mut missed = String::new();
    for (name, mutate, subject, text) in mutations() {
        let mut world = World::valid();
        mutate(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        let is_it =
            |violation: &Violation| violation.subject == *subject && violation.text.contains(text);
        if !violations.iter().any(is_it) {
            let found: Vec<String> = violations.iter().map(ToString::to_string).collect();
            missed += &format!("{name}: expected {subject}: …{text}…, found {found:#?}\n");
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

#[test]
fn filtered_plan_is_valid_and_most_of_the_original() {
    for (name, mutate, ..) in mutations() {
        let mut world = World::valid();
        mutate(&mut world);
        let actions = world.plan.actions.len();
        let checked = filter(&world.snapshot, world.plan);
        assert_eq!(check(&world.snapshot, &checked.plan), [], "{name}");
        assert!(!checked.refused.is_empty(), "{name}");
        assert!(
            checked.plan.actions.len() + 6 >= actions,
            "{name}: {:#?}",
            checked.refused
        );
    }
}

#[test]
fn dependants_of_a_dropped_launch_are_dropped() {
    let mut world = World::valid();
    // The follower has affinity to a pod of another launch.
    world.pod("apart-0").labels = labels(&[("app", "leader")]);
    world.pod("follower-0").pod_affinity.required = vec![near("leader", ZONE)];
    world.launch(ZONE_A).pods.pop();
    let in_zone_a = [one_of(ZONE, &["a"]), one_of(CAPACITY_TYPE, &["on-demand"])];
    let second = launch_of(
        &world.snapshot,
        "second-in-a",
        "default",
        &in_zone_a,
        &["follower-0"],
    );
    world.plan.actions.push(second);
    assert_eq!(check(&world.snapshot, &world.plan), []);

    world.launch(ZONE_A).spec.taints = vec![taint("surprise")];
    let checked = filter(&world.snapshot, world.plan.clone());
    let refused: Vec<String> = checked
        .refused
        .iter()
        .map(|refused| refused.violations.join("; "))
        .collect();
    assert_eq!(refused.len(), 2, "{refused:#?}");
    assert!(
        refused[0].contains("its taints are not those of the NodePool"),
        "{refused:#?}"
    );
    assert!(
        refused[1].contains("follower-0 has no pod that matches its affinity"),
        "{refused:#?}"
    );
}

#[test]
fn forced_deletions_need_no_budget() {
    type Force = fn(&mut World);
    let reasons: [(&str, Force); 5] = [
        ("expired", |w| {
            w.claim("claim-n-4").spec.expire_after = Some("1h".into())
        }),
        ("never joined", |w| {
            w.claim("claim-n-4").status.conditions.clear()
        }),
        ("not ready", |w| {
            w.node("n-4").ready.status = ConditionStatus::Unknown
        }),
        ("interrupted", |w| {
            w.snapshot.notices = vec![model::ledger::Notice {
                instance: "i-n-4".into(),
                kind: "spot-interruption".into(),
                deadline: None,
                at: None,
                action: model::interruption::InterruptionAction::Drain,
                unmanaged: false,
                hook: None,
                event: String::new(),
                reboots: false,
                done: false,
            }];
        }),
        ("commanded", |w| {
            w.snapshot.commands = vec![Command {
                reboot: None,
                id: "c".into(),
                reason: "Underutilized".into(),
                delete: vec![target("claim-n-4")],
                replacements: Vec::new(),
                state: CommandState::Deleting,
                committed_at: now(),
                choice: None,
                initialized: Vec::new(),
            }];
        }),
    ];
    for (why, force) in reasons {
        let mut world = World::valid();
        world.snapshot.pods.push(running("busy-0", 100, "n-4"));
        world.pool("default").disruption.budgets[0].nodes = "0".into();
        force(&mut world);
        assert_eq!(check(&world.snapshot, &world.plan), [], "{why}");
    }
}

#[test]
fn node_in_flight_takes_pods_within_its_capacity() {
    let mut world = World::valid();
    let in_flight = intent(world.launch(ZONAL).clone());
    world.snapshot.intents = vec![in_flight];
    world.plan.nominations[1].node = Expected::NodeClaim("on-its-way".into());
    assert_eq!(check(&world.snapshot, &world.plan), []);

    // A node in flight keeps its expected offering, even if that has become unavailable.
    make_unavailable(&mut world, "m.large", "b");
    world.plan.actions.truncate(1);
    assert_eq!(check(&world.snapshot, &world.plan), []);

    world.pod("late-0").requests.set("cpu", 4_000);
    let violations = check(&world.snapshot, &world.plan);
    assert_eq!(violations.len(), 1);
    assert!(
        violations[0].text.contains("do not fit c.medium"),
        "{violations:?}"
    );
}

#[test]
fn pods_of_a_node_being_deleted_may_move() {
    let mut world = World::valid();
    let pod = pod_ref("moving-0");
    world.launch(PLAIN).pods.push(pod);
    assert_eq!(check(&world.snapshot, &world.plan), []);
}
