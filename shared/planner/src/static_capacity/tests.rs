use std::sync::Arc;

use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, Resources,
    catalog::Overhead,
    ids::PlanId,
    ledger::{Command, CommandState, Intent, IntentState, Pause, PauseScope},
    pod::Pod,
    requirement::Requirements,
};

use super::*;
use crate::fixtures::{self, claim, now};

/// NodePool `default` with this many replicas and these NodeClaims.
fn world(replicas: i64, claims: Vec<NodeClaim>) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert("StaticCapacity".to_owned(), true);
    let mut pool = fixtures::pool("default", 0);
    pool.replicas = Some(replicas);
    snapshot.node_pools = vec![pool];
    snapshot.node_claims = claims;
    snapshot
}

fn two() -> Vec<NodeClaim> {
    ["a", "b"].map(|name| claim(name, &["Initialized"])).into()
}

fn launches(decision: &Decision) -> usize {
    let actions = decision.plan.actions.iter();
    actions
        .filter(|planned| planned.action.launch().is_some())
        .count()
}

fn deleted(snapshot: &Snapshot) -> Vec<String> {
    let decision = static_capacity(snapshot);
    let actions = decision.plan.actions.iter();
    let targets = actions.filter_map(|planned| planned.action.deletion());
    targets.map(|target| target.name.to_string()).collect()
}

/// Adds a launch for this NodePool to the ledger.
fn on_its_way(snapshot: &mut Snapshot, name: &str, pool: &str, state: IntentState) {
    let decision = static_capacity(&world(1, Vec::new()));
    let mut launch = decision.plan.actions[0].action.launch().unwrap().clone();
    launch.name = name.into();
    launch.node_pool = pool.into();
    snapshot.intents.push(Intent {
        plan: PlanId::default(),
        generation: 1,
        launch,
        state,
        lease: None,
        committed_at: now(),
    });
}

fn under_command(snapshot: &mut Snapshot, claim: &str, state: CommandState) {
    let of = snapshot.node_claims.iter();
    let mut of = of.filter(|claim_of_pool| claim_of_pool.name.as_str() == claim);
    snapshot.commands.push(Command {
        delete: vec![target(of.next().unwrap())],
        state,
        ..Command::default()
    });
}

