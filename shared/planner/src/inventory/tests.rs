use std::sync::Arc;

use model::{
    InstanceType,
    catalog::Overhead,
    interruption::InterruptionAction,
    ledger::{Command, CommandState, Notice},
    requirement::Requirements,
};

use super::*;
use crate::{
    fixtures::{self, claim, now},
    lifecycle::target,
};

/// An initialized node of NodePool `default`, and its NodeClaim.
fn world() -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    let mut claim = claim("a", &["Initialized"]);
    claim.status.capacity = Resources::from([("cpu", 2_000), ("gpu", 1)]);
    let mut node = fixtures::node("n-a", &claim);
    node.labels
        .insert(INITIALIZED.to_owned(), "true".to_owned());
    node.capacity = Resources::from([("cpu", 1_900), ("gpu", 0)]);
    snapshot.nodes.push(node);
    snapshot.node_claims.push(claim);
    snapshot
}

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect,
    }
}

/// Whether a taint counts on a node before and after its initialization.
fn counts(taint: Taint, startup: &[Taint]) -> [bool; 2] {
    ["false", "true"].map(|initialized| {
        let mut snapshot = world();
        snapshot.node_claims[0].spec.startup_taints = startup.to_vec();
        let node = &mut snapshot.nodes[0];
        node.labels
            .insert(INITIALIZED.to_owned(), initialized.to_owned());
        node.taints = vec![taint.clone()];
        !Inventory::new(&snapshot).state_nodes[0].taints.is_empty()
    })
}

#[test]
fn startup_taints_are_ignored_until_initialization() {
    use TaintEffect::{NoExecute, NoSchedule};
    let (passes, stays) = ([false, true], [true, true]);
    for (key, value, effect, expected) in [
        ("node.kubernetes.io/not-ready", "", NoSchedule, passes),
        ("node.kubernetes.io/not-ready", "", NoExecute, passes),
        ("node.kubernetes.io/unreachable", "", NoSchedule, passes),
        ("node.kubernetes.io/unreachable", "", NoExecute, stays),
        (
            "node.cloudprovider.kubernetes.io/uninitialized",
            "true",
            NoSchedule,
            passes,
        ),
        (
            "node.cloudprovider.kubernetes.io/uninitialized",
            "",
            NoSchedule,
            stays,
        ),
        (
            "node.cloudprovider.kubernetes.io/uninitialized",
            "true",
            NoExecute,
            stays,
        ),
        ("karpenter.sh/unregistered", "", NoExecute, passes),
        ("karpenter.sh/unregistered", "", NoSchedule, stays),
        ("mine", "", NoSchedule, stays),
    ] {
        assert_eq!(
            counts(taint(key, value, effect), &[]),
            expected,
            "{key}={value}:{effect:?}"
        );
    }
    let startup = [taint("cilium", "", NoSchedule)];
    assert_eq!(counts(taint("cilium", "", NoSchedule), &startup), passes);
    assert_eq!(counts(taint("cilium", "", NoExecute), &startup), stays);
    assert_eq!(counts(taint("mine", "", NoSchedule), &startup), stays);
}

#[test]
fn starting_node_has_the_resources_of_its_node_claim() {
    let mut snapshot = world();
    let capacity = |snapshot: &Snapshot| {
        let capacity = &Inventory::new(snapshot).state_nodes[0].capacity;
        (capacity.get("cpu"), capacity.get("gpu"))
    };
    assert_eq!(capacity(&snapshot), (1_900, 0));
    snapshot.nodes[0].labels.remove(INITIALIZED);
    assert_eq!(capacity(&snapshot), (1_900, 1));
}

#[test]
fn node_pool_usage_counts_nodes_that_stay() {
    let mut snapshot = world();
    let usage = |snapshot: &Snapshot, pool: &str| {
        let usage = Inventory::new(snapshot).usage(&pool.into());
        (usage.get("cpu"), usage.get(NODES))
    };
    assert_eq!(usage(&snapshot, "default"), (1_900, 1));
    assert_eq!(usage(&snapshot, "other"), (0, 0));
    let without = Inventory::new(&snapshot).usage_without(&"default".into(), &[0].into());
    assert_eq!(without, Resources::default());
    snapshot.node_claims[0].deleted_at = Some(now());
    assert_eq!(usage(&snapshot, "default"), (0, 0));
}

#[test]
fn launch_in_flight_counts_as_its_largest_instance_type() {
    let mut snapshot = fixtures::snapshot();
    let sizes = [("small", 2_000), ("large", 8_000), ("unnamed", 64_000)];
    let types = sizes.map(|(name, cpu)| InstanceType {
        name: name.to_owned(),
        requirements: Requirements::default(),
        capacity: Resources::from([("cpu", cpu)]),
        overhead: Overhead::default(),
        offerings: Vec::new(),
        ebs_attach_limit: None,
        devices: Vec::new(),
    });
    let types = Arc::new(types.to_vec());
    snapshot.instance_types.insert("default".into(), types);
    let mut intent = fixtures::intent("begun");
    intent.launch.instance_types = vec!["small".into(), "large".into()];
    intent.launch.cheapest.capacity = Resources::from([("cpu", 2_000)]);
    let labels = &mut intent.launch.labels;
    labels.insert(NODE_POOL.to_owned(), "default".to_owned());
    snapshot.intents.push(intent);
    let usage = |snapshot: &Snapshot| {
        let usage = Inventory::new(snapshot).usage(&"default".into());
        (usage.get("cpu"), usage.get(NODES))
    };
    assert_eq!(usage(&snapshot), (8_000, 1));
    // Karpenter assumes the cheapest instance type.
    snapshot.settings.optimize = Optimize::Upstream;
    assert_eq!(usage(&snapshot), (2_000, 1));
}

