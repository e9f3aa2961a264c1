//! Choices and requirements of new nodes.

use model::{
    CapacityType, InstanceType, labels,
    plan::Launch,
    requirement::Requirement,
    selector::{NodeSelectorRequirement, Operator},
    snapshot::{MinValuesPolicy, Optimize},
};

use crate::{
    NewNode, Reason,
    test_cluster::{TestCluster, ZONES, instance_type, offering, pod, wanting},
};

const MOST: usize = Launch::INSTANCE_TYPES_MAX;

fn only_new_node(cluster: &TestCluster) -> NewNode {
    let result = cluster.solve();
    assert!(result.unplaced.is_empty(), "{:?}", result.unplaced);
    assert_eq!(result.new_nodes.len(), 1);
    result.new_nodes[0].clone()
}

fn at_least(number: u32, entry: NodeSelectorRequirement) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        min_values: Some(number),
        ..entry
    }
}

/// One type more than a launch may name, all at one price. The last by name is listed first.
fn types_beyond_the_limit() -> Vec<InstanceType> {
    let names = (0..=MOST).rev().map(|number| format!("m-{number:04}"));
    names.map(|name| instance_type(&name, 4, 16, 10)).collect()
}

#[test]
fn ties_at_the_launch_limit_are_cut_by_list_order_or_by_name() {
    let mut cluster = TestCluster::new(types_beyond_the_limit(), vec![pod("web", 100)]);
    let dropped = |cluster: &TestCluster| {
        let kept = only_new_node(cluster).choices;
        assert_eq!(kept.len(), MOST);
        let kept = |at: &usize| kept.iter().any(|choice| choice.instance_type() == *at);
        (0..=MOST).find(|at| !kept(at))
    };
    assert_eq!(dropped(&cluster), Some(MOST));
    cluster.options.optimize = Optimize::Cost;
    assert_eq!(dropped(&cluster), Some(0));
}

/// Types of two families, so many that those of the more expensive one exceed the limit of a launch.
fn of_two_families() -> TestCluster {
    let mut types = types_beyond_the_limit();
    types[0] = instance_type("z", 4, 16, 20);
    for instance_type in &mut types {
        let family = if instance_type.name == "z" { "z" } else { "m" };
        let family = Requirement::new(labels::ARCH, Operator::In, [family.to_owned()]);
        instance_type.requirements.add(family);
    }
    TestCluster::new(types, vec![pod("web", 100)])
}

#[test]
fn min_values_apply_to_the_types_within_the_launch_limit() {
    let mut cluster = of_two_families();
    assert_eq!(only_new_node(&cluster).choices.len(), MOST);
    cluster.requirements = vec![at_least(2, wanting(labels::ARCH, Operator::Exists, &[]))];
    let result = cluster.solve();
    assert!(result.new_nodes.is_empty());
    let unmet = Reason::MinValues {
        key: labels::ARCH.to_owned(),
        wanted: 2,
        reached: 1,
    };
    assert_eq!(result.unplaced[0].reasons, [(Some(0), unmet)]);
    assert!(!result.unplaced[0].deferred);
    cluster.options.min_values_policy = MinValuesPolicy::BestEffort;
    assert_eq!(only_new_node(&cluster).choices.len(), MOST);
}

#[test]
fn each_type_is_a_choice_once() {
    // Bit sets have words of 64 bits.
    for number in [1, 63, 64, 65, 66] {
        let mut types = types_beyond_the_limit();
        types.truncate(number);
        for instance_type in &mut types {
            let mut larger = offering(ZONES[0], 11);
            larger.capacity_override = Some([("memory", 32 << 30)].into());
            instance_type.offerings.push(larger);
        }
        let cluster = TestCluster::new(types, vec![pod("web", 100)]);
        assert_eq!(only_new_node(&cluster).choices.len(), number);
    }
}

#[test]
fn node_claim_lists_the_capacity_types_of_its_choices() {
    let of = |name: &str, cents: i64, capacity_type: CapacityType| {
        let mut instance_type = instance_type(name, 4, 16, cents);
        for offering in &mut instance_type.offerings {
            offering.capacity_type = capacity_type;
        }
        let value = capacity_type.as_str().to_owned();
        let sold = Requirement::new(labels::CAPACITY_TYPE, Operator::In, [value]);
        instance_type.requirements.add(sold);
        instance_type
    };
    let types = vec![
        of("cheap", 5, CapacityType::Spot),
        of("dear", 10, CapacityType::OnDemand),
    ];
    let mut cluster = TestCluster::new(types, vec![pod("web", 100)]);
    let wanted = Requirement::new(
        labels::CAPACITY_TYPE,
        Operator::In,
        ["on-demand", "spot"].map(str::to_owned),
    );
    let capacity_types = |cluster: &TestCluster| {
        only_new_node(cluster)
            .requirements
            .get(labels::CAPACITY_TYPE)
            .cloned()
    };
    assert_eq!(capacity_types(&cluster), Some(wanted.clone()));
    let all = ["on-demand", "reserved", "spot"];
    let entry = wanting(labels::CAPACITY_TYPE, Operator::In, &all);
    cluster.requirements = vec![at_least(2, entry)];
    let wanted = Requirement {
        min_values: Some(2),
        ..wanted
    };
    assert_eq!(capacity_types(&cluster), Some(wanted));
}

#[test]
fn node_claim_has_no_min_values_by_default() {
    let mut web = pod("web", 100);
    web.node_selector
        .insert(labels::ZONE.to_owned(), ZONES[0].to_owned());
    let node = only_new_node(&TestCluster::new(
        vec![instance_type("m", 4, 16, 10)],
        vec![web],
    ));
    let zone = Requirement::new(labels::ZONE, Operator::In, [ZONES[0].to_owned()]);
    assert_eq!(node.requirements.get(labels::ZONE), Some(&zone));
}
