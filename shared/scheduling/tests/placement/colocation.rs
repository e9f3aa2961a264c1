//! Topology constraints: which pods are counted, where the first pod of a group starts, and which pods wait for others.

use model::{
    labels::{HOSTNAME, ZONE},
    pod::{NodeInclusionPolicy, NodeSelectorTerm, Pod, PodVolume},
    selector::{NodeSelectorRequirement, Operator},
    snapshot::Optimize,
    taint::{Taint, TaintEffect},
    volume::{StorageClass, VolumeClaim},
};

use super::cluster::{Cluster, app, entry, in_zone, spread, term};

const TEAM: &str = "example.com/team";
const RACK: &str = "example.com/rack";

fn webs(count: usize) -> Vec<Pod> {
    vec![app("web", 100); count]
}

fn spread_by_zone(mut pod: Pod) -> Pod {
    pod.topology_spread.push(spread(ZONE, "web"));
    pod
}

fn alternatives(pod: &mut Pod, all: &[NodeSelectorRequirement]) {
    let terms = all.iter().map(|entry| NodeSelectorTerm {
        match_expressions: vec![entry.clone()],
        match_fields: Vec::new(),
    });
    pod.node_affinity.required = terms.collect();
}

fn taint(effect: TaintEffect) -> Taint {
    Taint {
        key: "dedicated".to_owned(),
        value: "x".to_owned(),
        effect,
    }
}

#[test]
fn spread_honors_node_affinity_unless_its_policy_ignores_it() {
    use NodeInclusionPolicy::{Honor, Ignore};
    let place = |policy| {
        let mut pod = spread_by_zone(app("web", 100));
        pod.topology_spread[0].node_affinity_policy = policy;
        pod.node_selector.insert(TEAM.to_owned(), "x".to_owned());
        Cluster::new()
            .node(&[(ZONE, "a"), (TEAM, "x")], 1_000, Vec::new())
            .node(&[(ZONE, "a"), (TEAM, "y")], 1_000, webs(3))
            .node(&[(ZONE, "b"), (TEAM, "x")], 1_000, webs(1))
            .pod(pod)
            .places()
    };
    assert_eq!([None, Some(Honor)].map(place), [["n-00"], ["n-00"]]);
    assert_eq!(place(Some(Ignore)), ["n-02"]);
}

#[test]
fn spread_ignores_taints_unless_its_policy_honors_them() {
    use NodeInclusionPolicy::{Honor, Ignore};
    let place = |policy| {
        let mut pod = spread_by_zone(app("web", 100));
        pod.topology_spread[0].node_taints_policy = policy;
        let mut cluster = Cluster::new()
            .node(&[(ZONE, "a")], 1_000, Vec::new())
            .node(&[(ZONE, "a")], 1_000, webs(3))
            .node(&[(ZONE, "b")], 1_000, webs(1))
            .pod(pod);
        cluster.nodes[1].taints = vec![taint(TaintEffect::NoSchedule)];
        cluster.places()
    };
    assert_eq!([None, Some(Ignore)].map(place), [["n-02"], ["n-02"]]);
    assert_eq!(place(Some(Honor)), ["n-00"]);
}

#[test]
fn constraint_applies_to_its_namespaces_only() {
    let place = |namespaces: &[&str]| {
        let web = app("web", 100);
        let mut other = web.clone();
        other.key.namespace = "other".to_owned();
        let mut pod = app("web", 100);
        let mut away = term(HOSTNAME, "web");
        away.namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        pod.pod_anti_affinity.required = vec![away];
        Cluster::new()
            .node(&[(ZONE, "a")], 1_000, vec![web])
            .node(&[(ZONE, "a")], 1_000, vec![other])
            .pod(pod)
            .places()
    };
    assert_eq!(place(&[]), ["n-01"]);
    assert_eq!(place(&["other"]), ["n-00"]);
    assert_eq!(place(&["default", "other"]), ["new-0"]);
}

#[test]
fn first_affinity_pod_chooses_a_zone_and_others_follow() {
    let mut pod = app("web", 9_000);
    pod.pod_affinity.required = vec![term(ZONE, "web")];
    let apart = Cluster::new()
        .pod(pod.clone())
        .pod(pod.clone())
        .pod(pod.clone());
    let result = apart.result();
    let zones = result.new_nodes.iter();
    let zones = zones.map(|node| node.requirements.get(ZONE).unwrap().values.clone());
    let zones: Vec<_> = zones.collect();
    assert!(zones.len() == 3 && zones[0].len() == 1);
    assert!(zones.iter().all(|zone| *zone == zones[0]));
    // If a group already has members, no pod starts it elsewhere.
    let with_others = Cluster::new()
        .node(&[(ZONE, "b")], 16_000, Vec::new())
        .node(&[(ZONE, "a")], 0, webs(1))
        .pod(pod);
    assert_eq!(with_others.places(), ["new-0"]);
}

