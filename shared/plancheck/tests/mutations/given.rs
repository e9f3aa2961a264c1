//! Labels that NodePools, launches and types give, and the domains that nodes may turn out to be in by them.

use model::selector::NodeSelectorRequirement;

use super::*;

const RACK: &str = "rack";

/// A NodePool whose nodes have what is wanted of this label, and a pod that wants the label.
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
fn a_label_is_there_if_the_node_pool_gives_it_or_the_launch_names_values() {
    let given = wanting_a_rack(&[wants(RACK, Operator::Exists, &[])]);
    assert_eq!(given.refusals(), [""; 0]);
    let mut named = wanting_a_rack(&[]);
    let of_launch = &mut named.launch(ZONAL).spec.requirements;
    of_launch.push(one_of(RACK, &["r1"]));
    assert_eq!(named.refusals(), [""; 0]);
}

#[test]
fn a_label_that_must_not_have_a_value_may_be_missing() {
    let not_x = || wants(RACK, Operator::NotIn, &["x"]);
    let mut of_launch = wanting_a_rack(&[]);
    of_launch.launch(ZONAL).spec.requirements.push(not_x());
    for world in [of_launch, wanting_a_rack(&[not_x()])] {
        let refused = world.refusals();
        let is_it = |text: &String| text.contains("wants another value of rack");
        assert!(refused.iter().any(is_it), "{refused:?}");
    }
}

/// Three pods are spread over racks, and each gets a node of one, of three that the NodePool knows.
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
fn pods_are_spread_by_a_label_that_no_type_knows() {
    assert_eq!(racked(["r0", "r1", "r2"]), [""; 0]);
    let refused = racked(["r0", "r0", "r2"]);
    assert!(refused[0].contains("number 2 in rack=r0"), "{refused:?}");
}

#[test]
fn pods_are_spread_by_a_label_that_types_list() {
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
fn a_value_that_nothing_offers_is_no_domain() {
    let mut world = World::valid();
    for pod in ["apart-0", "apart-1"] {
        world.pod(pod).pod_anti_affinity.required = vec![near("apart", ZONE)];
    }
    for launch in [ZONE_A, ZONE_B] {
        let mut requirements = world.launch(launch).spec.requirements.iter_mut();
        let zones = requirements.find(|one| one.key == ZONE).unwrap();
        zones.values.push("nowhere".into());
    }
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn a_node_on_its_way_is_what_it_is_expected_to_become() {
    let mut world = World::valid();
    world
        .launch(PLAIN)
        .spec
        .requirements
        .push(one_of(RACK, &["r1"]));
    let on_its_way = intent(world.launch(PLAIN).clone());
    let zone = on_its_way.launch.cheapest.zone.clone();
    world.snapshot.intents = vec![on_its_way];
    world.plan.nominations[1].node = Expected::NodeClaim("on-its-way".into());
    let expected = [
        (ZONE, zone.as_str()),
        (CAPACITY_TYPE, "on-demand"),
        (RACK, "r1"),
    ];
    world.pod("late-0").node_selector = labels(&expected);
    assert_eq!(world.refusals(), [""; 0]);
}

/// What the types of NodePool `default` whose names begin like this say of the label.
fn say(snapshot: &mut Snapshot, types: &str, said: &NodeSelectorRequirement) {
    let all = snapshot.instance_types.get_mut(&"default".into()).unwrap();
    let all = std::sync::Arc::make_mut(all).iter_mut();
    for of_type in all.filter(|one| one.name.starts_with(types)) {
        of_type.requirements.add(said.into());
    }
}

#[test]
fn a_pod_is_near_nobody_by_a_label_that_may_have_any_value() {
    let refused = |others: &NodeSelectorRequirement| {
        let mut world = World::valid();
        let racked = (RACK.to_owned(), "r1".to_owned());
        world.node("n-1").labels.extend([racked.clone()]);
        world.claim("claim-n-1").labels.extend([racked]);
        say(&mut world.snapshot, "m", &one_of(RACK, &["r1"]));
        say(&mut world.snapshot, "c", others);
        world.pod("follower-0").pod_affinity.required = vec![near("web", RACK)];
        world.refusals()
    };
    assert_eq!(refused(&one_of(RACK, &["r1"])), [""; 0]);
    let refused = refused(&wants(RACK, Operator::NotIn, &["r2"]));
    assert!(refused[0].contains("follower-0 has no pod"), "{refused:?}");
}

#[test]
fn a_daemon_that_wants_a_label_does_not_run_where_that_must_not_be() {
    let refused = |of_pool: &[NodeSelectorRequirement]| {
        let mut snapshot = snapshot();
        say(&mut snapshot, "", &wants(RACK, Operator::NotIn, &["r2"]));
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
