//! Nodes that the search tries, preferences that it relaxes, and fields of new nodes.

use std::{collections::BTreeSet, rc::Rc};

use model::{
    CapacityType, Resources,
    catalog::Reservation,
    labels::{HOSTNAME, INSTANCE_TYPE, ZONE},
    resources::NODES,
    selector::Operator,
    snapshot::MinValuesPolicy,
    taint::{Taint, TaintEffect, Toleration, TolerationOperator},
};
use scheduling::{BaselineCluster, SimulatedRemoval};

use super::{
    cluster::{Cluster, app, entry, in_zone, spread, term},
    requirement,
};

#[test]
fn free_capacity_on_the_last_of_many_nodes_is_found() {
    let mut cluster = Cluster::new();
    for free in std::iter::repeat_n(0, 39).chain([1_000]) {
        cluster = cluster.node(&[], free, Vec::new());
    }
    assert_eq!(cluster.pod(app("web", 600)).places(), ["n-39"]);
}

#[test]
fn no_node_is_launched_for_a_pod_that_selects_a_hostname() {
    let place = |operator| {
        let mut pod = app("web", 100);
        let mut host = entry(HOSTNAME, &["n-00"]);
        host.operator = operator;
        pod.node_affinity.required = vec![model::pod::NodeSelectorTerm {
            match_expressions: vec![host],
            match_fields: Vec::new(),
        }];
        Cluster::new().node(&[], 0, Vec::new()).pod(pod).places()
    };
    assert_eq!(place(Operator::In), ["nowhere"]);
    assert_eq!(place(Operator::NotIn), ["new-0"]);
}

#[test]
fn prefer_no_schedule_is_tolerated_after_relaxation() {
    let mut cluster = Cluster::new().pod(app("web", 100)).pod(app("web", 99_000));
    cluster.taints = vec![Taint {
        key: "dedicated".to_owned(),
        value: "x".to_owned(),
        effect: TaintEffect::PreferNoSchedule,
    }];
    assert_eq!(cluster.places(), ["new-0", "nowhere"]);
}

#[test]
fn in_flight_claim_is_tried_again_after_it_changed() {
    // Sixteen cores in two zones, thirty-two in the second zone only.
    let mut cluster = Cluster::new();
    let mut large = cluster.types[4].clone();
    large.name = "m.32".to_owned();
    large.requirements.0.remove(INSTANCE_TYPE);
    large.requirements.add(requirement(INSTANCE_TYPE, "m.32"));
    large.capacity = [("cpu", 32_000), ("pods", 20)].into();
    large.offerings.retain(|offering| offering.zone == "b");
    cluster.types = vec![cluster.types[4].clone(), large];
    cluster.limits = [(NODES, 1)].into();
    let mut spreading = app("web", 10_000);
    spreading.topology_spread.push(spread(ZONE, "web"));
    spreading.topology_spread[0].max_skew = 2;
    let cluster = cluster
        .node(&[(ZONE, "b")], 0, vec![app("web", 100)])
        .pod(app("first", 11_000))
        // The first zone has fewer pods, but no type large enough for both.
        .pod(spreading)
        .pod(in_zone("b", app("last", 1_000)));
    assert_eq!(cluster.places(), ["new-0"; 3]);
}

#[test]
fn relaxed_min_values_are_reported_for_later_pods() {
    let mut cluster = Cluster::new().pod(app("web", 100)).pod(app("web", 100));
    let mut many = entry(INSTANCE_TYPE, &[]);
    (many.operator, many.min_values) = (Operator::Exists, Some(50));
    cluster.requirements.push(many);
    cluster.options.min_values_policy = MinValuesPolicy::BestEffort;
    let result = cluster.result();
    let relaxed = result.new_nodes.iter();
    let relaxed = relaxed.map(|node| (node.pods.len(), node.min_values_relaxed));
    assert_eq!(relaxed.collect::<Vec<_>>(), [(2, true)]);
}

#[test]
fn pod_may_select_the_reservation_label() {
    let mut cluster = Cluster::new();
    cluster.options.reservation_id_label = "example.com/reservation";
    let offering = &mut cluster.types[0].offerings[0];
    offering.capacity_type = CapacityType::Reserved;
    offering.reservation = Some(Reservation {
        id: "r".to_owned(),
        capacity: 1,
        is_full: false,
    });
    let mut pod = app("web", 100);
    pod.node_selector
        .insert("example.com/reservation".to_owned(), "r".to_owned());
    assert_eq!(cluster.pod(pod).places(), ["new-0"]);
}

#[test]
fn requests_include_daemons_of_every_type() {
    let mut daemon = app("daemon", 300);
    daemon
        .node_selector
        .insert(INSTANCE_TYPE.to_owned(), "m.16".to_owned());
    let asked = |millicores| {
        let mut cluster = Cluster::new().pod(app("web", millicores));
        cluster.daemons = vec![daemon.clone()];
        cluster.result().new_nodes[0].requests.get("cpu")
    };
    assert_eq!([9_000, 1_000].map(asked), [9_300, 1_000]);
}

#[test]
fn reason_is_the_missing_offering() {
    let mut cluster = Cluster::new().pod(app("web", 100));
    cluster.requirements.clear();
    for offering in cluster
        .types
        .iter_mut()
        .flat_map(|kind| &mut kind.offerings)
    {
        offering.available = false;
    }
    let (_, reason) = &cluster.result().unplaced[0].reasons[0];
    assert_eq!(
        reason.to_string(),
        "no instance type has an available offering"
    );
}

