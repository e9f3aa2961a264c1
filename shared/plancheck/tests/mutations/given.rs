//! Labels that NodePools, launches and types set, and the possible domains of nodes that follow from them.

use model::selector::NodeSelectorRequirement;

use super::*;

const RACK: &str = "rack";

/// A NodePool with these requirements on a label, and a pod that requires the label.
fn wanting_a_rack(of_pool: &[NodeSelectorRequirement]) -> World {
    let mut snapshot = snapshot();
    snapshot.node_pools[0]
        .template
        .requirements
        .extend_from_slice(of_pool);
    let plan = plan(&snapshot);
    let mut world = World { snapshot, plan };
    world.pod("zonal-0").node_affinity.required = vec![term(&[wants(RACK, Operator::Exists, &[])])];
    world
}

#[test]
fn label_exists_if_node_pool_sets_it_or_launch_lists_values() {
    let given = wanting_a_rack(&[wants(RACK, Operator::Exists, &[])]);
    assert_eq!(given.refusals(), [""; 0]);
    let mut named = wanting_a_rack(&[]);
    let of_launch = &mut named.launch(ZONAL).spec.requirements;
    of_launch.push(one_of(RACK, &["r1"]));
    assert_eq!(named.refusals(), [""; 0]);
}

#[test]
fn label_excluding_a_value_may_be_absent() {
    let not_x = || wants(RACK, Operator::NotIn, &["x"]);
    let mut of_launch = wanting_a_rack(&[]);
    of_launch.launch(ZONAL).spec.requirements.push(not_x());
    for world in [of_launch, wanting_a_rack(&[not_x()])] {
        let refused = world.refusals();
        let is_it = |text: &String| text.contains("requires another value of rack");
        assert!(refused.iter().any(is_it), "{refused:?}");
    }
}

/// Spreads three pods over racks, with a launch for each on one of the NodePool's three racks.
fn racked(racks: [&str; 3]) -> Vec<String> {
    let mut snapshot = snapshot();
    let all = one_of(RACK, &["r0", "r1", "r2"]);
    snapshot.node_pools[0].template.requirements.push(all);
    let plan = plan(&snapshot);
    let mut world = World { snapshot, plan };
    let launches = [(ZONE_A, "a"), (ZONE_B, "b"), (ZONE_C, "c")];
    for ((at, zone), rack) in launches.into_iter().zip(racks) {
        let pods = world.launch(at).pods.clone();
        let pods: Vec<&str> = pods.iter().map(|pod| pod.key.name.as_str()).collect();
        let more = [
            one_of(ZONE, &[zone]),
            one_of(CAPACITY_TYPE, &["on-demand"]),
            one_of(RACK, &[rack]),
        ];
        let launch = launch_of(
            &world.snapshot,
            &format!("zone-{zone}"),
            "default",
            &more,
            &pods,
        );
        world.plan.actions[at] = launch;
    }
    for pod in ["spread-0", "spread-1", "spread-2"] {
        world.pod(pod).topology_spread = vec![spread("spread", RACK)];
    }
    world.refusals()
}

#[test]
fn pods_spread_by_label_unknown_to_instance_types() {
    assert_eq!(racked(["r0", "r1", "r2"]), [""; 0]);
    let refused = racked(["r0", "r0", "r2"]);
    assert!(refused[0].contains("number 2 in rack=r0"), "{refused:?}");
}

#[test]
fn pods_spread_by_label_listed_by_instance_types() {
    for requirement in [None, Some(wants(FAMILY, Operator::NotIn, &["x"]))] {
        let mut world = World::valid();
        world.pod("spread-0").topology_spread = vec![spread("spread", FAMILY)];
        for pod in ["spread-1", "spread-2"] {
            world.pod(pod).topology_spread.clear();
            world.pod(pod).labels = labels(&[("app", "other")]);
        }
        world.launch(ZONE_A).spec.requirements.extend(requirement);
        assert_eq!(world.refusals(), [""; 0]);
    }
}

#[test]
fn value_without_offering_is_no_domain() {
    let mut world = World::valid();
    for pod in ["apart-0", "apart-1"] {
        world.pod(pod).pod_anti_affinity.required = vec![near("apart", ZONE)];
    }
    for launch in [ZONE_A, ZONE_B] {
        let mut requirements = world.launch(launch).spec.requirements.iter_mut();
        let zones = requirements
            .find(|requirement| requirement.key == ZONE)
            .unwrap();
        zones.values.push("nowhere".into());
    }
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn node_in_flight_is_its_expected_offering() {
    let mut world = World::valid();
    world
        .launch(PLAIN)
        .spec
        .requirements
        .push(one_of(RACK, &["r1"]));
    let in_flight = intent(world.launch(PLAIN).clone());
    let zone = in_flight.launch.cheapest.zone.clone();
    world.snapshot.intents = vec![in_flight];
    world.plan.nominations[1].node = Expected::NodeClaim("on-its-way".into());
    let expected = [
        (ZONE, zone.as_str()),
        (CAPACITY_TYPE, "on-demand"),
        (RACK, "r1"),
    ];
    world.pod("late-0").node_selector = labels(&expected);
    assert_eq!(world.refusals(), [""; 0]);
}

/// Adds a requirement to the types of NodePool `default` with this name prefix.
fn require_label(snapshot: &mut Snapshot, types: &str, said: &NodeSelectorRequirement) {
    let all = snapshot.instance_types.get_mut(&"default".into()).unwrap();
    let all = std::sync::Arc::make_mut(all).iter_mut();
    for of_type in all.filter(|instance_type| instance_type.name.starts_with(types)) {
        of_type.requirements.add(said.into());
    }
}

#[test]
fn affinity_is_violated_if_the_label_may_have_any_value() {
    let refused = |others: &NodeSelectorRequirement| {
        let mut world = World::valid();
        let racked = (RACK.to_owned(), "r1".to_owned());
        world.node("n-1").labels.extend([racked.clone()]);
        world.claim("claim-n-1").labels.extend([racked]);
        require_label(&mut world.snapshot, "m", &one_of(RACK, &["r1"]));
        require_label(&mut world.snapshot, "c", others);
        world.pod("follower-0").pod_affinity.required = vec![near("web", RACK)];
        world.refusals()
    };
    assert_eq!(refused(&one_of(RACK, &["r1"])), [""; 0]);
    let refused = refused(&wants(RACK, Operator::NotIn, &["r2"]));
    assert!(refused[0].contains("follower-0 has no pod"), "{refused:?}");
}

#[test]
fn daemon_does_not_run_on_node_without_its_required_label() {
    let refused = |of_pool: &[NodeSelectorRequirement]| {
        let mut snapshot = snapshot();
        require_label(&mut snapshot, "", &wants(RACK, Operator::NotIn, &["r2"]));
        let requirements = &mut snapshot.node_pools[0].template.requirements;
        requirements.extend_from_slice(of_pool);
        let daemon = &mut snapshot.daemon_sets[0].pod;
        daemon.requests.set("cpu", 100_000);
        daemon.node_affinity.required = vec![term(&[one_of(RACK, &["r1"])])];
        snapshot.pods.retain(|pod| pod.owner.is_none());
        let plan = plan(&snapshot);
        World { snapshot, plan }.refusals()
    };
    assert_eq!(
        refused(&[wants(RACK, Operator::DoesNotExist, &[])]),
        [""; 0]
    );
    let refused = refused(&[]);
    assert!(refused[0].contains("do not fit"), "{refused:?}");
}
