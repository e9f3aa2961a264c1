//! What paper knows of a cluster: what each kind of pod needs, and where it could be at all.

use model::{
    CapacityType, labels,
    pod::NodeSelectorTerm,
    selector::{NodeSelectorRequirement, Operator},
};

use super::{
    super::cluster_model::{ClusterModel, FIXED_POINT_ONE},
    world::{CENT, World, kind},
};

/// The NodePools and types that a new node for a pod could be of, cheapest first.
fn bought_for(cluster: &ClusterModel, pod: usize) -> Vec<(usize, &str)> {
    let kind = cluster.kind(pod).unwrap();
    let offers = cluster.offers.iter().enumerate();
    let open = offers.filter(|(at, _)| kind.offers.contains(*at));
    open.map(|(_, offer)| (offer.pool, offer.instance_type.as_str()))
        .collect()
}

/// Nodes of two sizes and zones, on the first of which a pod asks for nothing, one for a type and one for a zone.
fn choosy() -> World {
    let mut world = World::new()
        .node("l", "a", &[900, 900, 900])
        .node("m", "b", &[900])
        .node("l", "b", &[900]);
    for (pod, key, value) in [(1, labels::INSTANCE_TYPE, "m"), (2, labels::ZONE, "b")] {
        let selector = [(key.to_owned(), value.to_owned())];
        world.pods[pod].node_selector = selector.into();
    }
    world
}

#[test]
fn a_pod_may_go_where_what_it_asks_for_is_met() {
    choosy().with_model(|cluster| {
        let nodes = [0, 1, 2].map(|pod| &cluster.kind(pod).unwrap().nodes[..]);
        assert_eq!(nodes, [&[0, 1, 2][..], &[1], &[1, 2]]);
        let all = ["xs", "s", "m", "l"].map(|name| (0, name));
        let bought = [0, 1, 2].map(|pod| bought_for(cluster, pod));
        assert_eq!(bought, [&all[..], &[(0, "m")], &all]);
        let prices = cluster.offers.iter().map(|offer| offer.price / CENT);
        assert_eq!(prices.collect::<Vec<_>>(), [6, 10, 19, 36]);
    });
}

#[test]
fn a_type_that_is_no_better_is_bought_only_for_those_who_need_it() {
    let mut world = choosy();
    let like_m = kind("m-2", 4, 20, CapacityType::OnDemand);
    world.types.push(like_m);
    world.with_model(|cluster| assert_eq!(cluster.offers.len(), 4));
    let selector = [(labels::INSTANCE_TYPE.to_owned(), "m-2".to_owned())];
    world.pods[1].node_selector = selector.into();
    world.with_model(|cluster| {
        assert_eq!(cluster.offers.len(), 5);
        assert_eq!(bought_for(cluster, 1), [(0, "m-2")]);
    });
}

#[test]
fn node_pools_of_less_weight_are_not_planned_with() {
    let pools = |second: i32| {
        let mut world = World::new().node("l", "a", &[900]);
        world.pools = vec![("default".into(), 1), ("other".into(), second)];
        world.with_model(|cluster| {
            let bought = bought_for(cluster, 0).into_iter();
            let bought = bought.filter(|(_, name)| *name == "s");
            bought.map(|(pool, _)| pool).collect::<Vec<_>>()
        })
    };
    assert_eq!(pools(1), [0, 1]);
    assert_eq!(pools(0), [0]);
}

#[test]
fn nodes_that_are_settling_take_no_pods() {
    let mut world = choosy();
    world.nodes[1].cooling_down = true;
    world.with_model(|cluster| {
        assert_eq!(cluster.kind(0).unwrap().nodes, [0, 2]);
        assert_eq!(cluster.kind(1).unwrap().nodes, [0; 0]);
    });
}

#[test]
fn a_wish_that_nothing_could_grant_is_given_up() {
    let mut world = World::new().node("l", "a", &[900]);
    let wish = NodeSelectorRequirement {
        key: labels::ZONE.to_owned(),
        operator: Operator::In,
        values: vec!["nowhere".to_owned()],
        min_values: None,
    };
    let term = NodeSelectorTerm {
        match_expressions: vec![wish],
        ..NodeSelectorTerm::default()
    };
    world.pods[0].node_affinity.preferred = vec![(1, term)];
    world.with_model(|cluster| {
        assert_eq!(cluster.kind(0).unwrap().nodes, [0]);
        assert_eq!(bought_for(cluster, 0).len(), 4);
    });
}

#[test]
fn pods_are_as_large_as_the_part_of_a_middling_node_that_they_take() {
    let sizes = |types: &[i64], pods: [i64; 2]| {
        let mut world = World::new().node("l", "a", &pods);
        let types = types.iter().map(|cores| {
            let name = format!("of-{cores}");
            kind(&name, *cores, *cores, CapacityType::OnDemand)
        });
        world.types = types.collect();
        world.with_model(|cluster| [0, 1].map(|pod| cluster.kind(pod).unwrap().size))
    };
    assert_eq!(
        sizes(&[2, 8], [500, 5_000]),
        [FIXED_POINT_ONE / 10, FIXED_POINT_ONE]
    );
    assert_eq!(
        sizes(&[80, 120], [50_000, 100_000]),
        [FIXED_POINT_ONE / 2, FIXED_POINT_ONE]
    );
}

#[test]
fn what_is_left_of_all_resources_is_added_up() {
    let world = World::new().node("l", "a", &[375]);
    world.with_model(|cluster| {
        let cpu_comes_first = cluster.scales[0] == 3_750;
        let amounts = |millicores, pods| match cpu_comes_first {
            true => [millicores, pods],
            false => [pods, millicores],
        };
        let (room, load, more) = (amounts(3_750, 100), amounts(375, 25), amounts(750, 25));
        let slack = cluster.slack(&room, &load, &more);
        assert_eq!(slack, FIXED_POINT_ONE * 7 / 10 + FIXED_POINT_ONE / 2);
    });
}

#[test]
fn a_nodes_own_offers_are_those_of_its_type_that_are_no_cheaper() {
    let mut world = World::new().node("m", "a", &[900]).node("m", "a", &[900]);
    world.nodes[1].cents = 20;
    world.with_model(|cluster| {
        let own = cluster.own_offers.iter().map(|own| {
            let offers = cluster.offers.iter().enumerate();
            let own = offers.filter(|(at, _)| own.contains(*at));
            own.map(|(_, offer)| offer.instance_type.as_str())
                .collect::<Vec<_>>()
        });
        assert_eq!(own.collect::<Vec<_>>(), [vec!["m"], vec![]]);
    });
}
