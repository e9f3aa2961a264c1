//! A move must pay for what it disturbs.

use super::*;

const HORIZON: &str = "whittle.sh/consolidation-horizon";
const EVICTION: &str = "whittle.sh/eviction-price";

/// A large node of four small pods, which a small node could run for $0.3/h less.
fn world(annotations: &[(&str, &str)]) -> World {
    World::new()
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
fn a_node_stays_where_its_evictions_cost_more_than_is_saved_in_time() {
    assert_eq!(world(&[]).removes(), ["n"]);
    let dear = world(&[(EVICTION, "10")]);
    assert!(dear.removes().is_empty());
    let said = dear.unconsolidatable();
    assert!(said[0].starts_with("Moving 4 pods costs $"), "{said:?}");
    let kept = outlook(&dear.0).remove(0).kept;
    assert_eq!(kept.as_ref(), said.first());
    assert!(
        world(&[(EVICTION, "1"), (HORIZON, "10m")])
            .removes()
            .is_empty()
    );
    assert_eq!(world(&[(EVICTION, "0"), (HORIZON, "10m")]).removes(), ["n"]);
}

#[test]
fn nothing_is_priced_where_upstream_decides_or_a_caller_wants_none() {
    let dear = world(&[(EVICTION, "10")]);
    assert_eq!(disrupt_at_any_price(&dear.0).commands.len(), 1);
    let upstream = dear.with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert_eq!(upstream.removes(), ["n"]);
}

#[test]
fn a_saving_counts_until_the_node_expires() {
    let world = world(&[(EVICTION, "0.1")]).with(|snapshot| {
        snapshot.node_claims[0].spec.expire_after = Some("30m".to_owned());
    });
    assert!(world.removes().is_empty());
}

#[test]
fn an_annotation_that_cannot_be_read_is_told_and_leaves_the_default() {
    for (key, value, expected) in [
        (HORIZON, "a while", "a duration such as \"24h\""),
        (HORIZON, "-1h", "a duration such as \"24h\""),
        (EVICTION, "cheap", "dollars such as \"0.01\""),
        (EVICTION, "-1", "dollars such as \"0.01\""),
        (EVICTION, "1000", "dollars such as \"0.01\""),
    ] {
        let world = world(&[(key, value)]);
        let told =
            format!("Annotation {key} is \"{value}\": expected {expected}; the default is used");
        assert_eq!(disrupt(&world.0).misread, [("default".into(), told)]);
        assert_eq!(world.removes(), ["n"], "{key}={value}");
    }
}

#[test]
fn what_a_window_holds_back_is_looked_at_again_when_it_closes() {
    let world = world(&[]).with(|snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![Budget {
            schedule: Some("@daily".to_owned()),
            duration: Some("9h".to_owned()),
            ..budget("0")
        }];
    });
    let pass = disrupt(&world.0);
    assert!(pass.commands.is_empty());
    assert_eq!(pass.due, Some(world.0.now + SignedDuration::from_hours(9)));
}