#[test]
fn pod_starts_a_host_group_only_if_it_cannot_reach_members() {
    let place = |hosts: &[&str]| {
        let mut pod = app("web", 100);
        pod.pod_affinity.required = vec![term(HOSTNAME, "web")];
        alternatives(&mut pod, &[entry(HOSTNAME, hosts)]);
        Cluster::new()
            .node(&[], 1_000, Vec::new())
            .node(&[], 0, webs(1))
            .pod(pod)
            .places()
    };
    assert_eq!(place(&["n-00"]), ["n-00"]);
    assert_eq!(place(&["n-00", "n-01"]), ["nowhere"]);
}

#[test]
fn constraints_on_several_keys_apply_together() {
    let mut pod = spread_by_zone(app("web", 100));
    pod.topology_spread.push(spread(RACK, "web"));
    let cluster = Cluster::new()
        .node(&[(ZONE, "a"), (RACK, "1")], 1_000, Vec::new())
        .pod(pod);
    assert_eq!(cluster.places(), ["n-00"]);
    // Both terms select the same zone, so the pod is counted there.
    let mut pod = spread_by_zone(app("web", 9_000));
    pod.pod_anti_affinity.required = vec![term(ZONE, "db")];
    let result = Cluster::new().pod(pod.clone()).pod(pod).result();
    let zones = result.new_nodes.iter();
    let zones = zones.map(|node| node.requirements.get(ZONE).unwrap().values.len());
    assert_eq!(zones.collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn late_group_counts_pods_placed_before() {
    let mut elsewhere = in_zone("a", app("web", 4_000));
    elsewhere.key.namespace = "other".to_owned();
    let mut late = spread_by_zone(app("web", 1_000));
    // The pod drops its first term, and from then on the spread counts other nodes.
    alternatives(
        &mut late,
        &[entry(TEAM, &["nobody"]), entry(ZONE, &["a", "b"])],
    );
    let cluster = Cluster::new()
        .node(&[(ZONE, "a")], 8_000, Vec::new())
        .node(&[(ZONE, "b")], 8_000, Vec::new())
        .pod(elsewhere)
        .pod(in_zone("a", app("db", 3_000)))
        .pod(in_zone("b", app("web", 2_000)))
        .pod(late);
    assert_eq!(cluster.places(), ["n-00", "n-00", "n-01", "n-00"]);
}

#[test]
fn spread_drops_nodes_of_relaxed_terms_only_under_upstream_rules() {
    let place = |optimize| {
        let mut pod = spread_by_zone(app("web", 100));
        alternatives(&mut pod, &[entry(TEAM, &["x"]), entry(TEAM, &["y"])]);
        let mut cluster = Cluster::new()
            .node(&[(ZONE, "a"), (TEAM, "y")], 1_000, Vec::new())
            .node(&[(ZONE, "a"), (TEAM, "x")], 0, webs(2))
            .node(&[(ZONE, "b"), (TEAM, "y")], 1_000, webs(1))
            .node(&[(ZONE, "b"), (TEAM, "z")], 0, webs(2))
            .pod(pod);
        cluster.options.optimize = optimize;
        cluster.places()
    };
    assert_eq!(place(Optimize::Upstream), ["n-00"]);
    assert_eq!(place(Optimize::Cost), ["n-02"]);
}

#[test]
fn larger_pod_joins_the_smaller_pod_it_has_affinity_to() {
    let mut large = app("web", 4_000);
    large.pod_affinity.required = vec![term(ZONE, "db")];
    let cluster = Cluster::new()
        .node(&[(ZONE, "a")], 8_000, Vec::new())
        .pod(large)
        .pod(app("db", 2_000));
    assert_eq!(cluster.places(), ["n-00", "n-00"]);
}

#[test]
fn pod_with_a_zonal_volume_waits_for_its_affinity_group() {
    let mut large = app("web", 4_000);
    large.pod_affinity.required = vec![term(ZONE, "db")];
    large.volumes = vec![PodVolume::Claim {
        claim: "data".to_owned(),
    }];
    let zone = |zone: &str| [(ZONE.to_owned(), vec![zone.to_owned()])].into();
    let pods = |mut cluster: Cluster| {
        cluster.storage.claims.push(VolumeClaim {
            namespace: "default".to_owned(),
            name: "data".to_owned(),
            storage_class: Some("local".to_owned()),
            ..VolumeClaim::default()
        });
        cluster.storage.classes.push(StorageClass {
            name: "local".to_owned(),
            wait_for_first_consumer: true,
            allowed_topologies: vec![zone("a"), zone("b")],
            ..StorageClass::default()
        });
        cluster
            .pod(large.clone())
            .pod(in_zone("a", app("db", 2_000)))
    };
    let existing = pods(Cluster::new().node(&[(ZONE, "a")], 8_000, Vec::new()));
    assert_eq!(existing.places(), ["n-00", "n-00"]);
    let new = pods(Cluster::new()).pod(in_zone("a", app("cache", 5_000)));
    assert_eq!(new.places(), ["new-0"; 3]);
}

#[test]
fn node_without_zone_may_be_in_any_zone_the_pod_allows() {
    let mut pod = spread_by_zone(app("web", 100));
    let mut elsewhere = entry(ZONE, &["a"]);
    elsewhere.operator = Operator::NotIn;
    alternatives(&mut pod, &[elsewhere]);
    let cluster = Cluster::new().node(&[], 1_000, Vec::new()).pod(pod);
    assert_eq!(cluster.places(), ["n-00"]);
}
