use super::*;
use crate::test_world;

fn requirement(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

/// The labels of a node made of a template with these requirements alone, besides those that all have.
fn labelled(requirements: Vec<NodeSelectorRequirement>) -> Vec<(String, String)> {
    let snapshot = test_world::snapshot();
    let mut pool = test_world::pool("default", 0);
    let mut names = Names::new(&snapshot);
    let plain = of_template(&pool, &[], &mut names).labels;
    pool.template.requirements = requirements;
    let labels = of_template(&pool, &[], &mut names).labels.into_iter();
    labels.filter(|(key, _)| !plain.contains_key(key)).collect()
}

#[test]
fn a_node_has_a_value_of_each_label_that_its_template_requires() {
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
fn labels_that_others_set_are_left_to_them() {
    let spot = requirement(labels::CAPACITY_TYPE, Operator::In, &["spot"]);
    let host = requirement(HOSTNAME, Operator::In, &["n"]);
    assert_eq!(labelled(vec![spot, host]), []);
}

#[test]
fn a_key_that_the_nodepool_does_not_declare_has_no_value_unless_one_is_asked_for() {
    let mut pool = test_world::pool("default", 0);
    pool.template.requirements = vec![requirement("rank", Operator::Exists, &[])];
    let value =
        |operator, values| some_value(&(&requirement("team", operator, values)).into(), &pool);
    assert_eq!(value(Operator::In, &["a"]), Some("a".to_owned()));
    assert_eq!(value(Operator::NotIn, &["a"]), None);
}

/// A NodeClaim's name becomes a label's value: 63 characters.
#[test]
fn names_of_nodes_begin_with_as_much_of_their_node_pools_as_labels_have_room_for() {
    let snapshot = test_world::snapshot();
    let mut names = Names::new(&snapshot);
    let mut name = |pool: &str| names.next(&test_world::pool(pool, 0)).0;
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
