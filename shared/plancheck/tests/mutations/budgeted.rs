//! PodDisruptionBudgets and NodePool budgets that block disruption, and disruption that they do not block.

use super::{allowed::make_static, *};

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "a finished notice forces nothing",
        |w| {
            w.pool("default").disruption.budgets[0].nodes = "0".into();
            w.snapshot.notices = vec![notice("i-n-4", true)];
        },
        at(DELETE),
        "one more than the budgets",
    ),
    (
        "a notice of another instance forces nothing",
        |w| {
            w.pool("default").disruption.budgets[0].nodes = "0".into();
            w.snapshot.notices = vec![notice("i-other", false)];
        },
        at(DELETE),
        "one more than the budgets",
    ),
    (
        "a command that is over forces nothing",
        |w| {
            w.pool("default").disruption.budgets[0].nodes = "0".into();
            w.snapshot.commands = vec![command("claim-n-4", CommandState::RolledBack)];
        },
        at(DELETE),
        "one more than the budgets",
    ),
    (
        "a command about another node forces nothing",
        |w| {
            w.pool("default").disruption.budgets[0].nodes = "0".into();
            w.snapshot.commands = vec![command("claim-n-3", CommandState::Deleting)];
        },
        at(DELETE),
        "one more than the budgets",
    ),
    (
        "two nodes are deleted where the budget allows one",
        |w| {
            add_node(&mut w.snapshot, "n-5", "c");
            let second = model::plan::Planned {
                action: Action::DeleteNodeClaim(target("claim-n-5")),
                because: "it is empty, too".into(),
            };
            w.plan.actions.push(second);
        },
        at(14),
        "one more than the budgets",
    ),
    (
        "a drifted node without a grace period waits for protected pods",
        |w| {
            drift(w, None);
            w.pod("logs-n-4").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]);
        },
        at(DELETE),
        "which carries the annotation",
    ),
    (
        "a budget keeps a pod that is ready, whatever it says of others",
        |w| {
            budget(w, |budget| budget.always_allow_unhealthy = true);
        },
        at(DELETE),
        "which a disruption budget keeps",
    ),
    (
        "a budget keeps a pod that is not ready unless it says otherwise",
        |w| {
            budget(w, |_| {});
            w.pod("busy-0").ready = false;
        },
        at(DELETE),
        "which a disruption budget keeps",
    ),
    (
        "a pod that may be evicted later needs another place, although the node drifted",
        |w| {
            drift(w, Some("1h"));
            budget(w, |budget| budget.max_unavailable = Some("1".into()));
            w.plan.nominations.pop();
        },
        at(DELETE),
        "pod default/busy-0 has no other place",
    ),
    (
        "an unhealthy pod that may be evicted needs another place",
        |w| {
            drift(w, Some("1h"));
            budget(w, |budget| {
                budget.max_unavailable = Some("0".into());
                budget.always_allow_unhealthy = true;
            });
            w.pod("busy-0").ready = false;
            w.plan.nominations.pop();
        },
        at(DELETE),
        "pod default/busy-0 has no other place",
    ),
    (
        "a node of a static NodePool is terminated first while others are missing",
        |w| {
            make_replicas(w, 3);
            w.pool("dedicated").disruption.budgets[0].nodes = "2".into();
            // No launch of the plan replaces it.
            for planned in &mut w.plan.actions {
                if let Action::Launch(launch) = &mut planned.action {
                    launch.node_pool = "default".into();
                }
            }
        },
        at(DELETE),
        "would leave 3 nodes of NodePool dedicated missing",
    ),
];

pub(crate) fn notice(instance: &str, done: bool) -> model::ledger::Notice {
    model::ledger::Notice {
        instance: instance.into(),
        kind: "spot-interruption".into(),
        deadline: None,
        at: None,
        action: model::interruption::InterruptionAction::Drain,
        unmanaged: false,
        hook: None,
        event: String::new(),
        reboots: false,
        done,
    }
}

pub(crate) fn command(claim: &str, state: CommandState) -> Command {
    Command {
        reboot: None,
        id: "c".into(),
        reason: "Underutilized".into(),
        delete: vec![target(claim)],
        replacements: Vec::new(),
        state,
        committed_at: now(),
        choice: None,
        initialized: Vec::new(),
    }
}

fn drift(w: &mut World, grace: Option<&str>) {
    let claim = w.claim("claim-n-4");
    claim.spec.termination_grace_period = grace.map(Into::into);
    let mut drifted = claim.status.conditions[0].clone();
    drifted.kind = "Drifted".into();
    claim.status.conditions.push(drifted);
}

/// Moves the deleted node to a static NodePool, for which the plan launches one node.
pub(crate) fn make_replicas(w: &mut World, replicas: i64) {
    make_static(w);
    let budgets = w.pool("default").disruption.budgets.clone();
    let pool = w.pool("dedicated");
    pool.replicas = Some(replicas);
    pool.disruption.budgets = budgets;
    let labels = &mut w.node("n-4").labels;
    labels.insert(model::labels::NODE_POOL.into(), "dedicated".into());
    let labels = &mut w.claim("claim-n-4").labels;
    labels.insert(model::labels::NODE_POOL.into(), "dedicated".into());
}

/// Runs a pod on the deleted node, moves it to another, and adds a PodDisruptionBudget that currently allows no
/// disruption.
fn budget(w: &mut World, change: impl Fn(&mut PodDisruptionBudget)) {
    w.snapshot.pods.push(running("busy-0", 100, "n-4"));
    w.plan.nominations.push(nominate("busy-0", "n-1"));
    let mut budget = PodDisruptionBudget {
        key: key("busy"),
        selector: app("busy"),
        ..PodDisruptionBudget::default()
    };
    change(&mut budget);
    w.snapshot.disruption_budgets = vec![budget];
}

#[test]
fn pod_moves_if_its_budget_allows_the_eviction() {
    type Change = (&'static str, fn(&mut World));
    let changes: [Change; 2] = [
        ("one disruption is allowed", |w| {
            budget(w, |budget| budget.disruptions_allowed = 1)
        }),
        ("it is not ready, and the budget is met", |w| {
            budget(w, |budget| budget.always_allow_unhealthy = true);
            w.pod("busy-0").ready = false;
        }),
    ];
    for (name, change) in changes {
        let mut world = World::valid();
        change(&mut world);
        assert_eq!(check(&world.snapshot, &world.plan), [], "{name}");
    }
}

#[test]
fn pod_that_may_never_be_evicted_needs_no_other_place() {
    type Never = fn(&mut PodDisruptionBudget);
    let nevers: [(Never, bool); 4] = [
        (|budget| budget.max_unavailable = Some("0".into()), true),
        (|budget| budget.min_available = Some("100%".into()), true),
        (|budget| budget.max_unavailable = Some("0%".into()), false),
        (
            |budget| {
                budget.max_unavailable = Some("0".into());
                budget.always_allow_unhealthy = true;
            },
            true,
        ),
    ];
    for (never, ready) in nevers {
        let mut world = World::valid();
        drift(&mut world, Some("1h"));
        budget(&mut world, never);
        world.pod("busy-0").ready = ready;
        world.plan.nominations.pop();
        let budgets = &world.snapshot.disruption_budgets;
        assert_eq!(check(&world.snapshot, &world.plan), [], "{budgets:?}");
    }
}
