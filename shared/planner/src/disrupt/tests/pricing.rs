//! Prices of moves against their savings.

use super::*;

const HORIZON: &str = "whittle.sh/consolidation-horizon";
const EVICTION: &str = "whittle.sh/eviction-price";

/// A large node with four small pods, which a small node could run for $0.3/h less.
fn cluster(annotations: &[(&str, &str)]) -> TestCluster {
    TestCluster::new()
        .node("n", "large", &[200, 200, 200, 200])
        .with(|snapshot| {
            snapshot.settings.optimize = Optimize::Cost;
            for (key, value) in annotations {
                let own = &mut snapshot.node_pools[0].annotations;
                own.insert((*key).to_owned(), (*value).to_owned());
            }
        })
}

#[test]
fn node_is_kept_if_evictions_cost_more_than_savings_within_the_horizon() {
    assert_eq!(cluster(&[]).removes(), ["n"]);
    let dear = cluster(&[(EVICTION, "10")]);
    assert!(dear.removes().is_empty());
    let said = dear.unconsolidatable();
    assert!(said[0].starts_with("Moving 4 pods costs $"), "{said:?}");
    let kept = node_reports(&dear.0).remove(0).kept;
    assert_eq!(kept.as_ref(), said.first());
    assert!(
        cluster(&[(EVICTION, "1"), (HORIZON, "10m")])
            .removes()
            .is_empty()
    );
    assert_eq!(
        cluster(&[(EVICTION, "0"), (HORIZON, "10m")]).removes(),
        ["n"]
    );
}

#[test]
fn moves_are_free_with_optimize_upstream_or_at_any_price() {
    let dear = cluster(&[(EVICTION, "10")]);
    assert_eq!(disrupt_at_any_price(&dear.0).commands.len(), 1);
    let upstream = dear.with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert_eq!(upstream.removes(), ["n"]);
}

#[test]
fn savings_count_until_the_node_expires() {
    let cluster = cluster(&[(EVICTION, "0.1")]).with(|snapshot| {
        snapshot.node_claims[0].spec.expire_after = Some("30m".to_owned());
    });
    assert!(cluster.removes().is_empty());
}

#[test]
fn invalid_annotation_is_reported_and_the_default_applies() {
    for (key, value, expected) in [
        (HORIZON, "a while", "a duration such as \"24h\""),
        (HORIZON, "-1h", "a duration such as \"24h\""),
        (EVICTION, "cheap", "dollars such as \"0.01\""),
        (EVICTION, "-1", "dollars such as \"0.01\""),
        (EVICTION, "1000", "dollars such as \"0.01\""),
    ] {
        let cluster = cluster(&[(key, value)]);
        let reported =
            format!("Annotation {key} is \"{value}\": expected {expected}; the default is used");
        assert_eq!(disrupt(&cluster.0).misread, [("default".into(), reported)]);
        assert_eq!(cluster.removes(), ["n"], "{key}={value}");
    }
}

#[test]
fn check_is_due_when_a_budget_window_closes() {
    let cluster = cluster(&[]).with(|snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![Budget {
            schedule: Some("@daily".to_owned()),
            duration: Some("9h".to_owned()),
            ..budget("0")
        }];
    });
    let result = disrupt(&cluster.0);
    assert!(result.commands.is_empty());
    assert_eq!(
        result.due,
        Some(cluster.0.now + SignedDuration::from_hours(9))
    );
}

/// Message about the move after a change, with evictions at $10.
fn said(change: impl FnOnce(&mut Snapshot)) -> String {
    let cluster = cluster(&[(EVICTION, "10")]).with(|snapshot| {
        let two_hours_ago = snapshot.now - SignedDuration::from_hours(2);
        let own = &mut snapshot.node_claims[0];
        own.created_at = Some(two_hours_ago);
        own.status.conditions[0].last_transition = two_hours_ago;
        // Initialized a minute after its launch.
        own.status.conditions[2].last_transition = two_hours_ago + SignedDuration::from_mins(1);
        change(snapshot);
    });
    cluster.unconsolidatable().remove(0)
}

fn costs(price: &str, saved: &str) -> String {
    format!(
        "Moving 4 pods costs ${price}, and saves ${saved} within the NodePool's consolidation horizon"
    )
}

#[test]
fn move_costs_evictions_image_pulls_and_overlapping_run_time() {
    // Four evictions, a quarter of that for images, and a minute of the new node; $0.3 an hour are saved for a day.
    assert_eq!(said(|_| {}), costs("50.0017", "7.2000"));
    // Pods of a young node count twice.
    let aged = |hours: i64| {
        said(|snapshot| {
            snapshot.node_claims[0].created_at =
                Some(snapshot.now - SignedDuration::from_hours(hours));
        })
    };
    assert_eq!(aged(0), costs("90.0017", "7.2000"));
    assert_eq!(aged(1), costs("50.0017", "7.2000"));
    // The old node runs until the last of its pods has terminated, but at most a quarter of an hour.
    let grace =
        |seconds: i64| said(|snapshot| snapshot.pods[1].termination_grace_seconds = Some(seconds));
    assert_eq!(grace(360), costs("50.0417", "7.2000"));
    assert_eq!(grace(36_000), costs("50.1017", "7.2000"));
}