fn notice(action: InterruptionAction, done: bool) -> Notice {
    Notice {
        instance: "i-a".into(),
        kind: "scheduled-change".into(),
        deadline: None,
        at: None,
        action,
        unmanaged: false,
        hook: None,
        event: String::new(),
        reboots: false,
        done,
    }
}

#[test]
fn command_or_notice_marks_a_node_as_deleting() {
    type Change = (fn(&mut Snapshot), (bool, bool));
    let command = |snapshot: &mut Snapshot, state| {
        snapshot.commands = vec![Command {
            delete: vec![target(&snapshot.node_claims[0])],
            state,
            ..Command::default()
        }];
    };
    let of = |change: fn(&mut Snapshot)| {
        let mut snapshot = world();
        change(&mut snapshot);
        let inventory = Inventory::new(&snapshot);
        (
            inventory.state_nodes[0].deleting,
            inventory.state_nodes[0].terminating_unconditionally,
        )
    };
    let notices: [Change; 5] = [
        (|_| {}, (false, false)),
        (
            |w| w.notices = vec![notice(InterruptionAction::Drain, true)],
            (false, false),
        ),
        (
            |w| w.notices = vec![notice(InterruptionAction::Drain, false)],
            (true, false),
        ),
        (
            |w| {
                w.notices = vec![
                    notice(InterruptionAction::Force, false),
                    notice(InterruptionAction::Drain, false),
                ]
            },
            (true, true),
        ),
        (|w| w.nodes[0].deleted_at = Some(now()), (false, false)),
    ];
    for (change, expected) in notices {
        assert_eq!(of(change), expected);
    }
    for (state, expected) in [
        (CommandState::Deleting, true),
        (CommandState::RolledBack, false),
    ] {
        let mut snapshot = world();
        command(&mut snapshot, state);
        assert_eq!(Inventory::new(&snapshot).state_nodes[0].deleting, expected);
        assert_eq!(any_leaves(&snapshot), expected);
    }
}

#[test]
fn node_claim_past_its_registration_timeout_takes_no_pods() {
    let minutes = jiff::SignedDuration::from_mins;
    for (registered, timeout, age, expected) in [
        (false, Some(15), 16, true),
        (false, Some(15), 14, false),
        (true, Some(15), 16, false),
        // As in Karpenter.
        (false, None, 16, false),
    ] {
        let mut snapshot = fixtures::snapshot();
        let conditions: &[&str] = match registered {
            true => &["Launched", "Registered"],
            false => &["Launched"],
        };
        snapshot.node_claims.push(claim("a", conditions));
        let launched = snapshot.node_claims[0].condition("Launched").unwrap();
        snapshot.now = launched.last_transition + minutes(age);
        snapshot.settings.registration_timeout = timeout.map(minutes);
        let inventory = Inventory::new(&snapshot);
        assert_eq!(inventory.state_nodes[0].deleting, expected, "{age} minutes");
    }
}

#[test]
fn launch_past_the_registration_timeout_takes_no_pods() {
    let minutes = jiff::SignedDuration::from_mins;
    for (timeout, age, expected) in [
        (Some(15), 16, true),
        (Some(15), 14, false),
        // As in Karpenter.
        (None, 16, false),
    ] {
        let mut snapshot = fixtures::snapshot();
        let intent = fixtures::intent("a");
        snapshot.now = intent.committed_at + minutes(age);
        snapshot.intents.push(intent);
        snapshot.settings.registration_timeout = timeout.map(minutes);
        let inventory = Inventory::new(&snapshot);
        assert_eq!(inventory.state_nodes[0].deleting, expected, "{age} minutes");
    }
}

#[test]
fn node_of_a_timed_out_node_claim_counts_against_limits_until_the_node_claim_is_deleted() {
    let usage = |reason: &str, deleted: bool| {
        let mut snapshot = world();
        snapshot.commands = vec![Command {
            delete: vec![target(&snapshot.node_claims[0])],
            state: CommandState::Deleting,
            reason: reason.to_owned(),
            ..Command::default()
        }];
        snapshot.node_claims[0].deleted_at = deleted.then(now);
        let inventory = Inventory::new(&snapshot);
        assert!(
            inventory.state_nodes[0].deleting,
            "no pod is expected on the node"
        );
        inventory.usage(&"default".into()).get("cpu") > 0
    };
    assert!(usage(
        "launch_timeout: its instance was not launched in time",
        false
    ));
    assert!(usage("registration_timeout: its node did not join", false));
    assert!(!usage("registration_timeout: its node did not join", true));
    assert!(!usage("Drifted", false));
}

#[test]
fn any_leaves_considers_deleted_objects_and_notices() {
    type Change = (fn(&mut Snapshot), bool);
    let changes: [Change; 4] = [
        (|_| {}, false),
        (|w| w.node_claims[0].deleted_at = Some(now()), true),
        (|w| w.nodes[0].deleted_at = Some(now()), true),
        (
            |w| w.notices = vec![notice(InterruptionAction::Drain, false)],
            true,
        ),
    ];
    for (change, expected) in changes {
        let mut snapshot = world();
        change(&mut snapshot);
        assert_eq!(any_leaves(&snapshot), expected);
    }
}

#[test]
fn only_daemon_sets_of_apps_v1_own_daemon_pods() {
    for (kind, api_version, expected) in [
        ("DaemonSet", "apps/v1", true),
        ("DaemonSet", "example.com/v1", false),
        ("ReplicaSet", "apps/v1", false),
    ] {
        let mut pod = fixtures::pod("p", "n-a");
        pod.owner = Some(model::pod::Owner {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "x".into(),
            uid: "x".into(),
        });
        assert_eq!(is_daemon(&pod), expected);
    }
}
