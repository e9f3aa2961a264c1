use std::sync::Arc;

use model::{
    CapacityType, InstanceType, Offering, PodKey, Resources,
    catalog::Overhead,
    ids::PlanId,
    interruption::InterruptionAction,
    labels::{CAPACITY_TYPE, NODE_POOL, ZONE},
    ledger::{Intent, IntentState, Notice},
    plan::{ExpectedOffering, Nomination, Planned, PodRef},
    requirement::Requirements,
};

use super::*;
use crate::fixtures::{self, claim, now};

fn kind(name: &str, price: i64) -> InstanceType {
    let offering = |zone: &str, price: i64| Offering {
        unpriced: false,
        capacity_type: CapacityType::OnDemand,
        zone: zone.to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(price),
        available: true,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Overhead::default(),
        offerings: vec![offering("a", price), offering("b", price + 10)],
    }
}

fn node_of(name: &str, pool: &str, kind: &str, zone: &str) -> NodeClaim {
    let mut claim = claim(name, &["Initialized"]);
    for (key, value) in [
        (NODE_POOL, pool),
        (INSTANCE_TYPE, kind),
        (ZONE, zone),
        (CAPACITY_TYPE, "on-demand"),
    ] {
        claim.labels.insert(key.to_owned(), value.to_owned());
    }
    claim
}

/// NodePools `default` and `other`: a small node of the former in zone a, for 100, and a large one of the latter in zone b, for
/// 210.
fn world() -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    for pool in ["default", "other"] {
        snapshot.node_pools.push(fixtures::pool(pool, 0));
        let types = Arc::new(vec![kind("small", 100), kind("large", 200)]);
        snapshot.instance_types.insert(pool.into(), types);
    }
    snapshot.node_claims = vec![
        node_of("s", "default", "small", "a"),
        node_of("l", "other", "large", "b"),
    ];
    snapshot
}

fn launch(name: &str, pool: &str, price: i64) -> Launch {
    Launch {
        name: name.into(),
        node_pool: pool.into(),
        node_pool_uid: pool.into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: model::node_claim::NodeClaimSpec::default(),
        pods: vec![pod(name)],
        instance_types: Vec::new(),
        cheapest: ExpectedOffering {
            instance_type: "small".into(),
            capacity_type: CapacityType::OnDemand,
            zone: "a".into(),
            price: NanosPerHour(price),
            capacity: Resources::default(),
        },
    }
}

fn pod(name: &str) -> PodRef {
    PodRef {
        key: PodKey::new("default", name),
        uid: name.into(),
    }
}

fn on_its_way(snapshot: &mut Snapshot, name: &str, price: i64, state: IntentState) {
    snapshot.intents.push(Intent {
        plan: PlanId::default(),
        generation: 1,
        launch: launch(name, "default", price),
        state,
        lease: None,
        committed_at: now(),
    });
}

fn notice(instance: &str, action: InterruptionAction) -> Notice {
    Notice {
        instance: instance.into(),
        kind: "scheduled-change".into(),
        deadline: None,
        at: None,
        action,
        unmanaged: false,
        hook: None,
        event: String::new(),
        reboots: false,
        done: false,
    }
}