/// Placement of the waiting pods and of the pods of removed nodes.
fn without(cluster: &Cluster, nodes: &[usize], remaining: Resources) -> Vec<String> {
    cluster.with_input(|input| {
        let mut whole = input.clone();
        let waiting = whole.pods.len();
        let removed = nodes.iter().map(|node| &input.hosts[*node]);
        whole.pods.extend(removed.flat_map(|host| &host.pods));
        let pods: Vec<usize> = (waiting..whole.pods.len()).collect();
        let result = BaselineCluster::new(whole, waiting, None).without(&SimulatedRemoval {
            pods: &pods,
            moved: &vec![false; pods.len()],
            nodes: &BTreeSet::from_iter(nodes.iter().copied()),
            remaining: vec![remaining],
            wanted: &[],
        });
        cluster.places_in(&result, waiting + pods.len())
    })
}

#[test]
fn removed_node_releases_its_part_of_the_limits() {
    let mut cluster = Cluster::new().node(&[], 0, vec![app("web", 100)]);
    cluster.limits = [(NODES, 0)].into();
    let place = |left| without(&cluster, &[0], [(NODES, left)].into());
    assert_eq!([0, 1].map(place), [["nowhere"], ["new-0"]]);
}

#[test]
fn zone_of_a_removed_node_alone_is_not_a_domain() {
    let mut web = app("web", 100);
    web.topology_spread.push(spread(ZONE, "web"));
    let mut cluster = Cluster::new()
        .node(&[(ZONE, "z")], 0, vec![web.clone()])
        .node(&[(ZONE, "a")], 1_000, vec![web]);
    cluster.requirements = vec![entry(ZONE, &["a"])];
    assert_eq!(without(&cluster, &[0], Resources::default()), ["n-01"]);
}

/// Two pods with anti-affinity in zone a, whose nodes have a taint. The first tolerates it; the second does if `tolerates`.
fn apart(tolerates: bool) -> Cluster {
    let mut away = app("db", 100);
    away.pod_anti_affinity.required = vec![term(ZONE, "db")];
    let mut tolerant = away.clone();
    tolerant.tolerations.push(Toleration {
        key: "dedicated".to_owned(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        toleration_seconds: None,
    });
    let other = if tolerates { tolerant.clone() } else { away };
    let mut cluster =
        Cluster::new()
            .node(&[(ZONE, "a")], 0, vec![tolerant])
            .node(&[(ZONE, "a")], 0, vec![other]);
    cluster.taints = vec![Taint {
        key: "dedicated".to_owned(),
        value: "x".to_owned(),
        effect: TaintEffect::NoSchedule,
    }];
    cluster
}

#[test]
fn domains_follow_the_first_remaining_owner() {
    let place = |tolerates| without(&apart(tolerates), &[0], Resources::default());
    assert_eq!(place(true), ["new-0"]);
    assert_eq!(place(false), ["nowhere"]);
}

/// The first is the pod whose name is first. A third pod, which both have anti-affinity to, comes last and tolerates the
/// taint as well.
#[test]
fn domains_follow_the_first_moved_owner_if_none_remains() {
    let places = |other: &str| {
        let mut cluster = apart(false);
        let mut plain = cluster.nodes[0].pods[0].clone();
        plain.pod_anti_affinity.required.clear();
        plain.key.name = "z".to_owned();
        cluster.nodes[1].pods[0].key.name = other.to_owned();
        cluster.nodes[1].pods.push(plain);
        without(&cluster, &[0, 1], Resources::default())
    };
    assert_eq!(places("y"), ["new-0", "nowhere", "nowhere"]);
    assert_eq!(places("a"), ["nowhere", "nowhere", "nowhere"]);
}

#[test]
fn waiting_pods_respect_constraints_of_moved_pods() {
    let near_db = || {
        let mut web = app("web", 100);
        web.pod_affinity.required = vec![term(ZONE, "db")];
        web
    };
    let mut db = app("db", 100);
    db.pod_anti_affinity.required = vec![term(HOSTNAME, "web")];
    let cluster = Cluster::new()
        .node(&[(ZONE, "a")], 1_000, Vec::new())
        .pod(near_db())
        .pod(db)
        .pod(near_db());
    let places = cluster.with_input(|input| {
        let baseline = BaselineCluster::new(input.clone(), 1, None);
        let result = baseline.without(&SimulatedRemoval {
            pods: &[1, 2],
            moved: &[false; 2],
            nodes: &BTreeSet::new(),
            remaining: vec![Resources::default()],
            wanted: &[(1, scheduling::PlacementTarget::Node(0))],
        });
        cluster.places_in(&result, 3)
    });
    assert_eq!(places, ["nowhere", "n-00", "new-0"]);
}

#[test]
fn precomputed_indexes_are_reused_for_equal_resources() {
    let known = Cluster::new().pod(app("web", 100));
    let other = |name: &str| {
        let mut pod = app("other", 300);
        pod.shape.requests.set(name, 1);
        Cluster::new().pod(pod)
    };
    let (alike, unlike) = (other("cpu"), other("nvidia.com/gpu"));
    known.with_input(|known| {
        let baseline = BaselineCluster::new(known.clone(), 1, None);
        let again = |cluster: &Cluster| {
            cluster.with_input(|input| {
                // Input with the NodePools of `known` and these pods.
                let mut request = known.clone();
                request.pods.clone_from(&input.pods);
                let precomputed = baseline.precomputed();
                let baseline = BaselineCluster::new(request, 1, Some(Rc::clone(precomputed)));
                Rc::ptr_eq(baseline.precomputed(), precomputed)
            })
        };
        assert!(again(&alike));
        assert!(!again(&unlike), "no type has that");
    });
}
