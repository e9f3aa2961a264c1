//! Requirements of offerings, and the capacity of their nodes.

use model::{
    InstanceType, NanosPerHour, labels,
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::ReservedOfferingMode,
};

use crate::{
    SolveResult,
    test_cluster::{TestCluster, ZONES, instance_type, offering, pod, pods, reserved},
};

const FLAVOUR: &str = "example.com/flavour";

/// Offering of the cheapest choice for a small pod that selects these labels; `None` if the pod is unplaced.
fn cheapest_offering(cluster: &mut TestCluster, labels: &[(&str, &str)]) -> Option<usize> {
    let mut web = pod("web", 100);
    for (key, value) in labels {
        web.node_selector
            .insert((*key).to_owned(), (*value).to_owned());
    }
    cluster.pods = vec![web];
    offered(&cluster.solve())
}

fn offered(result: &SolveResult) -> Option<usize> {
    let node = result.new_nodes.first()?;
    Some(node.choices[0].offering())
}

fn cluster(types: Vec<InstanceType>) -> TestCluster {
    TestCluster::new(types, Vec::new())
}

#[test]
fn offerings_with_different_requirements_are_distinguished() {
    let mut instance_type = instance_type("m", 4, 16, 10);
    for (offering, flavour) in instance_type.offerings.iter_mut().zip(["mild", "hot"]) {
        offering.zone = ZONES[0].to_owned();
        offering.requirements = Requirements::default();
        let only = Requirement::new(FLAVOUR, Operator::In, [flavour.to_owned()]);
        offering.requirements.add(only);
    }
    let mut cluster = cluster(vec![instance_type]);
    cluster.well_known_labels = vec![FLAVOUR.to_owned()];
    assert_eq!(
        cheapest_offering(&mut cluster, &[(FLAVOUR, "mild")]),
        Some(0)
    );
    assert_eq!(
        cheapest_offering(&mut cluster, &[(FLAVOUR, "hot")]),
        Some(1)
    );
    assert_eq!(cheapest_offering(&mut cluster, &[(FLAVOUR, "sweet")]), None);
}

#[test]
fn zone_ids_can_be_selected_if_they_are_well_known() {
    let mut instance_type = instance_type("m", 4, 16, 10);
    for (offering, id) in instance_type
        .offerings
        .iter_mut()
        .zip(["use1-az1", "use1-az2"])
    {
        offering.zone_id = id.to_owned();
    }
    let mut cluster = cluster(vec![instance_type]);
    // Without the label, offerings do not require a zone id.
    assert_eq!(cheapest_offering(&mut cluster, &[]), Some(0));
    cluster.well_known_labels = vec![labels::ZONE_ID.to_owned()];
    assert_eq!(cheapest_offering(&mut cluster, &[]), Some(0));
    assert_eq!(
        cheapest_offering(&mut cluster, &[(labels::ZONE_ID, "use1-az2")]),
        Some(1)
    );
    assert_eq!(
        cheapest_offering(&mut cluster, &[(labels::ZONE_ID, "use1-az3")]),
        None
    );
    for offering in &mut cluster.types[0].offerings {
        offering.zone_id.clear();
    }
    assert_eq!(
        cheapest_offering(&mut cluster, &[(labels::ZONE_ID, "use1-az2")]),
        Some(0)
    );
}

#[test]
fn reservation_can_be_selected_by_id() {
    const LABEL: &str = "example.com/reservation";
    let mut instance_type = instance_type("m", 4, 16, 10);
    let reserved = ["cr-0", "cr-1"].map(|id| reserved(id, ZONES[0]));
    instance_type.offerings = [&reserved[..], &[offering(ZONES[0], 20)]].concat();
    let mut cluster = cluster(vec![instance_type]);
    cluster.options.reserved = Some(ReservedOfferingMode::Strict);
    cluster.options.reservation_id_label = LABEL;
    assert_eq!(cheapest_offering(&mut cluster, &[(LABEL, "cr-0")]), Some(0));
    assert_eq!(cheapest_offering(&mut cluster, &[(LABEL, "cr-1")]), Some(1));
    assert_eq!(cheapest_offering(&mut cluster, &[(LABEL, "cr-2")]), None);
}

/// Type with one offering per zone, the second of which overrides memory.
fn of_two_sizes(gigabytes: i64) -> TestCluster {
    let mut instance_type = instance_type("m", 4, 16, 10);
    instance_type.offerings[1].price = NanosPerHour(1);
    instance_type.offerings[1].capacity_override = Some([("memory", gigabytes << 30)].into());
    cluster(vec![instance_type])
}

#[test]
fn capacity_override_of_an_offering_applies_to_it() {
    let is_placed_on = |own: i64, wanted: i64| {
        let mut cluster = of_two_sizes(own);
        cluster.pods = pods("web", 1, 100, wanted);
        offered(&cluster.solve())
    };
    assert_eq!(
        [4, 12, 17].map(|wanted| is_placed_on(8, wanted)),
        [Some(1), Some(0), None]
    );
    assert_eq!(
        [4, 17, 33].map(|wanted| is_placed_on(32, wanted)),
        [Some(1), Some(1), None]
    );
}
