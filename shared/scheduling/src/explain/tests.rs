//! Reasons reported for unplaced pods.

use model::{
    labels,
    pod::{NodeSelectorTerm, Pod},
    requirement::Requirement,
    selector::Operator,
};

use crate::{
    Reason,
    test_cluster::{TestCluster, instance_type, pod, pods, wanting},
};

/// Reason why a pod fits no node of 4 cores and 16 GB, or 8 cores and 64 GB.
fn reason(pod: Pod, change: impl FnOnce(&mut TestCluster)) -> Reason {
    let types = vec![
        instance_type("small", 4, 16, 10),
        instance_type("large", 8, 64, 20),
    ];
    let mut cluster = TestCluster::new(types, vec![pod]);
    change(&mut cluster);
    let result = cluster.solve();
    result.unplaced[0].reasons[0].1.clone()
}

fn selecting(mut pod: Pod, key: &str, value: &str) -> Pod {
    pod.node_selector.insert(key.to_owned(), value.to_owned());
    pod
}

#[test]
fn undefined_label_gets_a_suggestion() {
    let suggested_key = |key: &str| {
        let reason = reason(selecting(pod("web", 100), key, "x"), |_| {});
        let Reason::UndefinedLabel { key: found, meant } = reason else {
            panic!("{reason:?}");
        };
        assert_eq!(found, key);
        meant
    };
    assert_eq!(suggested_key("zone").as_deref(), Some(labels::ZONE));
    assert_eq!(
        suggested_key("topology.kubernetes.io/zome").as_deref(),
        Some(labels::ZONE)
    );
    // Custom labels get no suggestion.
    assert_eq!(suggested_key("type"), None);
    assert_eq!(suggested_key("example.com/arch"), None);
    assert_eq!(suggested_key("kubernetes.io/role"), None);
}

#[test]
fn reason_names_the_missing_resource_not_the_exhausted_one() {
    let short = Reason::Resource {
        name: "memory".to_owned(),
        wanted: 65 << 30,
        most: 64 << 30,
    };
    let web = pods("web", 1, 8_000, 65).remove(0);
    assert_eq!(reason(web, |_| {}), short);
}

#[test]
fn missing_resource_is_compared_with_allowed_types_only() {
    let short = Reason::Resource {
        name: "memory".to_owned(),
        wanted: 17 << 30,
        most: 16 << 30,
    };
    let web = pods("web", 1, 4_000, 17).remove(0);
    let web = selecting(web, labels::INSTANCE_TYPE, "small");
    assert_eq!(reason(web, |_| {}), short);
}

#[test]
fn requirements_that_no_type_meets_are_listed() {
    let web = selecting(pod("web", 100), labels::INSTANCE_TYPE, "huge");
    let wanted = Requirement::new(labels::INSTANCE_TYPE, Operator::In, ["huge".to_owned()]);
    assert_eq!(reason(web, |_| {}), Reason::NoMatchingType(vec![wanted]));
}

#[test]
fn reason_names_the_exceeded_limit() {
    let exceeded = Reason::Limit {
        name: "memory".to_owned(),
        left: 15 << 30,
        least: 16 << 30,
    };
    let limits = [("cpu", 4_000), ("memory", 15 << 30)];
    let reason = reason(pod("web", 100), |cluster| cluster.limits = limits.into());
    assert_eq!(reason, exceeded);
}

#[test]
fn requirements_met_by_an_absent_label_do_not_contradict() {
    let reason = |entries: [(Operator, &[&str]); 2]| {
        let mut web = pod("web", 100_000);
        web.node_affinity.required = vec![NodeSelectorTerm {
            match_expressions: entries
                .map(|(operator, values)| wanting("example.com/team", operator, values))
                .into(),
            match_fields: Vec::new(),
        }];
        matches!(reason(web, |_| {}), Reason::Contradiction { .. })
    };
    let (absent, other, own) = (
        (Operator::DoesNotExist, &[][..]),
        (Operator::NotIn, &["web"][..]),
        (Operator::In, &["web"][..]),
    );
    assert!(!reason([absent, other]));
    assert!(!reason([absent, absent]));
    assert!(reason([absent, own]));
    assert!(reason([own, other]));
}
