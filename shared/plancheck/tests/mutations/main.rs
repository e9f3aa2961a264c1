//! A valid plan passes; every way of spoiling it is caught, at the decision it spoils, and only what is spoiled is dropped.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the cluster and the plan are written down here"
)]

mod allowed;
mod budgeted;
mod cluster;
mod counting;
mod devices;
mod dropping;
mod few;
mod fitting;
mod given;
mod herds;
mod launching;
mod moving;
mod placing;
mod ports;
mod removing;
mod repairing;
mod spreading;
mod standing;
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
use plancheck::{Offence, Subject, check, filter};

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

    /// What the checker says of the plan.
    fn refusals(&self) -> Vec<String> {
        let offences = check(&self.snapshot, &self.plan);
        offences.into_iter().map(|offence| offence.text).collect()
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

    /// Changes what the DaemonSet runs, everywhere.
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

    /// Makes the launch one that must become this type, with matching figures.
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

/// What spoils the plan, where that must be noticed, and with which words.
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
        standing::MUTATIONS,
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
        let instance_type = types.iter_mut().find(|one| one.name == name).unwrap();
        let offerings = instance_type.offerings.iter_mut();
        for offering in
            offerings.filter(|one| one.zone == zone && one.capacity_type == CapacityType::OnDemand)
        {
            offering.available = false;
        }
    }
}

#[test]
fn a_valid_plan_passes_whole() {
    let World { snapshot, plan } = World::valid();
    let offences: Vec<String> = check(&snapshot, &plan)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(offences, Vec::<String>::new());
    let checked = filter(&snapshot, plan.clone());
    assert_eq!((checked.plan, checked.refused.len()), (plan, 0));
}

#[test]
fn every_mutation_is_caught_where_it_is() {
    let mut missed = String::new();
    for (name, mutate, subject, text) in mutations() {
        let mut world = World::valid();
        mutate(&mut world);
        let offences = check(&world.snapshot, &world.plan);
        let is_it = |offence: &Offence| offence.subject == *subject && offence.text.contains(text);
        if !offences.iter().any(is_it) {
            let found: Vec<String> = offences.iter().map(ToString::to_string).collect();
            missed += &format!("{name}: expected {subject}: …{text}…, found {found:#?}\n");
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

#[test]
fn what_is_left_after_dropping_offences_is_valid_and_most_of_the_plan() {
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
fn what_depends_on_a_dropped_launch_goes_with_it() {
    let mut world = World::valid();
    // The follower wants to be near a pod that only another launch brings.
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
        .map(|refused| refused.offences.join("; "))
        .collect();
    assert_eq!(refused.len(), 2, "{refused:#?}");
    assert!(
        refused[0].contains("its taints are not those of the NodePool"),
        "{refused:#?}"
    );
    assert!(
        refused[1].contains("follower-0 has no pod that it wants to be near"),
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
                course: model::interruption::Course::Drain,
                foreign: false,
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
fn a_node_on_its_way_takes_pods_and_has_its_limits() {
    let mut world = World::valid();
    let on_its_way = intent(world.launch(ZONAL).clone());
    world.snapshot.intents = vec![on_its_way];
    world.plan.nominations[1].node = Expected::NodeClaim("on-its-way".into());
    assert_eq!(check(&world.snapshot, &world.plan), []);

    // What was decided stays possible, even if it could not be bought now.
    make_unavailable(&mut world, "m.large", "b");
    world.plan.actions.truncate(1);
    assert_eq!(check(&world.snapshot, &world.plan), []);

    world.pod("late-0").requests.set("cpu", 4_000);
    let offences = check(&world.snapshot, &world.plan);
    assert_eq!(offences.len(), 1);
    assert!(
        offences[0].text.contains("do not fit c.medium"),
        "{offences:?}"
    );
}

#[test]
fn pods_of_a_leaving_node_may_move() {
    let mut world = World::valid();
    let pod = pod_ref("moving-0");
    world.launch(PLAIN).pods.push(pod);
    assert_eq!(check(&world.snapshot, &world.plan), []);
}
