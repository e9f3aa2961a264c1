//! Whether pods fit and may run on their places.

use model::labels::ZONE_ID;

use super::*;

/// Overrides an on-demand offering's capacity with a single core.
fn override_capacity(w: &mut World, name: &str, zone: &str) {
    for types in w.snapshot.instance_types.values_mut() {
        let types = std::sync::Arc::make_mut(types).iter_mut();
        let offerings = types
            .filter(|instance_type| instance_type.name == name)
            .flat_map(|instance_type| &mut instance_type.offerings);
        for offering in offerings.filter(|offering| offering.zone == zone) {
            offering.capacity_override = Some(Resources::from([("cpu", 1_000)]));
        }
    }
}

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "pods do not fit the smallest option",
        |w| w.pod("zonal-0").requests.set("cpu", 3_750),
        at(ZONAL),
        "its pods do not fit c.medium: 3950m cpu needed, 3900m left",
    ),
    (
        "a daemon takes the rest",
        |w| w.daemon(|pod| pod.requests.set("cpu", 2_850)),
        at(ZONAL),
        "its pods do not fit c.medium",
    ),
    (
        "a daemon of two types selected by name takes the rest of one",
        |w| {
            w.daemon(|pod| {
                pod.requests.set("cpu", 2_850);
                pod.node_affinity.required = ["c.medium", "m.medium"]
                    .map(|name| term(&[one_of(INSTANCE_TYPE, &[name])]))
                    .into()
            })
        },
        at(ZONAL),
        "its pods do not fit c.medium",
    ),
    (
        "a daemon of the last type alone takes its rest",
        |w| {
            w.daemon(|pod| {
                pod.requests.set("cpu", 2_850);
                let only = term(&[one_of(INSTANCE_TYPE, &["m.medium"])]);
                pod.node_affinity.required = vec![only]
            })
        },
        at(ZONAL),
        "its pods do not fit m.medium",
    ),
    (
        "every way to buy a type leaves less than the type",
        |w| {
            override_capacity(w, "c.medium", "b");
        },
        at(ZONAL),
        "its pods do not fit c.medium",
    ),
    (
        "too many pods share a node",
        |w| w.daemon(|pod| pod.requests.set("pods", 16)),
        at(PLAIN),
        "21 pods needed, 20 left",
    ),
    (
        "a resource no type has",
        |w| w.pod("zonal-0").requests.set("nvidia.com/gpu", 1),
        at(ZONAL),
        "1 nvidia.com/gpu needed, 0 left",
    ),
    (
        "10,000 cores in one pod",
        |w| w.pod("zonal-0").requests.set("cpu", 10_000_000),
        at(ZONAL),
        "cpu needed, 3900m left",
    ),
    (
        "pods need more of everything than a type has",
        |w| {
            let requests = &mut w.pod("zonal-0").requests;
            for resource in ["cpu", "memory", "pods"] {
                requests.set(resource, 1 << 50);
            }
        },
        at(ZONAL),
        "cpu needed, 3900m left",
    ),
    (
        "a node is full",
        |w| w.pod("web-1").requests.set("cpu", 7_500),
        Subject::Nomination(1),
        "does not fit node n-2: 500m cpu needed, 300m left",
    ),
    (
        "a daemon still to come takes a node's rest",
        |w| {
            w.snapshot.pods.retain(|pod| pod.key.name != "logs-n-2");
            w.pod("web-1").requests.set("cpu", 7_350)
        },
        Subject::Nomination(1),
        "does not fit node n-2",
    ),
    (
        "two pods use one host port",
        |w| {
            let pod = w.launch(ZONAL).pods.pop().unwrap();
            w.launch(PLAIN).pods.push(pod)
        },
        at(PLAIN),
        "two of its pods use host port 8080",
    ),
    (
        "a daemon has the host port",
        |w| w.daemon(|pod| pod.host_ports = vec![host_port(8080)]),
        at(PLAIN),
        "a daemon takes host port 8080",
    ),
    (
        "a host port is taken on a node",
        |w| {
            w.pod("web-1").host_ports = vec![host_port(53)];
            w.pod("late-0").host_ports = vec![host_port(53)]
        },
        Subject::Nomination(1),
        "host port 53 is taken",
    ),
    (
        "a pod does not tolerate the NodePool",
        |w| w.pod("dedicated-0").tolerations.clear(),
        at(DEDICATED),
        "does not tolerate taint dedicated:NoSchedule",
    ),
    (
        "a pod does not tolerate a node",
        |w| w.node("n-2").taints = vec![taint("maintenance")],
        Subject::Nomination(1),
        "does not tolerate taint maintenance",
    ),
    (
        "a node is cordoned",
        |w| w.node("n-2").unschedulable = true,
        Subject::Nomination(1),
        "cordoned",
    ),
    (
        "a node selector is ignored",
        |w| w.pod("zonal-0").node_selector = labels(&[(ZONE, "c")]),
        at(ZONAL),
        "requires another value of topology.kubernetes.io/zone",
    ),
    (
        "a node selector is left to chance",
        |w| w.pod("plain-0").node_selector = labels(&[(ZONE, "a")]),
        at(PLAIN),
        "requires another value of topology.kubernetes.io/zone",
    ),
    (
        "a custom label that no node has",
        |w| w.pod("zonal-0").node_selector = labels(&[("team", "b")]),
        at(ZONAL),
        "requires another value of team",
    ),
    (
        "another zone by its id",
        |w| {
            name_zones(w);
            w.pod("zonal-0").node_selector = labels(&[(ZONE_ID, "id-a")])
        },
        at(ZONAL),
        "requires another value of topology.k8s.aws/zone-id",
    ),
    (
        "no term of a required affinity holds",
        |w| {
            w.pod("zonal-0").node_affinity.required =
                ["a", "c"].map(|zone| term(&[one_of(ZONE, &[zone])])).into()
        },
        at(ZONAL),
        "requires another value of topology.kubernetes.io/zone",
    ),
    (
        "a required affinity is empty",
        |w| w.pod("zonal-0").node_affinity.required = vec![term(&[])],
        at(ZONAL),
        "requires another value of nothing",
    ),
    (
        "an existing node has the wrong label",
        |w| {
            w.pod("late-0").node_affinity.required =
                vec![term(&[wants(FAMILY, Operator::NotIn, &["m"])])]
        },
        Subject::Nomination(1),
        "instance-family",
    ),
    (
        "the node does not exist",
        |w| w.plan.nominations[1].node = Expected::Node("gone".into()),
        Subject::Nomination(1),
        "node/gone does not exist",
    ),
    (
        "the node is being drained",
        |w| w.plan.nominations[1].node = Expected::Node("n-3".into()),
        Subject::Nomination(1),
        "node/n-3 is being deleted",
    ),
];

/// Sets zone ids on all offerings.
fn name_zones(w: &mut World) {
    for types in w.snapshot.instance_types.values_mut() {
        let types = std::sync::Arc::make_mut(types).iter_mut();
        for offering in types.flat_map(|instance_type| &mut instance_type.offerings) {
            offering.zone_id = format!("id-{}", offering.zone);
        }
    }
}

#[test]
fn zone_may_be_selected_by_its_id() {
    let mut world = World::valid();
    name_zones(&mut world);
    world.pod("zonal-0").node_selector = labels(&[(ZONE_ID, "id-b")]);
    assert_eq!(check(&world.snapshot, &world.plan), []);
}