#[test]
fn start_time_is_the_median_of_the_node_pool() {
    let started_in = |minutes: &[i64]| {
        said(|snapshot| {
            for (at, minutes) in minutes.iter().enumerate() {
                let mut claim = fixtures::claim(&format!("other-{at}"), &[LAUNCHED, INITIALIZED]);
                let launched = snapshot.now - SignedDuration::from_hours(1);
                claim.status.conditions[0].last_transition = launched;
                claim.status.conditions[1].last_transition =
                    launched + SignedDuration::from_mins(*minutes);
                claim.deleted_at = Some(snapshot.now);
                snapshot.node_claims.push(claim);
            }
            snapshot.node_claims[0].status.conditions[0].status =
                model::node::ConditionStatus::Unknown;
        })
    };
    assert_eq!(started_in(&[]), costs("50.0017", "7.2000"));
    assert_eq!(started_in(&[3, 6, 12]), costs("50.0100", "7.2000"));
    assert_eq!(started_in(&[12]), costs("50.0200", "7.2000"));
}

#[test]
fn expected_spot_interruptions_are_priced() {
    let spot = |snapshot: &mut Snapshot| {
        let pool = &mut snapshot.node_pools[0];
        pool.template.requirements = vec![one_of(CAPACITY_TYPE, &["spot"])];
    };
    // Seven of a hundred thousand in each of the 24 hours.
    assert_eq!(said(spot), costs("50.0680", "8.4000"));
    let at_risk = said(|snapshot| {
        spot(snapshot);
        let mut going = fixtures::claim("going", &[]);
        for (key, value) in [
            (INSTANCE_TYPE, "small"),
            (ZONE, "a"),
            (CAPACITY_TYPE, "spot"),
        ] {
            going.labels.insert(key.to_owned(), value.to_owned());
        }
        snapshot.node_claims.push(going);
        snapshot.notices = vec![model::ledger::Notice {
            instance: "i-going".into(),
            kind: "rebalance-recommendation".into(),
            deadline: None,
            at: None,
            action: model::interruption::InterruptionAction::Drain,
            unmanaged: false,
            hook: None,
            event: String::new(),
            reboots: false,
            done: false,
        }];
    });
    assert_eq!(at_risk, costs("90.0008", "8.4000"));
}

#[test]
fn several_nodes_are_merged_only_if_that_pays() {
    let cluster = |price: &str| {
        TestCluster::new()
            .node("a", "large", &[1_000; 3])
            .node("b", "large", &[1_000; 3])
            .node("c", "large", &[1_000; 3])
            .with(|snapshot| {
                snapshot.settings.optimize = Optimize::Cost;
                let own = &mut snapshot.node_pools[0].annotations;
                own.insert(EVICTION.to_owned(), price.to_owned());
            })
            .removes()
    };
    assert!(!cluster("0").is_empty());
    assert_eq!(cluster("100"), [""; 0]);
}

#[test]
fn free_instance_type_is_cheaper_than_any_other() {
    let cluster = TestCluster::new()
        .node("n", "large", &[1_500])
        .with(|snapshot| {
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types)[0].offerings[0].price = NanosPerHour(0);
        });
    let replacement = &disrupt(&cluster.0).commands[0].replacements[0];
    assert_eq!(replacement.cheapest.instance_type, "small");
}

const NODE_PRICE: &str = "whittle.sh/node-price";

#[test]
fn node_price_includes_the_surcharge() {
    let price = |annotations: &[(&str, &str)]| node_reports(&cluster(annotations).0)[0].price.0;
    assert_eq!(price(&[(NODE_PRICE, "0.5")]), price(&[]) + 500_000_000);
    let upstream = cluster(&[(NODE_PRICE, "0.5")])
        .with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert_eq!(node_reports(&upstream.0)[0].price.0, price(&[]));
}

/// A medium node costs as much as two small ones.
#[test]
fn surcharge_makes_merging_nodes_of_equal_price_pay() {
    let removed = |price: &str| {
        TestCluster::new()
            .node("a", "small", &[1_500])
            .node("b", "small", &[1_500])
            .with(|snapshot| {
                snapshot.settings.optimize = Optimize::Cost;
                let own = &mut snapshot.node_pools[0].annotations;
                own.insert(NODE_PRICE.to_owned(), price.to_owned());
            })
            .removes()
    };
    assert_eq!(removed("0"), [""; 0]);
    assert_eq!(removed("0.1"), ["a", "b"]);
}