#[test]
fn staying_nodes_and_launches_in_flight_count_once() {
    type Change = (&'static str, fn(&mut Snapshot), i64, u32);
    let changes: [Change; 9] = [
        ("both nodes", |_| {}, 310, 2),
        (
            "each with the surcharge of its NodePool",
            |w| {
                w.settings.optimize = model::snapshot::Optimize::Cost;
                w.node_pools[0].volume_price = NanosPerHour(3);
                w.settings.node_price = NanosPerHour(2);
            },
            310 + 3 + 2 * 2,
            2,
        ),
        (
            "one goes",
            |w| w.node_claims[1].deleted_at = Some(now()),
            100,
            1,
        ),
        (
            "a node terminating unconditionally",
            |w| w.notices = vec![notice("i-l", InterruptionAction::Force)],
            100,
            1,
        ),
        (
            "a draining node, and one terminating unconditionally",
            |w| {
                w.notices = vec![
                    notice("i-l", InterruptionAction::Drain),
                    notice("i-x", InterruptionAction::Force),
                ];
            },
            310,
            2,
        ),
        (
            "a launch",
            |w| on_its_way(w, "c", 7, IntentState::Intended),
            317,
            3,
        ),
        (
            "a launch whose node is there costs what was expected",
            |w| on_its_way(w, "s", 7, IntentState::Intended),
            217,
            2,
        ),
        (
            "a launch that is over",
            |w| on_its_way(w, "c", 7, IntentState::Void { why: "x".into() }),
            310,
            2,
        ),
        (
            "an unknown instance type has no price",
            |w| {
                let labels = &mut w.node_claims[1].labels;
                labels.insert(INSTANCE_TYPE.to_owned(), "huge".to_owned());
            },
            100,
            2,
        ),
    ];
    for (name, change, price, nodes) in changes {
        let mut snapshot = world();
        change(&mut snapshot);
        let price = NanosPerHour(price);
        assert_eq!(spending(&snapshot), Spending { price, nodes }, "{name}");
    }
}

#[test]
fn spending_is_counted_per_node_pool() {
    let by_pool = pool_spending(&world());
    let prices = by_pool
        .iter()
        .map(|(pool, spending)| (pool.as_str(), spending.price.0));
    assert_eq!(
        prices.collect::<Vec<_>>(),
        [("default", 100), ("other", 210)]
    );
}

#[test]
fn exceeded_cap_is_reported() {
    let report = |change: fn(&mut Snapshot)| {
        let mut snapshot = world();
        change(&mut snapshot);
        let exceeded = exceeded(&snapshot);
        let report = exceeded.into_iter().map(|exceeded| {
            let (what, _) = exceeded.message.split_once(':').unwrap();
            (exceeded.node_pool.map(|pool| pool.0), what.to_owned())
        });
        report.collect::<Vec<_>>()
    };
    assert_eq!(report(|_| {}), []);
    assert_eq!(report(|w| w.caps.nodes = Some(2)), []);
    assert_eq!(report(|w| w.caps.price = Some(NanosPerHour(310))), []);
    let of_cluster = report(|w| w.caps.nodes = Some(1));
    assert_eq!(
        of_cluster,
        [(None, "the cluster is capped at 1 node and has 2".to_owned())]
    );
    let of_pool = report(|w| {
        let annotations = &mut w.node_pools[1].annotations;
        annotations.insert(Caps::ANNOTATION.to_owned(), "0.0000001".to_owned());
    });
    let (pool, what) = &of_pool[0];
    assert_eq!((of_pool.len(), pool.as_deref()), (1, Some("other")));
    assert!(what.starts_with("NodePool other is capped"), "{what}");
    let of_account = report(|w| {
        w.account.caps.nodes = Some(6);
        let others = Spending {
            nodes: 5,
            ..Spending::default()
        };
        w.account.clusters.insert("another".into(), others);
    });
    assert_eq!(
        of_account,
        [(
            None,
            "the account is capped at 6 nodes and has 7".to_owned()
        )]
    );
}

#[test]
fn node_pools_over_limit_are_not_ready() {
    let capped = |change: fn(&mut Snapshot)| {
        let mut snapshot = world();
        change(&mut snapshot);
        let closed = without_pools_over_limit(&snapshot);
        let pools = closed.node_pools.iter();
        let over_limit = pools.filter(|pool| {
            pool.not_ready
                .as_deref()
                .is_some_and(|why| why.contains("capped"))
        });
        let over_limit: Vec<String> = over_limit.map(|pool| pool.name.to_string()).collect();
        let report = capped(&snapshot).into_iter().map(|(pool, _)| pool.0);
        (over_limit, report.collect::<Vec<_>>())
    };
    let none = || (Vec::new(), Vec::new());
    let both = || {
        let both = vec!["default".to_owned(), "other".to_owned()];
        (both.clone(), both)
    };
    assert_eq!(capped(|_| {}), none());
    assert_eq!(capped(|w| w.caps.nodes = Some(3)), none());
    assert_eq!(capped(|w| w.caps.nodes = Some(2)), both());
    // The cheapest available offering costs 100.
    assert_eq!(capped(|w| w.caps.price = Some(NanosPerHour(410))), none());
    assert_eq!(capped(|w| w.caps.price = Some(NanosPerHour(409))), both());
    let sold_out = |w: &mut Snapshot| {
        w.caps.price = Some(NanosPerHour(410));
        let types = w.instance_types.get_mut(&"other".into()).unwrap();
        for instance_type in Arc::make_mut(types) {
            instance_type.offerings[0].available = false;
        }
    };
    let (over_limit, _) = capped(sold_out);
    assert_eq!(over_limit, ["other"]);
    // A NodePool that is not ready keeps its reason.
    let (over_limit, report) = capped(|w| {
        w.caps.nodes = Some(2);
        w.node_pools[0].not_ready = Some("no subnets".into());
    });
    assert_eq!((over_limit.len(), report.len()), (1, 2));
}

#[test]
fn every_cap_applies() {
    let mut snapshot = world();
    for pool in &mut snapshot.node_pools {
        let most = (Caps::ANNOTATION.to_owned(), "10".to_owned());
        pool.annotations.extend([most]);
    }
    snapshot.account.caps.nodes = Some(9);
    snapshot.caps.nodes = Some(2);
    assert_eq!(capped(&snapshot).len(), 2);
    snapshot.caps.nodes = Some(3);
    assert_eq!(capped(&snapshot), []);
}

#[test]
fn launches_over_a_cap_are_held_back_one_by_one() {
    let mut snapshot = world();
    snapshot.caps.price = Some(NanosPerHour(400));
    let launches = [("one", 50), ("two", 60), ("three", 40)];
    let actions = launches.map(|(name, price)| Planned {
        action: Action::Launch(Box::new(launch(name, "default", price))),
        because: String::new(),
    });
    let nominations = launches.map(|(name, _)| Nomination {
        pod: pod(name),
        node: Expected::NodeClaim(name.into()),
    });
    let mut plan = Plan {
        actions: actions.into(),
        nominations: nominations.into(),
        ..Plan::default()
    };
    hold_back(&snapshot, &mut plan);
    let left = plan
        .actions
        .iter()
        .filter_map(|planned| planned.action.launch());
    let left: Vec<&str> = left.map(|launch| launch.name.as_str()).collect();
    assert_eq!(left, ["one", "three"]);
    let expected = plan
        .nominations
        .iter()
        .map(|nomination| nomination.node.clone());
    let expected: Vec<Expected> = expected.collect();
    assert_eq!(
        expected,
        ["one", "three"].map(|name| Expected::NodeClaim(name.into()))
    );
    let unplaced = &plan.unplaced[0];
    assert_eq!((plan.unplaced.len(), &unplaced.pod), (1, &pod("two")));
    assert!(unplaced.reasons[0].limited);
}
