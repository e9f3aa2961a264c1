//! Counting for limits and caps: nodes that stay and nodes in flight count once each.

use std::sync::Arc;

use model::ledger::IntentState;

use super::*;

/// Adds an intent for a node of this NodePool to the ledger.
fn in_flight(w: &mut World, pool: &str, claim: &str, state: IntentState) {
    let mut launch = w.launch(PLAIN).clone();
    launch.node_pool = pool.into();
    launch.pods.clear();
    let intent = intent(launch);
    let launch = Launch {
        name: claim.into(),
        ..intent.launch
    };
    w.snapshot.intents.push(Intent {
        launch,
        state,
        ..intent
    });
}

/// Adds a NodeClaim of this NodePool without an instance.
fn without_instance<'w>(w: &'w mut World, pool: &str) -> &'w mut NodeClaim {
    let claim = NodeClaim {
        name: "early".into(),
        uid: "early-uid".into(),
        labels: labels(&[(model::labels::NODE_POOL, pool)]),
        ..NodeClaim::default()
    };
    w.snapshot.node_claims.push(claim);
    w.claim("early")
}

fn launched() -> IntentState {
    IntentState::Launched {
        instance: "i-early".into(),
    }
}

type Case = (&'static str, fn(&mut World), u32, u32);

/// Changes to a cluster with two staying nodes, with the number of additional nodes in NodePool `default` and in the
/// cluster.
const CASES: &[Case] = &[
    ("nothing", |_| {}, 0, 0),
    (
        "a launch",
        |w| in_flight(w, "default", "early", IntentState::Intended),
        1,
        1,
    ),
    (
        "a launch of another NodePool",
        |w| in_flight(w, "diverse", "early", IntentState::Intended),
        0,
        1,
    ),
    (
        "a launch that a node came of",
        |w| in_flight(w, "default", "claim-n-1", IntentState::Intended),
        0,
        0,
    ),
    (
        "a launch that is over",
        |w| in_flight(w, "default", "early", launched()),
        0,
        0,
    ),
    (
        "a NodeClaim",
        |w| {
            without_instance(w, "default");
        },
        1,
        1,
    ),
    (
        "a NodeClaim of another NodePool",
        |w| {
            without_instance(w, "diverse");
        },
        0,
        1,
    ),
    (
        "a NodeClaim being deleted",
        |w| without_instance(w, "default").deleted_at = Some(now()),
        0,
        0,
    ),
    (
        "a NodeClaim and its launch",
        |w| {
            without_instance(w, "default");
            in_flight(w, "default", "early", IntentState::Intended)
        },
        1,
        1,
    ),
    (
        "a launch whose NodeClaim is being deleted",
        |w| {
            without_instance(w, "default").deleted_at = Some(now());
            in_flight(w, "default", "early", IntentState::Intended)
        },
        0,
        0,
    ),
];

/// The smallest bound under which no violation contains `word`.
fn least(world: &mut World, word: &str, bound: impl Fn(&mut World, u32)) -> u32 {
    let is_enough = |most: &u32| {
        bound(world, *most);
        let violations = check(&world.snapshot, &world.plan);
        !violations
            .iter()
            .any(|violation| violation.text.contains(word))
    };
    (0..100).find(is_enough).unwrap()
}

#[test]
fn limits_count_staying_nodes_and_nodes_in_flight() {
    for (name, change, more, _) in CASES {
        let mut world = World::valid();
        change(&mut world);
        // Two nodes stay, and six launches are for this NodePool.
        let found = least(&mut world, "is limited to", |world, most| {
            world.pool("default").limits = Resources::from([("nodes", i64::from(most))]);
        });
        assert_eq!(found, 8 + more, "{name}");
    }
}

#[test]
fn caps_count_staying_nodes_and_nodes_in_flight() {
    for (name, change, _, more) in CASES {
        let mut world = World::valid();
        change(&mut world);
        let found = least(&mut world, "its cap of", |world, most| {
            world.snapshot.caps.nodes = Some(most)
        });
        assert_eq!(found, 10 + more, "{name}");
    }
}

#[test]
fn price_cap_counts_prices_of_actual_offerings() {
    let mut snapshot = snapshot();
    add_node(&mut snapshot, "n-5", "a");
    // Gives each offering a distinct price.
    for (pool, types) in (0..).zip(snapshot.instance_types.values_mut()) {
        for (of_type, instance_type) in (0..).zip(Arc::make_mut(types)) {
            for (index, offering) in (0..).zip(&mut instance_type.offerings) {
                offering.price.0 += 1_000 * pool + 100 * of_type + index;
            }
        }
    }
    let plan = plan(&snapshot);
    let types = &snapshot.instance_types[&"default".into()];
    let large = types
        .iter()
        .find(|instance_type| instance_type.name == "m.large")
        .unwrap();
    let bought = |zone: &str| {
        let mut offerings = large.offerings.iter();
        let of_zone = offerings.find(|offering| {
            offering.zone == zone && offering.capacity_type == CapacityType::OnDemand
        });
        of_zone.unwrap().price.0
    };
    let prices = plan.actions.iter().filter_map(|planned| {
        let Action::Launch(launch) = &planned.action else {
            return None;
        };
        Some(launch.cheapest.price.0)
    });
    let total = prices.sum::<i64>() + 2 * bought("a") + bought("b");
    let mut world = World { snapshot, plan };
    world.snapshot.caps.price = Some(NanosPerHour(total));
    assert_eq!(check(&world.snapshot, &world.plan), []);
    world.snapshot.caps.price = Some(NanosPerHour(total - 1));
    let violations = check(&world.snapshot, &world.plan);
    assert!(!violations.is_empty());
}
