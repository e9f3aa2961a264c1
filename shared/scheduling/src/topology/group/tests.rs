use super::*;

/// Zones, registered as domains in this order.
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
fn group_is_empty_before_recording_and_after_unrecording_all() {
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
fn host_is_occupied_until_its_last_pod_is_unrecorded() {
    let mut group = hosts();
    let occupied = |group: &Group| {
        group
            .occupied_hosts()
            .map(|host| host.0)
            .collect::<Vec<_>>()
    };
    let [first, second] = [HostId(0), HostId(1)];
    group.record_host(second);
    // Unrecording from an empty host has no effect.
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
fn every_counted_pod_changes_the_version() {
    let (algebra, mut by_zone, [a]) = zones(["a"]);
    by_zone.record(a, 2, &algebra);
    let mut by_host = hosts();
    by_host.record_host(HostId(0));
    by_host.record_host(HostId(0));
    assert_eq!((by_zone.version, by_host.version), (2, 2));
}

#[test]
fn affinity_needs_a_domain_open_to_pod_and_node() {
    let (mut algebra, mut group, [a, b, c]) = zones(["a", "b", "c"]);
    for zone in [a, b] {
        group.record(zone, 1, &algebra);
    }
    let (pod, node) = (only(&[a, c], &mut algebra), only(&[b, c], &mut algebra));
    assert_eq!(group.occupied_domains(Some(&pod), None, &algebra), [a]);
    assert_eq!(group.occupied_domains(None, Some(&node), &algebra), [b]);
    assert_eq!(
        group.occupied_domains(Some(&pod), Some(&node), &algebra),
        []
    );
}

#[test]
fn pod_starts_a_group_only_if_it_cannot_join_one() {
    let (mut algebra, mut group, [a, b, c]) = zones(["a", "b", "c"]);
    let node = only(&[b, c], &mut algebra);
    let first_domains = |group: &Group, pod, as_upstream| {
        group.first_domains(pod, Some(&node), as_upstream, &algebra)
    };
    assert_eq!(group.first_domains(None, None, true, &algebra), [a, b, c]);
    assert_eq!(first_domains(&group, None, true), [b, c]);
    assert_eq!(first_domains(&group, None, false), [b, c]);
    group.record(a, 1, &algebra);
    // The members in the first zone are out of the node's reach, but within the pod's.
    assert_eq!(first_domains(&group, None, true), []);
    assert_eq!(first_domains(&group, Some(&*node), true), [b, c]);
    // The Kubernetes scheduler does not ask whether the pod could join them.
    assert_eq!(first_domains(&group, Some(&*node), false), []);
}

/// Domains with the pods in them.
fn domains_with_counts(group: &Group) -> Vec<(Sym, u32)> {
    let domains = group.domains().iter();
    domains.map(|domain| (domain.value, domain.count)).collect()
}

#[test]
fn unregistered_domain_is_dropped_with_its_last_pod() {
    let (mut algebra, mut group, [a]) = zones(["a"]);
    let b = algebra.symbol("b");
    group.record(a, 1, &algebra);
    group.record(b, 2, &algebra);
    for expected in [vec![(a, 1), (b, 1)], vec![(a, 1)], vec![(a, 1)]] {
        group.unrecord(b, &algebra);
        assert_eq!(domains_with_counts(&group), expected);
    }
    group.unrecord(a, &algebra);
    assert_eq!(domains_with_counts(&group), [(a, 0)]);
    // Unrecording from an empty domain has no effect.
    group.unrecord(a, &algebra);
    assert_eq!(domains_with_counts(&group), [(a, 0)]);
}

#[test]
fn set_registered_replaces_domains_without_pods() {
    let (mut algebra, mut group, [a, b]) = zones(["a", "b"]);
    let c = algebra.symbol("c");
    group.record(a, 1, &algebra);
    group.set_registered(&[c], &algebra);
    assert_eq!(domains_with_counts(&group), [(a, 1), (c, 0)], "not {b:?}");
    group.unrecord(a, &algebra);
    assert_eq!(domains_with_counts(&group), [(c, 0)]);
}
