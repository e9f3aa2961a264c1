//! Worth of spreads over some of the zones.

use model::{labels, selector::Operator};

use super::*;
use crate::test_cluster::{TestCluster, instance_type, offering, wanting};

#[test]
fn only_zones_that_the_node_pool_allows_and_that_have_an_available_offering_count() {
    let mut fixed = instance_type("fixed", 2, 8, 10);
    fixed.offerings = ["a", "b", "c", "d"].map(|zone| offering(zone, 10)).to_vec();
    fixed.offerings[2].available = false;
    let mut cluster = TestCluster::new(vec![fixed], Vec::new());
    let available = |cluster: &TestCluster| {
        cluster.with_input(|input| available_zones(input).into_iter().collect::<String>())
    };
    assert_eq!(available(&cluster), "abd");
    cluster.requirements = vec![wanting(labels::ZONE, Operator::NotIn, &["a"])];
    assert_eq!(available(&cluster), "bd");
    let labelled = cluster.with_input(|input| {
        let mut input = input.clone();
        let zone = (labels::ZONE.to_owned(), "d".to_owned());
        input.pools[0].labels.extend([zone]);
        available_zones(&input).into_iter().collect::<String>()
    });
    assert_eq!(labelled, "d");
}

#[test]
fn spread_over_some_zones_loses_its_worth_in_proportion_to_the_pods_that_a_zone_takes_away() {
    // Of four zones: with one, all pods are lost instead of a quarter; with two, a half; with three, a third.
    let unmet = [1, 2, 3, 4].map(|count| unmet_worth(9_000, count, 4));
    assert_eq!(unmet, [9_000, 3_000, 1_000, 0]);
}
