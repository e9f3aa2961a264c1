//! Contents of the model: requirements of each kind of pod, and the nodes and offers open to it.

use model::{
    CapacityType, labels,
    pod::NodeSelectorTerm,
    selector::{NodeSelectorRequirement, Operator},
};

use super::{
    super::cluster_model::{ClusterModel, FIXED_POINT_ONE},
    fixture::{CENT, SmallCluster, instance_type},
};

/// NodePools and instance types of a new node for a pod, cheapest first.
fn offers_for(cluster: &ClusterModel, pod: usize) -> Vec<(usize, &str)> {
    let kind = cluster.kind(pod).unwrap();
    let offers = cluster.offers.iter().enumerate();
    let open = offers.filter(|(at, _)| kind.offers.contains(*at));
    open.map(|(_, offer)| (offer.pool, offer.instance_type.as_str()))
        .collect()
}

/// Nodes of two sizes in two zones. The pods of the first node select nothing, an instance type, and a zone.
fn selective_pods() -> SmallCluster {
    let mut fixture = SmallCluster::new()
        .node("l", "a", &[900, 900, 900])
        .node("m", "b", &[900])
        .node("l", "b", &[900]);
    for (pod, key, value) in [(1, labels::INSTANCE_TYPE, "m"), (2, labels::ZONE, "b")] {
        let selector = [(key.to_owned(), value.to_owned())];
        fixture.pods[pod].node_selector = selector.into();
    }
    fixture
}

#[test]
fn kind_lists_the_nodes_and_offers_that_meet_its_requirements() {
    selective_pods().with_model(|cluster| {
        let nodes = [0, 1, 2].map(|pod| &cluster.kind(pod).unwrap().nodes[..]);
        assert_eq!(nodes, [&[0, 1, 2][..], &[1], &[1, 2]]);
        let all = ["xs", "s", "m", "l"].map(|name| (0, name));
        let launched = [0, 1, 2].map(|pod| offers_for(cluster, pod));
        assert_eq!(launched, [&all[..], &[(0, "m")], &all]);
        let prices = cluster.offers.iter().map(|offer| offer.price / CENT);
        assert_eq!(prices.collect::<Vec<_>>(), [6, 10, 19, 36]);
    });
}

#[test]
fn dominated_type_is_kept_for_pods_that_require_it() {
    let mut fixture = selective_pods();
    let like_m = instance_type("m-2", 4, 20, CapacityType::OnDemand);
    fixture.types.push(like_m);
    fixture.with_model(|cluster| assert_eq!(cluster.offers.len(), 4));
    let selector = [(labels::INSTANCE_TYPE.to_owned(), "m-2".to_owned())];
    fixture.pods[1].node_selector = selector.into();
    fixture.with_model(|cluster| {
        assert_eq!(cluster.offers.len(), 5);
        assert_eq!(offers_for(cluster, 1), [(0, "m-2")]);
    });
}

#[test]
fn node_pools_of_lower_weight_are_left_out() {
    let pools = |second: i32| {
        let mut fixture = SmallCluster::new().node("l", "a", &[900]);
        fixture.pools = vec![("default".into(), 1), ("other".into(), second)];
        fixture.with_model(|cluster| {
            let launched = offers_for(cluster, 0).into_iter();
            let launched = launched.filter(|(_, name)| *name == "s");
            launched.map(|(pool, _)| pool).collect::<Vec<_>>()
        })
    };
    assert_eq!(pools(1), [0, 1]);
    assert_eq!(pools(0), [0]);
}

#[test]
fn nodes_that_are_cooling_down_take_no_pods() {
    let mut fixture = selective_pods();
    fixture.nodes[1].cooling_down = true;
    fixture.with_model(|cluster| {
        assert_eq!(cluster.kind(0).unwrap().nodes, [0, 2]);
        assert_eq!(cluster.kind(1).unwrap().nodes, [0; 0]);
    });
}

#[test]
fn preference_that_nothing_meets_is_relaxed() {
    let mut fixture = SmallCluster::new().node("l", "a", &[900]);
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
    fixture.pods[0].node_affinity.preferred = vec![(1, term)];
    fixture.with_model(|cluster| {
        assert_eq!(cluster.kind(0).unwrap().nodes, [0]);
        assert_eq!(offers_for(cluster, 0).len(), 4);
    });
}

#[test]
fn pod_size_is_its_share_of_the_average_new_node() {
    let sizes = |types: &[i64], pods: [i64; 2]| {
        let mut fixture = SmallCluster::new().node("l", "a", &pods);
        let types = types.iter().map(|cores| {
            let name = format!("of-{cores}");
            instance_type(&name, *cores, *cores, CapacityType::OnDemand)
        });
        fixture.types = types.collect();
        fixture.with_model(|cluster| [0, 1].map(|pod| cluster.kind(pod).unwrap().size))
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
fn slack_sums_all_resources() {
    let fixture = SmallCluster::new().node("l", "a", &[375]);
    fixture.with_model(|cluster| {
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
fn own_offers_have_the_nodes_type_and_no_lower_price() {
    let mut fixture = SmallCluster::new()
        .node("m", "a", &[900])
        .node("m", "a", &[900]);
    fixture.nodes[1].cents = 20;
    fixture.with_model(|cluster| {
        let own = cluster.own_offers.iter().map(|own| {
            let offers = cluster.offers.iter().enumerate();
            let own = offers.filter(|(at, _)| own.contains(*at));
            own.map(|(_, offer)| offer.instance_type.as_str())
                .collect::<Vec<_>>()
        });
        assert_eq!(own.collect::<Vec<_>>(), [vec!["m"], vec![]]);
    });
}
