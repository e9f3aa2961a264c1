use super::*;

/// Zones, known as domains in this order.
fn zones<const N: usize>(names: [&str; N]) -> (Algebra, Group, [Sym; N]) {
    let mut algebra = Algebra::new([]);
    let key = algebra.symbol("zone");
    let names = names.map(|name| algebra.symbol(name));
    let mut group = Group::new(GroupKind::Affinity, key, false, None);
    for name in names {
        group.register(name, &algebra);
    }
    (algebra, group, names)
}

fn hosts() -> Group {
    let mut algebra = Algebra::new([]);
    let key = algebra.symbol("hostname");
    Group::new(GroupKind::Affinity, key, true, None)
}

fn only(values: &[Sym], algebra: &mut Algebra) -> std::rc::Rc<Req> {
    let id = algebra.one_of(values.to_vec());
    algebra.req(id)
}

#[test]
fn a_group_is_empty_until_a_pod_is_recorded_and_once_all_are_taken_back() {
    let (algebra, mut group, [a, b]) = zones(["a", "b"]);
    group.record(b, 0, &algebra);
    assert!(group.is_empty());
    for zone in [a, a, b] {
        group.record(zone, 1, &algebra);
        assert!(!group.is_empty());
    }
    for zone in [a, b] {
        group.unrecord(zone, &algebra);
        assert!(!group.is_empty());
    }
    group.unrecord(a, &algebra);
    assert!(group.is_empty());
}

#[test]
fn hosts_are_occupied_until_their_last_pod_is_taken_back() {
    let mut group = hosts();
    let occupied = |group: &Group| {
        group
            .occupied_hosts()
            .map(|host| host.0)
            .collect::<Vec<_>>()
    };
    let [first, second] = [HostId(0), HostId(1)];
    group.record_host(second);
    // Nothing is there to take back.
    group.unrecord_host(first);
    assert_eq!((occupied(&group), group.on_host(second)), (vec![1], 1));
    group.record_host(second);
    group.record_host(first);
    assert_eq!((occupied(&group), group.on_host(second)), (vec![0, 1], 2));
    group.unrecord_host(second);
    assert_eq!((occupied(&group), group.on_host(second)), (vec![0, 1], 1));
    group.unrecord_host(second);
    assert_eq!((occupied(&group), group.is_empty()), (vec![0], false));
    group.unrecord_host(first);
    assert_eq!((occupied(&group), group.is_empty()), (vec![], true));
}

#[test]
fn every_pod_that_is_counted_moves_the_version() {
    let (algebra, mut by_zone, [a]) = zones(["a"]);
    by_zone.record(a, 2, &algebra);
    let mut by_host = hosts();
    by_host.record_host(HostId(0));
    by_host.record_host(HostId(0));
    assert_eq!((by_zone.version, by_host.version), (2, 2));
}

#[test]
fn pods_join_others_only_where_both_they_and_the_node_may_be() {
    let (mut algebra, mut group, [a, b, c]) = zones(["a", "b", "c"]);
    for zone in [a, b] {
        group.record(zone, 1, &algebra);
    }
    let (pod, node) = (only(&[a, c], &mut algebra), only(&[b, c], &mut algebra));
    assert_eq!(group.attracting(Some(&pod), None, &algebra), [a]);
    assert_eq!(group.attracting(None, Some(&node), &algebra), [b]);
    assert_eq!(group.attracting(Some(&pod), Some(&node), &algebra), []);
}

#[test]
fn a_pod_begins_a_group_only_where_it_cannot_join_one() {
    let (mut algebra, mut group, [a, b, c]) = zones(["a", "b", "c"]);
    let node = only(&[b, c], &mut algebra);
    let first_domains = |group: &Group, pod, as_upstream| {
        group.first_domains(pod, Some(&node), as_upstream, &algebra)
    };
    assert_eq!(group.first_domains(None, None, true, &algebra), [a, b, c]);
    assert_eq!(first_domains(&group, None, true), [b, c]);
    assert_eq!(first_domains(&group, None, false), [b, c]);
    group.record(a, 1, &algebra);
    // Those in the first zone are out of the node's reach, not of the pod's.
    assert_eq!(first_domains(&group, None, true), []);
    assert_eq!(first_domains(&group, Some(&*node), true), [b, c]);
    // Kubernetes' scheduler does not ask whether the pod could join them.
    assert_eq!(first_domains(&group, Some(&*node), false), []);
}

/// Domains and the pods in them.
fn known(group: &Group) -> Vec<(Sym, u32)> {
    let domains = group.domains().iter();
    domains.map(|domain| (domain.value, domain.count)).collect()
}

#[test]
fn a_domain_that_pods_made_known_is_forgotten_with_the_last_of_them_and_others_stay() {
    let (mut algebra, mut group, [a]) = zones(["a"]);
    let b = algebra.symbol("b");
    group.record(a, 1, &algebra);
    group.record(b, 2, &algebra);
    for expected in [vec![(a, 1), (b, 1)], vec![(a, 1)], vec![(a, 1)]] {
        group.unrecord(b, &algebra);
        assert_eq!(known(&group), expected);
    }
    group.unrecord(a, &algebra);
    assert_eq!(known(&group), [(a, 0)]);
    // Nothing is there to take back.
    group.unrecord(a, &algebra);
    assert_eq!(known(&group), [(a, 0)]);
}

#[test]
fn what_is_to_be_known_takes_the_place_of_what_was_but_for_pods() {
    let (mut algebra, mut group, [a, b]) = zones(["a", "b"]);
    let c = algebra.symbol("c");
    group.record(a, 1, &algebra);
    group.set_registered(&[c], &algebra);
    assert_eq!(known(&group), [(a, 1), (c, 0)], "not {b:?}");
    group.unrecord(a, &algebra);
    assert_eq!(known(&group), [(c, 0)]);
}
