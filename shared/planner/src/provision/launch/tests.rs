use super::*;
use crate::fixtures;

fn requirement(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

/// Labels of a node from a template with these requirements, besides those of every node.
fn labelled(requirements: Vec<NodeSelectorRequirement>) -> Vec<(String, String)> {
    let snapshot = fixtures::snapshot();
    let mut pool = fixtures::pool("default", 0);
    let mut names = Names::new(&snapshot);
    let plain = of_template(&pool, &[], &mut names).labels;
    pool.template.requirements = requirements;
    let labels = of_template(&pool, &[], &mut names).labels.into_iter();
    labels.filter(|(key, _)| !plain.contains_key(key)).collect()
}

#[test]
fn node_has_a_value_for_each_required_label() {
    let all = [
        (requirement("team", Operator::In, &["b", "a"]), Some("a")),
        (requirement("rank", Operator::Gt, &["3"]), Some("4")),
        (requirement("rank", Operator::NotIn, &["0", "1"]), Some("2")),
        (requirement("rank", Operator::Exists, &[]), Some("0")),
        (requirement("rank", Operator::DoesNotExist, &[]), None),
    ];
    for (requirement, value) in all {
        let text = format!("{requirement:?}");
        let expected = value.map(|value| (requirement.key.clone(), value.to_owned()));
        assert_eq!(
            labelled(vec![requirement]),
            Vec::from_iter(expected),
            "{text}"
        );
    }
}

#[test]
fn well_known_labels_are_not_set() {
    let spot = requirement(labels::CAPACITY_TYPE, Operator::In, &["spot"]);
    let host = requirement(HOSTNAME, Operator::In, &["n"]);
    assert_eq!(labelled(vec![spot, host]), []);
}

#[test]
fn undeclared_key_has_a_value_only_if_requested() {
    let mut pool = fixtures::pool("default", 0);
    pool.template.requirements = vec![requirement("rank", Operator::Exists, &[])];
    let value =
        |operator, values| some_value(&(&requirement("team", operator, values)).into(), &pool);
    assert_eq!(value(Operator::In, &["a"]), Some("a".to_owned()));
    assert_eq!(value(Operator::NotIn, &["a"]), None);
}

/// The name of a NodeClaim becomes a label value of at most 63 characters.
#[test]
fn names_start_with_the_node_pools_name_within_label_length() {
    let snapshot = fixtures::snapshot();
    let mut names = Names::new(&snapshot);
    let mut name = |pool: &str| names.next(&fixtures::pool(pool, 0)).0;
    let all = [
        ("default", "default".to_owned()),
        (&"n".repeat(54), "n".repeat(54)),
        (&"n".repeat(63), "n".repeat(54)),
        (&format!("{}.-n", "n".repeat(52)), "n".repeat(52)),
    ];
    for (pool, begins) in all {
        let name = name(pool);
        let (base, suffix) = name.rsplit_once('-').unwrap();
        assert_eq!((base, suffix.len()), (begins.as_str(), 8), "{pool}");
    }
}