#[test]
fn missing_nodes_are_launched() {
    type Change = (&'static str, fn(&mut Snapshot), usize);
    let changes: [Change; 10] = [
        ("nothing", |_| {}, 1),
        ("one goes", |w| w.node_claims[0].deleted_at = Some(now()), 2),
        (
            "one is to go",
            |w| under_command(w, "a", CommandState::Deleting),
            2,
        ),
        (
            "one was to go and stays",
            |w| under_command(w, "a", CommandState::RolledBack),
            1,
        ),
        (
            "one is another NodePool's",
            |w| {
                let labels = &mut w.node_claims[0].labels;
                labels.insert("karpenter.sh/nodepool".to_owned(), "other".to_owned());
            },
            2,
        ),
        (
            "one is on its way",
            |w| on_its_way(w, "c", "default", IntentState::Intended),
            0,
        ),
        (
            "one is on its way and there",
            |w| on_its_way(w, "a", "default", IntentState::Intended),
            1,
        ),
        (
            "one is on its way to another NodePool",
            |w| on_its_way(w, "c", "other", IntentState::Intended),
            1,
        ),
        (
            "one did not come",
            |w| on_its_way(w, "c", "default", IntentState::Void { why: "x".into() }),
            1,
        ),
        ("more are wanted", |w| w.node_pools[0].replicas = Some(5), 3),
    ];
    for (name, change, expected) in changes {
        let mut snapshot = world(3, two());
        change(&mut snapshot);
        let decision = static_capacity(&snapshot);
        assert_eq!(launches(&decision), expected, "{name}");
        assert_eq!(
            (decision.due, decision.plan.actions.len()),
            (None, expected)
        );
    }
}

#[test]
fn node_pool_that_cannot_grow_is_checked_again() {
    let soon = Some(now() + RECHECK_AFTER);
    type Change = (fn(&mut Snapshot), usize, Option<Timestamp>);
    let in_an_hour = Some(now() + SignedDuration::from_hours(1));
    let limit = |nodes| Resources::from([(NODES, nodes)]);
    let limited = |nodes: i64, change: fn(&mut Snapshot)| {
        let mut snapshot = world(5, two());
        snapshot.node_pools[0].limits = limit(nodes);
        change(&mut snapshot);
        let decision = static_capacity(&snapshot);
        (launches(&decision), decision.due)
    };
    assert_eq!(limited(9, |_| {}), (3, None));
    assert_eq!(limited(5, |_| {}), (3, None));
    assert_eq!(limited(4, |_| {}), (2, soon));
    assert_eq!(limited(1, |_| {}), (0, soon));
    // Leaving nodes and launches in flight count for the limit.
    let going: fn(&mut Snapshot) = |w| w.node_claims[0].deleted_at = Some(now());
    assert_eq!(limited(4, going), (2, soon));
    let coming: fn(&mut Snapshot) = |w| on_its_way(w, "c", "default", IntentState::Intended);
    assert_eq!(limited(4, coming), (1, soon));

    let held: [Change; 2] = [
        (
            |w| w.node_pools[0].not_ready = Some("no subnets".into()),
            0,
            soon,
        ),
        (
            |w| {
                w.pauses = vec![Pause {
                    scope: PauseScope::Cluster,
                    owner: "ann".into(),
                    level: PauseLevel::All,
                    reason: "a release".into(),
                    since: now(),
                    until: now() + SignedDuration::from_hours(1),
                }]
            },
            0,
            in_an_hour,
        ),
    ];
    for (hold, expected, due) in held {
        let mut snapshot = world(5, two());
        hold(&mut snapshot);
        let decision = static_capacity(&snapshot);
        assert_eq!((launches(&decision), decision.due), (expected, due));
    }
}

#[test]
fn only_static_node_pools_are_considered() {
    type Change = fn(&mut Snapshot);
    let changes: [Change; 4] = [
        |w| w.settings.feature_gates.clear(),
        |w| w.node_pools[0].deleted_at = Some(now()),
        |w| w.node_pools[0].replicas = None,
        |w| w.node_pools[0].replicas = Some(2),
    ];
    for change in changes {
        let mut snapshot = world(5, two());
        change(&mut snapshot);
        assert_eq!(static_capacity(&snapshot), Decision::default());
    }
    let mut complete = world(2, two());
    complete.node_pools[0].not_ready = Some("no subnets".into());
    assert_eq!(static_capacity(&complete), Decision::default());
    // A NodePool that is not ready is scaled down all the same.
    let mut smaller = world(1, two());
    smaller.node_pools[0].not_ready = Some("no subnets".into());
    assert_eq!(deleted(&smaller).len(), 1);
}

#[test]
fn least_disruptive_node_is_removed_first() {
    let names = ["busy", "busier", "empty", "daemons", "unborn", "held"];
    let mut claims: Vec<NodeClaim> = names.map(|name| claim(name, &["Initialized"])).into();
    claims[4].status.provider_id.clear();
    let mut snapshot = world(6, claims);
    for at in [0, 1, 2, 3, 5] {
        let claim = &snapshot.node_claims[at];
        let node = fixtures::node(&format!("n-{}", claim.name), claim);
        snapshot.nodes.push(node);
    }
    let mut held = fixtures::pod("held", "n-held");
    held.annotations = [("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned())].into();
    let mut daemon = fixtures::pod("daemon", "n-daemons");
    daemon.owner = Some(model::pod::Owner {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        name: "daemon".into(),
        uid: "daemon".into(),
    });
    let pods: [Pod; 3] = [
        fixtures::pod("one", "n-busy"),
        fixtures::pod("two", "n-busier"),
        fixtures::pod("three", "n-busier"),
    ];
    snapshot.pods.extend(pods.into_iter().chain([held, daemon]));
    for (at, order) in [
        ["unborn", "daemons", "empty", "busy", "busier", "held"],
        // A node with less remaining lifetime is removed first.
        ["unborn", "daemons", "empty", "busier", "busy", "held"],
    ]
    .into_iter()
    .enumerate()
    {
        if at == 1 {
            let busier = &mut snapshot.node_claims[1];
            busier.spec.expire_after = Some("10h".into());
            busier.created_at = Some(now() - SignedDuration::from_hours(6));
        }
        for kept in 0..6 {
            snapshot.node_pools[0].replicas = Some(kept);
            let gone = usize::try_from(6 - kept).unwrap();
            assert_eq!(deleted(&snapshot), order[..gone]);
        }
    }
}

#[test]
fn remaining_lifetime_is_in_thousandths() {
    let left = |expire_after: Option<&str>, hours: i64| {
        let mut claim = claim("a", &[]);
        claim.spec.expire_after = expire_after.map(Into::into);
        claim.created_at = Some(now() - SignedDuration::from_hours(hours));
        remaining_lifetime(&claim, now())
    };
    assert_eq!(left(Some("10h"), 0), 1_000);
    assert_eq!(left(Some("10h"), 4), 600);
    assert_eq!(left(Some("10h"), 12), 0);
    assert_eq!(left(Some("10h"), -2), 1_000);
    assert_eq!(left(Some("0s"), 4), 1_000);
    assert_eq!(left(None, 4), 1_000);
}

#[test]
fn launch_has_the_lowest_price_of_its_template() {
    let mut snapshot = world(1, Vec::new());
    let price = |snapshot: &Snapshot| {
        let decision = static_capacity(snapshot);
        let launch = decision.plan.actions[0].action.launch().cloned();
        launch.unwrap().cheapest.known_price()
    };
    assert_eq!(price(&snapshot), None);
    let offering = |price, available| Offering {
        unpriced: false,
        capacity_type: CapacityType::OnDemand,
        zone: "a".to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(price),
        available,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    let small = InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: "small".to_owned(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Overhead::default(),
        offerings: vec![
            offering(50_000_000, false),
            offering(200_000_000, true),
            offering(100_000_000, true),
        ],
    };
    let pool = "default".into();
    let types = Arc::new(vec![small]);
    snapshot.instance_types.insert(pool, types);
    assert_eq!(price(&snapshot), Some(NanosPerHour(100_000_000)));
}

/// Otherwise a NodeClaim would be created and given up every second.
#[test]
fn node_pool_without_offerings_waits() {
    let mut snapshot = world(1, Vec::new());
    let capacity = |available| {
        vec![InstanceType {
            ebs_attach_limit: None,
            devices: Vec::new(),
            name: "small".to_owned(),
            requirements: Requirements::default(),
            capacity: Resources::default(),
            overhead: Overhead::default(),
            offerings: vec![Offering {
                unpriced: false,
                capacity_type: CapacityType::OnDemand,
                zone: "a".to_owned(),
                zone_id: String::new(),
                price: NanosPerHour(1),
                available,
                reservation: None,
                requirements: Requirements::default(),
                capacity_override: None,
                overhead_override: None,
            }],
        }]
    };
    let mut decide = |available| {
        let types = Arc::new(capacity(available));
        snapshot.instance_types.insert("default".into(), types);
        let decision = static_capacity(&snapshot);
        (launches(&decision), decision.due)
    };
    assert_eq!(decide(true), (1, None));
    assert_eq!(decide(false), (0, Some(now() + RECHECK_AFTER)));
}
